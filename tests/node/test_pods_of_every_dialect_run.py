"""From the API server to the program in the container: real kube-scheduler, kubelet and containerd,
our scheduler and agent, simulated cards."""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tessera_core.hook.paths import HOOK_LIBRARY, HOOK_LIBRARY_HOST, PRELOAD
from tests.node.agents import until
from tests.node.conftest import OpenCluster
from tests.node.cri import Container
from tests.node.dialects import DIALECTS, ISOLATED, RESULTS
from tests.node.kubelet import Node
from tests.node.runtime import GREEDY
from tests.node.toolkit import STANDARD

SCHEDULER = "tessera-scheduler"
"""The profile that stands here for a cluster's default one."""
KOORDINATORS = "/usr/local/vgpu"
LOCKS = "/tmp/vgpulock"  # noqa: S108  (the path that Koordinator's library opens)
OUT_OF_MEMORY = 2
ALL = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}


@pytest.fixture
def locks() -> Iterator[None]:
    """The island's /tmp is the machine's: who makes this folder there has it alone, as it can be
    removed although somebody has mounted on it; and leaves no trace."""
    machines = os.open(Path(LOCKS).parent, os.O_RDONLY)
    try:
        fcntl.flock(machines, fcntl.LOCK_EX)
        yield
        with suppress(OSError):
            Path(LOCKS).rmdir()
    finally:
        os.close(machines)


async def work(container: Container) -> dict[str, Any]:
    """What the program in it says of its first card, or of having none."""
    await until(lambda: bool(container.printed()))
    found: dict[str, Any] = json.loads(container.printed()[0])
    return found


async def a_hami_pod(node: Node, name: str = "job") -> Container:
    await node.pod(name, DIALECTS["hami"][0])
    return await node.running(name)


async def with_koordinators_files(node: Node) -> None:
    """What a DaemonSet of Koordinator's users puts on a node, which may stay there."""
    await node.runtime.island.run(
        "sh", "-c", f"mkdir -p {KOORDINATORS} && echo theirs > {KOORDINATORS}/libvgpu.so"
        f" && echo {KOORDINATORS}/libvgpu.so > {KOORDINATORS}/ld.so.preload"
        f" && mkdir -p {LOCKS} && mount -t tmpfs tmpfs {LOCKS} && touch {LOCKS}/lock",
    )  # fmt: skip


async def finds_its_driver(container: Container, mib: int) -> None:
    """Where GPU Manager's users look for it: the program of their examples, and the libraries."""
    said = await container.reads("/usr/local/nvidia/bin/nvidia-smi", "pmon", "-d", "10")
    assert json.loads(said.splitlines()[0])["total_mib"] == mib
    searched = (await container.env())["LD_LIBRARY_PATH"]
    assert searched.split(":")[0] == "/usr/local/nvidia/lib64"
    for library in ("libcuda.so.1", "libnvidia-ml.so.1"):
        await container.reads("ls", "-L", f"/usr/local/nvidia/lib64/{library}")
    loaded = await container.reads("sh", "-c", "cat /proc/[0-9]*/maps")
    assert f"{STANDARD}/libcuda.so.1" in loaded
    assert await container.does("touch", "/usr/local/nvidia/lib64/libcuda.so.2") != (0, "")


async def their_files_are_not_touched(node: Node, container: Container) -> None:
    """Koordinator's files lie on the node as they lay; Tessera's limit its pod's container."""
    listed = f"cat {KOORDINATORS}/libvgpu.so {KOORDINATORS}/ld.so.preload; ls {LOCKS}"
    said = await node.runtime.island.run("sh", "-c", listed)
    assert said == f"theirs\n{KOORDINATORS}/libvgpu.so\nlock\n"
    mounts = {m["destination"]: m["source"] for m in (await container.spec())["mounts"]}
    assert mounts[f"{KOORDINATORS}/libvgpu.so"] == HOOK_LIBRARY_HOST
    assert LOCKS not in mounts
    assert await container.reads("cat", PRELOAD) == f"{HOOK_LIBRARY}\n"


@pytest.mark.usefixtures("locks")
async def test_all_share_one_card_and_none_gets_more_than_its_part(
    open_cluster_node: OpenCluster,
) -> None:
    async with open_cluster_node(cards="cards=1 memory=16g") as node:
        await with_koordinators_files(node)
        for name, (limits, mib) in DIALECTS.items():
            before = time.monotonic()
            await node.pod(name, limits, labels=ISOLATED if name == "koordinator" else {})
            container = await node.running(name)
            print(f"{name}: running after {time.monotonic() - before:.1f} s")  # noqa: T201  (a figure)
            said = await work(container)
            assert abs(said["total_mib"] - mib) <= 1, name
            assert (said["over_result"], said["taken_result"]) == (OUT_OF_MEMORY, 0), name
            assert (await container.env())["NVIDIA_VISIBLE_DEVICES"] == node.runtime.cards[0]
            assert RESULTS[name] in (await node.get(name))["metadata"]["annotations"]
        for name in ("tencent", "inspur"):
            await finds_its_driver(await node.container(name), DIALECTS[name][1])
        await their_files_are_not_touched(node, await node.container("koordinator"))


