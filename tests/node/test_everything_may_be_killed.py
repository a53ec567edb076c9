"""Agent and runtime end without notice; what runs goes on as it was."""

import asyncio
import json
import time

import pytest

from tessera_schema.cards import MIB
from tests.agent.limitsfile import limits_in
from tests.node.agents import Agent, a_part, grant_of, until
from tests.node.conftest import OpenNode
from tests.node.cri import Container, NotDone, Pod
from tests.node.runtime import WORK, Containerd
from tests.node.toolkit import DRIVER

ASK = ("env", *DRIVER, "WORK_SECONDS=1", "WORK_MEMORY_PERCENT=1", "WORK_BUSY=0", "tessera-work")


async def a_job(node: Containerd, name: str = "job", mib: int = 10_000) -> tuple[Pod, Container]:
    uid = f"uid-{name}"
    pod = await node.pod(name, uid=uid, annotations=grant_of(uid, a_part(node, mib)))
    container = await pod.run(image=WORK)
    await until(lambda: bool(container.printed()))
    return pod, container


async def goes_on(container: Container, agent: Agent, name: str = "job") -> None:
    """It runs, its limits stand, and another process in it is held to what is left of them."""
    assert await container.runs()
    limits = limits_in(agent.folder / f"containers/uid-{name}/main/limits")
    assert limits.cards[0].memory_bytes == 10_000 * MIB
    said = json.loads((await container.reads(*ASK)).splitlines()[0])
    assert (said["total_mib"], said["over_result"]) == (10_000, 2)
    assert said["free_mib"] < 5_100


async def test_the_agent_is_killed(open_node: OpenNode) -> None:
    async with open_node() as (node, agent):
        _, job = await a_job(node)
        for _ in range(2):
            await agent.kill()
            await goes_on(job, agent)
            await agent.restart()
            await goes_on(job, agent)
        with pytest.raises(NotDone, match="10000 of 16384 MiB in use"):
            await a_job(node, "another")


async def test_the_runtime_is_killed(open_node: OpenNode) -> None:
    async with open_node() as (node, agent):
        pod, job = await a_job(node)
        await node.restart()
        await agent.ready()
        await goes_on(job, agent)
        with pytest.raises(NotDone, match="10000 of 16384 MiB in use"):
            await a_job(node, "another")
        await pod.end()
        await a_job(node, "third")


async def test_both_are_killed_and_the_job_ends_meanwhile(open_node: OpenNode) -> None:
    async with open_node() as (node, agent):
        _, job = await a_job(node)
        pid = await job.pid()
        await agent.kill()
        await node.process.stop()
        await node.island.run("sh", "-c", f"kill -9 {pid}")
        await node.process.start()
        await node.ready()
        await agent.restart()
        assert not await job.runs()
        await a_job(node, "another")


async def test_containers_wait_for_an_agent_that_restarts_but_for_one_which_is_reported(
    open_node: OpenNode,
) -> None:
    async with open_node() as (node, agent):
        pods = []
        for i in range(6):
            grant = grant_of(f"uid-p{i}", a_part(node, 1000, card=i % 2))
            pods.append(await node.pod(f"p{i}", uid=f"uid-p{i}", annotations=grant))
        await agent.kill()
        async with asyncio.TaskGroup() as tasks:
            made = [tasks.create_task(_sooner_or_later(pod), name=f"pod {pod.uid}") for pod in pods]
            tasks.create_task(agent.restart(), name="agent")
        totals = [await total_mib(task.result()) for task in made]
        # The runtime may ask the agent that was just killed, and takes no answer for one.
        missed = totals.count(None)
        assert missed <= 1
        assert totals.count(1000) == len(totals) - missed
        alert = 'tessera_agent_alarms_total{what="StartedWithoutAgent"}'
        assert await agent.metric(alert) == missed


async def total_mib(container: Container) -> int | None:
    """The memory of the card that it sees; None where it sees none."""
    await until(lambda: bool(container.printed()))
    found: int | None = json.loads(container.printed()[0]).get("total_mib")
    return found


async def _sooner_or_later(pod: Pod) -> Container:
    """As kubelet asks: again and again."""
    attempt = 0
    async with asyncio.timeout(60):
        while True:
            try:
                return await pod.run(image=WORK, attempt=attempt)
            except NotDone as e:
                if "required plugin" not in str(e):
                    raise
            attempt += 1
            await asyncio.sleep(0.1)


async def test_the_agent_costs_a_container_little(open_node: OpenNode) -> None:
    async with open_node() as (node, agent):
        spent = []
        for i in range(10):
            uid = f"uid-p{i}"
            pod = await node.pod(f"p{i}", uid=uid, annotations=grant_of(uid, a_part(node, 100)))
            before = time.monotonic()
            await pod.create(image=WORK)
            spent.append(time.monotonic() - before)
        assert await agent.metric("tessera_agent_prepared_total") == 10
        print(f"CreateContainer: median {sorted(spent)[5] * 1000:.1f} ms")  # noqa: T201  (a figure)
