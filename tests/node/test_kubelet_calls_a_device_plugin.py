"""A node whose runtime has no NRI: real kubelet and containerd, our scheduler, and our agent as
kubelet's device plugin; cards come by their CDI names."""

import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from tessera_agent.device_plugin.allocations import RecordedAllocation
from tessera_kubelet.pod_resources import open_pod_resources
from tests.node.agents import until
from tests.node.cdi import write_specification
from tests.node.conftest import OpenCluster
from tests.node.cri import Container
from tests.node.dialects import DIALECTS, ISOLATED, RESULTS
from tests.node.kubelet import Node

OUT_OF_MEMORY = 2
CARD = "TESSERA_SIM_DEVICES"
POD_RESOURCES = "/var/lib/kubelet/pod-resources/kubelet.sock"


@asynccontextmanager
async def a_node(opened: OpenCluster, **more: str) -> AsyncGenerator[Node]:
    """It, ready; `more`: variables of the agent."""
    env = {"TESSERA_GIVING": "allocate", **more}
    async with opened(nri=False, required=(), agent_env=env) as node:
        await write_specification(node.runtime)
        yield node


async def work(container: Container) -> dict[str, Any]:
    """What the program in it says of its first card."""
    await until(lambda: bool(container.printed()))
    found: dict[str, Any] = json.loads(container.printed()[0])
    return found


def hami(mib: int) -> dict[str, str]:
    """A part of one card."""
    return {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(mib)}


def checkpoint(node: Node) -> Path:
    """What the agent writes down."""
    return node.agent.folder / "allocations-nvidia.json"


def allocations(node: Node) -> tuple[RecordedAllocation, ...]:
    """What is written there."""
    kept = msgspec.json.decode(checkpoint(node).read_bytes())
    return msgspec.convert(kept["allocations"], tuple[RecordedAllocation, ...])


def registrations(node: Node) -> int:
    """How often kubelet has taken a name, since the agent started."""
    return node.agent.process.log.read_text().count('"registered with kubelet"')


async def has(node: Node) -> dict[tuple[str, str, str], frozenset[str]]:
    """Pod, container and resource -> ids, as kubelet lists them."""
    socket = node.runtime.island.outside(POD_RESOURCES)
    async with open_pod_resources(socket, 20) as resources:
        return {
            (pod.name, container, resource): ids
            for pod in await resources.list()
            for container, found in pod.containers.items()
            for resource, ids in found.items()
        }


async def test_pods_get_their_cards_and_keep_them(open_cluster_node: OpenCluster) -> None:
    async with a_node(open_cluster_node) as node:
        for step in (
            _every_dialect, _equal_pods_at_once, _init_containers, _kubelet_is_killed,
            _what_was_given_to_another_does_not_start, _what_is_gone_is_forgotten,
            _what_was_refused_starts_by_itself,
        ):  # fmt: skip
            before = time.monotonic()
            await step(node)
            print(f"{step.__name__}: {time.monotonic() - before:.1f} s")  # noqa: T201  (a figure)


async def test_names_in_an_annotation_are_read_and_numa_nodes_are_listed(
    open_cluster_node: OpenCluster,
) -> None:
    more = {"TESSERA_DELIVERY_STRATEGY": "cdi-annotations", "TESSERA_PLUGIN_NUMA": "true"}
    async with a_node(open_cluster_node, **more) as node:
        await node.pod("job", hami(700))
        job = await node.running("job")
        assert (await work(job))["total_mib"] == 700
        env = await job.env()
        assert env["NVIDIA_VISIBLE_DEVICES"] == "void"
        assert env[CARD] in node.runtime.cards
        assert {id_ for ids in (await has(node)).values() for id_ in ids} == {
            id_ for one in allocations(node) for id_ in one.ids
        }
        assert all(id_.startswith("0.") for one in allocations(node) for id_ in one.ids)