async def test_no_variable_of_image_pod_or_config_map_shows_a_card(
    open_cluster_node: OpenCluster,
) -> None:
    async with open_cluster_node() as node:
        maps = node.cluster.pods_path().replace("/pods", "/configmaps")
        data = {"NVIDIA_VISIBLE_DEVICES": "all"}
        await node.cluster.make(maps, {"metadata": {"name": "all"}, "data": data})
        from_map = [{"configMapRef": {"name": "all"}}]
        pods: dict[str, dict[str, Any]] = {
            "by-image": {"image": GREEDY},
            "by-author": {"env": [ALL]},
            "by-config-map": {"envFrom": from_map},
        }
        for name, main in pods.items():
            await node.pod(name, {}, schedulerName=SCHEDULER, main=main)
        for name in pods:
            assert await work(await node.running(name)) == {"event": "no driver"}, name
        for name in ("by-author", "by-config-map"):
            twice = {**pods[name], "image": GREEDY}
            await node.pod(f"twice-{name}", {}, schedulerName=SCHEDULER, main=twice)
            said = await node.waiting(f"twice-{name}", "CreateContainerError")
            assert "NVIDIA_VISIBLE_DEVICES is set by its image and by the pod" in said


async def test_a_debugger_in_a_running_pod_sees_no_card(open_cluster_node: OpenCluster) -> None:
    async with open_cluster_node() as node:
        await a_hami_pod(node)
        added = {"name": "debugger", "image": GREEDY, "imagePullPolicy": "Never"}
        path = f"{node.cluster.pods_path('job')}/ephemeralcontainers"
        patch = {"spec": {"ephemeralContainers": [added]}}
        assert (await node.cluster.admin.patch(path, patch)).status == 200
        debugger = await node.running("job", kind="ephemeralContainer", name="debugger")
        assert await work(debugger) == {"event": "no driver"}


async def test_a_pod_that_is_bound_while_the_agent_is_away_starts_when_it_is_back(
    open_cluster_node: OpenCluster,
) -> None:
    async with open_cluster_node() as node:
        await a_hami_pod(node, "first")
        await node.agent.kill()
        await node.pod("job", DIALECTS["hami"][0])
        said = await node.waiting("job", "CreateContainerError")
        assert 'required plugin "tessera" not present' in said
        await node.agent.restart()
        before = time.monotonic()
        assert (await work(await node.running("job")))["total_mib"] == DIALECTS["hami"][1]
        print(f"running {time.monotonic() - before:.1f} s after the agent is ready")  # noqa: T201  (a figure)


async def test_kubelet_runtime_and_agent_are_killed_and_no_container_notices(
    open_cluster_node: OpenCluster,
) -> None:
    async with open_cluster_node() as node:
        job = await a_hami_pod(node)
        for i, restart in enumerate((
            node.restart_kubelet, node.runtime.restart, node.agent.killed_and_restarted
        )):  # fmt: skip
            await restart()
            after = await a_hami_pod(node, f"after-{i}")
            assert (await work(after))["total_mib"] == DIALECTS["hami"][1]
            (status,) = (await node.get("job"))["status"]["containerStatuses"]
            assert status["containerID"].endswith(job.id)
            assert status["restartCount"] == 0
            assert await job.runs()
        assert len(job.printed()) == 1


async def test_init_containers_and_sidecars_have_their_own_parts(
    open_cluster_node: OpenCluster,
) -> None:
    async with open_cluster_node() as node:
        prepare = {
            "name": "prepare", "image": "localhost/tessera/work:1", "imagePullPolicy": "Never",
            "command": ["tessera-work"], "env": [{"name": "WORK_SECONDS", "value": "1"}],
            "resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8000"}},
        }  # fmt: skip
        await node.pod("job", DIALECTS["hami"][0], initContainers=[prepare])
        assert (await work(await node.running("job")))["total_mib"] == DIALECTS["hami"][1]
        first = await node.container("job", kind="initContainer", name="prepare")
        assert (await work(first))["total_mib"] == 8000


async def test_what_a_deleted_pod_had_is_given_to_the_next(
    open_cluster_node: OpenCluster,
) -> None:
    async with open_cluster_node(cards="cards=1 memory=16g") as node:
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "16000"}
        await node.pod("first", limits, terminationGracePeriodSeconds=1)
        await node.running("first")
        await node.pod("second", limits)
        before = time.monotonic()
        await node.cluster.admin.delete(node.cluster.pods_path("first"))
        await node.running("second")
        print(f"running {time.monotonic() - before:.1f} s after the other was deleted")  # noqa: T201  (a figure)
        assert (await work(await node.running("second")))["total_mib"] == 16000
