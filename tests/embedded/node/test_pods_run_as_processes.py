"""The node carries pods: in order, to their end, again after its own death, and leaves nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from asyncio.subprocess import Process
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tessera_embedded.node.container import ContainerRecord, ContainerRunner, sandbox_of
from tessera_embedded.node.open import open_node
from tessera_embedded.node.pods import ContainerSpec, NodePod, read_pod
from tessera_embedded.node.processes import LOST, is_alive, start
from tessera_embedded.node.settings import NodeDescription
from tessera_kubelet.nri.types import Adjustment, ContainerInfo, CreationRefused
from tessera_runtime.errors import ApiNotFound
from tessera_runtime.kube.reflector import WatchEventType
from tessera_schema.kube import ObjectMeta
from tests.agent.machine import BUILD
from tests.embedded.node.setting import NodeUnderTest, a_cluster, build, share_of


def test_what_pods_run_is_built() -> None:
    build()
    assert (BUILD / "tessera-work").exists()


async def test_a_process_is_limited_to_its_share(tmp_path: Path) -> None:
    async with a_cluster(tmp_path) as world:
        given = share_of(tmp_path, mib=1024, permille=300)
        world.agent.give = lambda _: given
        async with world.node():
            await world.pod("p", "work")
            pod = await world.phase("p", "Running")
            uid = pod["metadata"]["uid"]
            while not (log := world.log(uid)):
                await asyncio.sleep(0.05)
    assert log[0]["total_mib"] == 1024
    assert log[0]["over_result"] == 2  # CUDA_ERROR_OUT_OF_MEMORY
    assert log[0]["taken_result"] == 0


async def test_a_container_without_a_card_finds_no_driver(tmp_path: Path) -> None:
    async with a_cluster(tmp_path) as world:
        world.agent.give = lambda _: Adjustment(env={"NVIDIA_VISIBLE_DEVICES": "void"})
        async with world.node():
            await world.pod("p", "work", restartPolicy="Never")
            pod = await world.phase("p", "Failed")
            (status,) = pod["status"]["containerStatuses"]
            assert status["state"]["terminated"]["exitCode"] == 3


async def test_init_containers_go_first_and_a_failed_one_ends_the_pod(tmp_path: Path) -> None:
    async with a_cluster(tmp_path) as world, world.node():
        await world.pod("good", "true", init=("true", "true"), restartPolicy="Never")
        await world.phase("good", "Succeeded")
        await world.pod("bad", "true", init=("false",), restartPolicy="Never")
        pod = await world.phase("bad", "Failed")
    started = [reported for reported in world.agent.reported if reported.startswith("started")]
    assert started == ["started i0", "started i1", "started c0", "started i0"]
    assert pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "PodInitializing"


async def test_a_pod_that_has_ended_is_not_carried_again_by_old_messages(tmp_path: Path) -> None:
    async with a_cluster(tmp_path) as world, world.node() as node:
        await world.pod("p", "true", restartPolicy="Never")
        now = read_pod(msgspec.json.encode(await world.phase("p", "Succeeded")))
        while node.workers:
            await asyncio.sleep(0.02)
        node.on_event(WatchEventType.MODIFIED, NodePod(now.metadata, now.spec), 0)
        assert not node.workers


async def test_a_pod_that_is_deleted_while_it_is_cleared_away_goes(tmp_path: Path) -> None:
    may_go_on = threading.Event()
    with ThreadPoolExecutor(1) as one_at_a_time:
        asyncio.get_running_loop().set_default_executor(one_at_a_time)
        async with a_cluster(tmp_path) as world, world.node() as node:
            await world.pod("p", "sleep", restartPolicy="Never")
            pod = await world.phase("p", "Running")
            held_up = asyncio.get_running_loop().run_in_executor(None, may_go_on.wait)
            kept = (world.folder / "pods" / pod["metadata"]["uid"] / "c0" / "kept").read_bytes()
            os.killpg(msgspec.json.decode(kept, type=ContainerRecord).process.pid, signal.SIGKILL)
            while "pod removed p" not in world.agent.reported:
                await asyncio.sleep(0.02)
            await world.phase("p", "Failed")
            now = read_pod(msgspec.json.encode(await world.read("p")))
            leaving = replace(now.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
            node.on_event(WatchEventType.MODIFIED, NodePod(leaving, now.spec, now.status), 0)
            may_go_on.set()
            await held_up
            with pytest.raises(ApiNotFound):
                await world.until("p", lambda _: False)


async def test_a_process_whose_start_is_not_waited_for_is_ended(tmp_path: Path) -> None:
    pod = NodePod(metadata=ObjectMeta(name="p", uid="u"))
    carrier = ContainerRunner(
        NodeDescription(name="n1", programs={"*": ("sleep", "1000")}), tmp_path, {}
    )
    info = ContainerInfo(id="c", sandbox_id="s", name="main")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await carrier.run(pod, ContainerSpec(name="main"), (sandbox_of(pod), info), (0, 0))
    assert not _runs((tmp_path / "pods/u/main/kept").read_bytes())


async def test_a_container_that_fails_is_started_again(tmp_path: Path) -> None:
    async with a_cluster(tmp_path) as world, world.node():
        await world.pod("p", "false")
        await world.until("p", lambda pod: _restarts(pod) >= 2)


def _restarts(pod: dict[str, dict[str, list[dict[str, int]]]]) -> int:
    return sum(status["restartCount"] for status in pod["status"].get("containerStatuses", []))


async def test_a_refusal_is_reported_and_tried_again(tmp_path: Path) -> None:
    async with a_cluster(tmp_path) as world:
        world.agent.give = lambda _: CreationRefused(why="the card is full")
        async with world.node():
            await world.pod("p", "sleep")
            pod = await world.until("p", _waits_for_creation)
            (status,) = pod["status"]["containerStatuses"]
            assert "the card is full" in status["state"]["waiting"]["message"]
            world.agent.give = lambda _: Adjustment()
            await world.phase("p", "Running")


def _waits_for_creation(
    pod: dict[str, dict[str, list[dict[str, dict[str, dict[str, str]]]]]],
) -> bool:
    statuses = pod["status"].get("containerStatuses", [])
    return any(
        s["state"].get("waiting", {}).get("reason") == "CreateContainerError" for s in statuses
    )


async def test_a_deleted_pod_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    async with a_cluster(tmp_path) as world, world.node() as node:
        await world.pod("p", "sleep", "sleep")
        pod = await world.phase("p", "Running")
        await world.delete("p")
        with pytest.raises(ApiNotFound):
            await world.until("p", lambda _: False)
        while node.workers:
            await asyncio.sleep(0.02)
        assert not (world.folder / "pods" / pod["metadata"]["uid"]).exists()
    assert {"stopped c0", "removed c1", "pod removed p"} <= set(world.agent.reported)


async def test_containers_outlive_the_nodes_process_and_are_found_again(tmp_path: Path) -> None:
    async with a_cluster(tmp_path) as world:
        (uid,) = (await _left_running(world, "p")).values()
        (kept,) = (world.folder / "pods" / uid).glob("*/kept")
        before = kept.read_bytes()
        second = await _another_process(world)
        assert second.stdout is not None
        assert await second.stdout.readline() == b"ready\n"
        await world.delete("p")
        with pytest.raises(ApiNotFound):
            await world.until("p", lambda _: _is_another(kept, before))
        second.send_signal(signal.SIGTERM)
        assert await second.wait() == 0
        assert not _runs(before)


async def test_an_agent_learns_at_once_of_all_that_was_left_running(tmp_path: Path) -> None:
    async with a_cluster(tmp_path) as world:
        uids = await _left_running(world, "stays", "goes")
        kept = {
            name: (world.folder / "pods" / uid / "c0" / "kept").read_bytes()
            for name, uid in uids.items()
        }
        await world.delete("goes", at_once=True)
        async with world.node():
            while "removed c0" not in world.agent.reported:
                await asyncio.sleep(0.02)
            assert world.agent.found == ["c0", "c0"]
            assert _runs(kept["stays"])
            assert not _runs(kept["goes"])
        assert world.agent.reported.count("removed c0") == 1


async def test_a_node_that_ends_before_it_took_over_ends_what_was_left(tmp_path: Path) -> None:
    async with a_cluster(tmp_path) as world:
        (uid,) = (await _left_running(world, "p")).values()
        kept = (world.folder / "pods" / uid / "c0" / "kept").read_bytes()
        nowhere = tmp_path / "nowhere"
        config = msgspec.json.decode(world.kubeconfig.read_bytes())
        config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
        nowhere.write_bytes(msgspec.json.encode(config))
        async with open_node(nowhere, world.folder, NodeDescription(name="n1")):
            assert _runs(kept)
        assert not _runs(kept)


async def test_what_ended_before_it_was_taken_over_is_reported(tmp_path: Path) -> None:
    async with a_cluster(tmp_path) as world:
        (uid,) = (await _left_running(world, "p", restartPolicy="Never")).values()
        kept = msgspec.json.decode(
            (world.folder / "pods" / uid / "c0" / "kept").read_bytes(), type=ContainerRecord
        )
        carrier = ContainerRunner(NodeDescription(name="n1"), world.folder, {})
        carrier.recall()
        os.killpg(kept.process.pid, signal.SIGKILL)
        while is_alive(kept.process):
            await asyncio.sleep(0.02)
        assert [c.id for c in carrier.state()[1]] == [kept.container.id]
        pod = await world.read("p")
        found = carrier.adopt(read_pod(msgspec.json.encode(pod)), ContainerSpec(name="c0"))
        assert found is not None
        assert await found[1].wait() == LOST


async def test_a_process_that_was_not_written_down_in_time_is_ended(tmp_path: Path) -> None:
    place = tmp_path / "node/pods/u/main"
    lost = await asyncio.to_thread(start, ("sleep", "1000"), {"PATH": os.defpath}, place)
    async with a_cluster(tmp_path) as world, world.node():
        assert await lost.wait() == 128 + signal.SIGKILL


async def _another_process(world: NodeUnderTest) -> Process:
    """The node as a process of its own, without an agent."""
    description = world.folder.parent / "node.json"
    description.write_text('{"name":"n1","programs":{"*":["sleep","1000"]}}')
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tessera_embedded.node", "--kubeconfig", str(world.kubeconfig),
        "--folder", str(world.folder), "--description", str(description),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def _left_running(world: NodeUnderTest, *names: str, **spec: Any) -> dict[str, str]:
    """Pods whose containers run although the node's process was killed: name -> uid."""
    world.folder.mkdir()
    node = await _another_process(world)
    for name in names:
        await world.pod(name, "any", **spec)
    uids = {name: (await world.phase(name, "Running"))["metadata"]["uid"] for name in names}
    node.kill()
    await node.wait()
    return uids


def _is_another(kept: Path, before: bytes) -> bool:
    try:
        return kept.read_bytes() != before
    except FileNotFoundError:
        return False


def _runs(kept: bytes) -> bool:
    return is_alive(msgspec.json.decode(kept, type=ContainerRecord).process)


async def test_a_node_that_ends_in_order_ends_its_containers(tmp_path: Path) -> None:
    async with a_cluster(tmp_path) as world:
        async with world.node():
            await world.pod("p", "sleep")
            uid = (await world.phase("p", "Running"))["metadata"]["uid"]
            (kept,) = (world.folder / "pods" / uid).glob("*/kept")
            record = kept.read_bytes()
            assert _runs(record)
        assert not _runs(record)
