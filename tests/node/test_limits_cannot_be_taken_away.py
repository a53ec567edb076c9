"""A container mounts a volume above the agent's mounts, and another container of its pod removes
the mount points in it: the kernel then takes the mounts off. Admission refuses such a volume; here
nobody asks it."""

import json

from tests.node.agents import Agent, a_part, grant_of, until
from tests.node.conftest import OpenNode
from tests.node.cri import Container
from tests.node.runtime import WORK, Containerd

ASKING = {"WORK_ASK_MIB": "64", "WORK_BUSY": "0", "WORK_MEMORY_PERCENT": "1"}
OUT_OF_MEMORY = 2
GAP = 'tessera_agent_container_gap{container="main",gap="mounts-changed"'
ALERT = 'tessera_agent_alarms_total{what="LimitsNotEnforced"}'


async def two_containers(node: Containerd, *above: str) -> tuple[Container, Container]:
    """One that holds a share and has volumes above the mount points, and one that has the volumes
    elsewhere."""
    folders = [node.island.folder / f"volume-{n}" for n, _ in enumerate(above)]
    for folder in folders:
        folder.mkdir()
    pod = await node.pod("job", uid="uid-job", annotations=grant_of("uid-job", a_part(node, 4096)))
    holder = await pod.run(image=WORK, env=ASKING, volumes=dict(zip(above, folders, strict=True)))
    neighbour = await pod.run("neighbour", image=WORK, volumes={"/shared": folders[0]})
    await until(lambda: driver_calls(holder) == [(0, 4096)])
    return holder, neighbour


def driver_calls(container: Container) -> list[tuple[int, int]]:
    """What the driver said to each request, and the card's size that it showed with it."""
    lines = [json.loads(line) for line in container.printed() if "asked" in line]
    return [(line["result"], line["total_mib"]) for line in lines]


async def has_gap(agent: Agent) -> bool:
    return await agent.metric(GAP) == 1


async def test_limits_that_are_removed_close_it_and_are_reported(open_node: OpenNode) -> None:
    async with open_node() as (node, agent):
        holder, neighbour = await two_containers(node, "/usr/local")
        assert not await has_gap(agent)
        await neighbour.reads("rm", "/shared/tessera/limits")
        await until(lambda: driver_calls(holder)[-1] == (OUT_OF_MEMORY, 0))
        await until(lambda: has_gap(agent))
        assert await agent.metric(ALERT) >= 1
        # A file of their own at the same place, and a process that has read no limits yet.
        await neighbour.reads(
            "sh", "-c", "cat /usr/local/tessera/* > /shared/tessera/limits || true"
        )
        mine = ("env", "CUDA_DEVICE_MEMORY_LIMIT=16g", "WORK_SECONDS=1", "tessera-work")
        _, said = await holder.does(*mine)
        assert json.loads(said.splitlines()[0])["total_mib"] == 0
        assert driver_calls(holder)[-1] == (OUT_OF_MEMORY, 0)


async def test_a_hook_that_is_removed_is_reported(open_node: OpenNode) -> None:
    async with open_node() as (node, agent):
        _, neighbour = await two_containers(node, "/usr/local")
        await neighbour.reads("rm", "/shared/tessera/lib/libtessera.so")
        await until(lambda: has_gap(agent))


async def test_a_folder_that_is_moved_is_reported(open_node: OpenNode) -> None:
    async with open_node() as (node, agent):
        pod = await node.pod(
            "job", uid="uid-job", annotations=grant_of("uid-job", a_part(node, 4096))
        )
        holder = await pod.run(image=WORK, env=ASKING)
        await until(lambda: driver_calls(holder) == [(0, 4096)])
        assert not await has_gap(agent)
        await holder.reads("mv", "/usr/local/tessera", "/usr/local/aside")
        await until(lambda: driver_calls(holder)[-1] == (OUT_OF_MEMORY, 0))
        await until(lambda: has_gap(agent))