async def _every_dialect(node: Node) -> None:
    for name, (limits, mib) in DIALECTS.items():
        before = time.monotonic()
        await node.pod(name, limits, labels=ISOLATED if name == "koordinator" else {})
        container = await node.running(name)
        print(f"{name}: running after {time.monotonic() - before:.1f} s")  # noqa: T201  (a figure)
        said = await work(container)
        assert abs(said["total_mib"] - mib) <= 1, name
        assert (said["over_result"], said["taken_result"]) == (OUT_OF_MEMORY, 0), name
        env = await container.env()
        assert env["NVIDIA_VISIBLE_DEVICES"] == "void", name
        assert env[CARD] in node.runtime.cards
        assert RESULTS[name] in (await node.get(name))["metadata"]["annotations"]
    assert await has(node) == {
        (one.pod, one.container, one.resource): frozenset(one.ids) for one in allocations(node)
    }


async def _equal_pods_at_once(node: Node) -> None:
    """Kubelet cannot distinguish them; each gets what is its own."""
    sizes = {f"equal-{i}": 300 + i for i in range(5)}
    for name, mib in sizes.items():
        await node.pod(name, hami(mib))
    for name, mib in sizes.items():
        assert (await work(await node.running(name)))["total_mib"] == mib, name


async def _init_containers(node: Node) -> None:
    prepare = {
        "name": "prepare", "image": "localhost/tessera/work:1", "imagePullPolicy": "Never",
        "command": ["tessera-work"], "env": [{"name": "WORK_SECONDS", "value": "1"}],
        "resources": {"limits": hami(600)},
    }  # fmt: skip
    await node.pod("several", hami(400), initContainers=[prepare])
    assert (await work(await node.running("several")))["total_mib"] == 400
    first = await node.container("several", kind="initContainer", name="prepare")
    assert (await work(first))["total_mib"] == 600


async def _is_untouched(node: Node, job: Container) -> None:
    (status,) = (await node.get("hami"))["status"]["containerStatuses"]
    assert status["containerID"].endswith(job.id)
    assert status["restartCount"] == 0
    assert await job.runs()
    assert len(job.printed()) == 1


async def _kubelet_is_killed(node: Node) -> None:
    job = await node.container("hami")
    before = registrations(node)
    await node.restart_kubelet()
    await until(lambda: registrations(node) >= 2 * before)
    await node.pod("after-kubelet", hami(500))
    assert (await work(await node.running("after-kubelet")))["total_mib"] == 500
    await _is_untouched(node, job)


async def _what_was_given_to_another_does_not_start(node: Node) -> None:
    """The agent is made to believe that two pods have each other's ids; then one starts again."""
    job = await node.container("hami")
    await node.agent.kill()
    written = checkpoint(node).read_bytes()
    kept = msgspec.json.decode(written)
    one, other = (e for e in kept["allocations"] if e["pod"] in ("equal-0", "equal-1"))
    one["ids"], other["ids"] = other["ids"], one["ids"]
    checkpoint(node).write_bytes(msgspec.json.encode(kept))
    await node.agent.restart()
    first = await (await node.container("equal-0")).pid()
    await node.runtime.island.run("kill", "-9", str(first))
    said = await node.waiting("equal-0", "CreateContainerConfigError")
    assert "kubelet gave them to pod" in said
    assert "equal-0, container main, we to pod" in said
    assert await node.agent.shows('tessera_agent_alarms_total{what="AllocatedToAnother"}', 1)
    await node.agent.kill()
    checkpoint(node).write_bytes(written)
    await node.agent.restart()
    await node.pod("after-agent", hami(501))
    assert (await work(await node.running("after-agent")))["total_mib"] == 501
    await _is_untouched(node, job)


async def _what_was_refused_starts_by_itself(node: Node) -> None:
    assert (await work(await node.running("equal-0")))["total_mib"] == 300


async def _what_is_gone_is_forgotten(node: Node) -> None:
    gone = [name for name in DIALECTS if name != "hami"]
    for name in gone:
        await node.cluster.admin.delete(node.cluster.pods_path(name))
    await until(lambda: not {one.pod for one in allocations(node)}.intersection(gone))
    assert {one.pod for one in allocations(node)} >= {"hami", "equal-1"}
