"""What agents report that containers hold, against the ledger; and containers that outlive their
pod, with a real agent next to the scheduler."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from tessera_agent.agent import Agent
from tessera_agent.nri_plugin.settings import NriSettings
from tessera_agent.settings import AgentSettings
from tessera_agent.startup import open_agent
from tessera_core.machines.allocation import AllocationPhase
from tessera_kubelet.nri.types import Adjustment, ContainerInfo, PodSandbox
from tessera_runtime.bus.outbox import Outbox, open_outbox
from tessera_runtime.service import ServiceEnvironment
from tessera_schema.cards import MIB
from tessera_schema.messages.device_reports import CardHeld, DeviceState, decode_device, encode
from tessera_schema.subjects import DEVICES_BUCKET
from tessera_testing.readers import FakeReader, a_reading
from tests.scheduler.fake_cluster import (
    REGISTRY,
    FakeCluster,
    cards_on,
    counted,
    leading,
    phase,
    until,
)

pytestmark = pytest.mark.looptime
DIFFERING = 'audit_cards_differing{against="agents"}'
ALL = CardHeld(card="GPU-n0-0", containers=1, memory_bytes=4000 * MIB)


def report(outbox: Outbox, *held: CardHeld, node: str = "n0") -> None:
    """As an agent that looks on would."""
    state = DeviceState(node=node, vendor="nvidia", cards=tuple(cards_on(node)), held=held)
    outbox.publish_state(DEVICES_BUCKET, f"{node}.nvidia", "dev.tessera.device", encode(state))


@pytest.mark.parametrize(
    "more",
    [
        replace(ALL, memory_bytes=4000 * MIB + 1),
        replace(ALL, containers=2),
        replace(ALL, cores_percent=1),
        replace(ALL, card="GPU-n0-9"),
    ],
)
async def test_what_an_agent_reports_beyond_the_ledger_counts_when_it_is_repeated(
    more: CardHeld,
) -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 4000)
    async with (
        leading(cluster) as scheduler,
        open_outbox(cluster.bus, cluster.clock, "agent", "n0") as outbox,
    ):
        await cluster.place(scheduler, "a")
        report(outbox, ALL)
        await asyncio.sleep(30)
        report(outbox, more)
        await asyncio.sleep(5)
        report(outbox, more)
        await asyncio.sleep(1)
        assert counted(scheduler, DIFFERING) == 0
        report(outbox, more)
        await asyncio.sleep(30)
        report(outbox, more)
        await asyncio.sleep(1)
        assert counted(scheduler, DIFFERING) == 1
        report(outbox, ALL)
        await asyncio.sleep(1)
        assert counted(scheduler, DIFFERING) == 0


async def test_an_agent_that_falls_silent_is_not_believed_for_ever() -> None:
    cluster = FakeCluster(1)
    async with leading(cluster) as scheduler:
        async with open_outbox(cluster.bus, cluster.clock, "agent", "n0") as outbox:
            for _ in range(3):
                report(outbox, ALL)
                await asyncio.sleep(30)
        assert counted(scheduler, DIFFERING) == 1
        await asyncio.sleep(100)
        assert counted(scheduler, DIFFERING) == 0


async def test_an_agent_that_does_not_say_or_is_on_no_node_differs_in_nothing() -> None:
    cluster = FakeCluster(1)
    async with (
        leading(cluster) as scheduler,
        open_outbox(cluster.bus, cluster.clock, "agent", "n0") as outbox,
    ):
        state = DeviceState(node="n0", vendor="nvidia", cards=tuple(cards_on("n0")))
        for _ in range(3):
            outbox.publish_state(DEVICES_BUCKET, "n0.nvidia", "dev.tessera.device", encode(state))
            report(outbox, ALL, node="unheard-of")
            await asyncio.sleep(30)
        assert counted(scheduler, DIFFERING) == 0


# -- with an agent


@asynccontextmanager
async def agent_on(cluster: FakeCluster, node: str, folder: Path) -> AsyncGenerator[Agent]:
    """The agent of a node, whose container runtime is the test."""
    settings = AgentSettings(
        node=node, vendor="nvidia", folder=str(folder),
        nri=NriSettings(socket=folder / "nobody.sock"),
    )  # fmt: skip
    card = replace(a_reading(0), id=f"GPU-{node}-0")
    around = ServiceEnvironment(
        kube=cluster.kube, bus=cluster.bus, settings=settings, clock=cluster.clock,
        registry=REGISTRY,
    )  # fmt: skip
    async with open_agent(around, FakeReader(card)) as agent:
        await until(lambda: agent.keys.known.is_set() and agent.devices.latest.complete)
        yield agent


def sandbox(cluster: FakeCluster, name: str) -> PodSandbox:
    meta = cluster.read(name).metadata
    return PodSandbox(
        id=f"sb-{name}", name=name, uid=meta.uid, namespace=meta.namespace,
        annotations=dict(meta.annotations),
    )  # fmt: skip


def start(agent: Agent, pod: PodSandbox) -> ContainerInfo:
    """The runtime creates and starts the pod's container."""
    container = ContainerInfo(id=f"{pod.id}-c", sandbox_id=pod.id, name="c")
    assert isinstance(agent.plugin.create_container(pod, container), Adjustment)
    agent.plugin.container_started(pod, container)
    return container


def said(cluster: FakeCluster) -> DeviceState:
    return decode_device(cluster.bus.values(DEVICES_BUCKET)["n0.nvidia"].data)


async def test_what_an_agent_holds_is_what_the_ledger_has(tmp_path: Path) -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 12000)
    async with leading(cluster) as scheduler, agent_on(cluster, "n0", tmp_path) as agent:
        await cluster.place(scheduler, "a")
        container = start(agent, pod := sandbox(cluster, "a"))
        held = CardHeld(card="GPU-n0-0", containers=1, memory_bytes=12000 * MIB)
        await until(lambda: "n0.nvidia" in cluster.bus.values(DEVICES_BUCKET), 20)
        await until(lambda: said(cluster).held == (held,), 40)
        await asyncio.sleep(100)
        assert counted(scheduler, DIFFERING) == 0
        scheduler.ledger.ended(uid)  # the ledger loses it, as it never should
        await asyncio.sleep(100)
        assert counted(scheduler, DIFFERING) == 1
        agent.plugin.container_stopped(pod, container)
        await until(lambda: said(cluster).held == (), 40)
        await until(lambda: counted(scheduler, DIFFERING) == 0, 1)


async def test_cards_of_a_pod_deleted_by_force_are_free_when_its_container_has_ended(
    tmp_path: Path,
) -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 12000)
    async with leading(cluster) as scheduler, agent_on(cluster, "n0", tmp_path) as agent:
        await cluster.place(scheduler, "a")
        container = start(agent, pod := sandbox(cluster, "a"))
        await until(lambda: agent.pods.get(uid) is not None)
        cluster.delete("a")
        await until(lambda: phase(scheduler, uid) is None, 5)
        cluster.pod("b", 12000)
        await until(lambda: scheduler.ledger.charges_on("n0"), 5)
        for _ in range(20):
            await asyncio.sleep(60)
            assert not cluster.filter(scheduler, "b").node_names
        assert counted(scheduler, DIFFERING) == 0
        agent.plugin.container_stopped(pod, container)
        await until(lambda: cluster.filter(scheduler, "b").node_names, 60)
        assert phase(scheduler, cluster.read("b").metadata.uid) is AllocationPhase.RESERVED
