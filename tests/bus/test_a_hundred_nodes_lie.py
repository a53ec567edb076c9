"""A hundred nodes publish everything that one agent's password lets them, over a real nats-server,
at the scheduler, the quota monitor and the rebalancer. None of it reaches another node or
namespace, and nothing of it is kept."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Final

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tessera_core.trust.grants import new_key
from tessera_core.trust.messages import MessageSigner
from tessera_embedded.nats_server import open_nats
from tessera_quota.monitor import QuotaMonitor, open_quota
from tessera_rebalancer.rebalancer import Rebalancer, open_rebalancer
from tessera_rebalancer.settings import RebalancerSettings
from tessera_runtime.bus.client import NatsBus, open_bus
from tessera_runtime.kube.settings import KubeSettings
from tessera_runtime.metrics import MetricsRegistry
from tessera_runtime.service import ServiceEnvironment
from tessera_scheduler.scheduler import Scheduler, open_scheduler
from tessera_schema import subjects
from tessera_schema.cards import MIB
from tessera_schema.grants import Share
from tessera_schema.messages.device_reports import (
    CardHeld,
    CardUse,
    ContainerUse,
    DeviceState,
    NodeUsage,
    Occupied,
    encode,
)
from tessera_schema.messages.envelope import Envelope
from tessera_schema.node_cards import NodeCardsAnnotation, encode_node_cards
from tessera_schema.subjects import DEVICES_BUCKET, token
from tests.bus.buses import QUICK, within
from tests.quota.cluster import settings as quota_settings
from tests.quota.test_next_to_the_scheduler import a_cluster, status
from tests.scheduler.fake_cluster import CARDS, REGISTRY, FakeCluster, cards_on, settings, until

pytestmark = pytest.mark.timeout(240)

CLUSTER: Final = "default"
VENDOR: Final = "nvidia"
LIARS: Final = 100
HONEST: Final = ("n0", "n1")
FIRST: Final = 1_000
MADE_UP: Final = 10_000
"""Names of nodes, of each kind of report, while everybody lies and after that."""
KEPT_BYTES: Final = 4 << 20
"""That may be left of the second: less than 200 bytes of each."""
KEYS: Final = {name: MessageSigner(new_key()) for name in (*HONEST, "liar")}


class Stage(Struct, kw_only=True):
    """Three services and a bus that anybody writes to."""

    world: FakeCluster
    bus: NatsBus
    scheduler: Scheduler
    quota: QuotaMonitor
    rebalancer: Rebalancer
    numbers: Iterator[int]

    async def publish(
        self, where: str, data: bytes, by: MessageSigner | None, **more: str
    ) -> Envelope:
        """As anybody may who has the agents' password; NATS is not waited for."""
        number = next(self.numbers)
        envelope = Envelope(
            id=f"lie-{number}",
            source=f"/tessera/agent/{more.get('source', number)}",
            type="t",
            time="2026-09-21T00:00:00Z",
            epoch=3,
            sequence=number,
        )
        if by is not None:
            envelope = replace(envelope, signature=by.sign(envelope.order, data))
        await self.repeat(where, envelope, data)
        return envelope

    async def repeat(self, where: str, envelope: Envelope, data: bytes) -> None:
        link = await self.bus.linked()
        await link.publish(where, data, headers=envelope.headers())

    async def state(
        self, state: DeviceState, by: MessageSigner | None, key: str = ""
    ) -> tuple[Envelope, bytes]:
        data = encode(state)
        where = f"$KV.{DEVICES_BUCKET}.{key or f'{token(state.node)}.{state.vendor}'}"
        return await self.publish(where, data, by), data

    async def usage(self, usage: NodeUsage, by: MessageSigner | None) -> None:
        await self.publish(subjects.usage(CLUSTER, usage.node), encode(usage), by)


def a_large_cluster() -> FakeCluster:
    """Two nodes that are honest, a hundred that are not, and a quota."""
    world = a_cluster(default={"hard": {"memory": "24Gi"}})
    for number in range(LIARS):
        world.make("/api/v1/nodes", {"metadata": {"name": liar(number)}})
    for node in (*HONEST, *map(liar, range(LIARS))):
        speaker = KEYS.get(node, KEYS["liar"])
        reported = NodeCardsAnnotation(cards=tuple(cards_on(node, 2)), speaks=speaker.public)
        world.note(f"/api/v1/nodes/{node}", {CARDS: encode_node_cards(reported)})
    return world


def liar(number: int) -> str:
    return f"liar-{number}"


@asynccontextmanager
async def a_stage(folder: Path) -> AsyncGenerator[Stage]:
    world = a_large_cluster()
    kube = KubeSettings(watch_s=100_000, silence_s=200_000)
    async with open_nats(folder / "nats") as server:
        own = replace(QUICK, cluster=CLUSTER, url=server.url)
        async with open_bus(own, "test", "0") as bus:
            await within(bus.connection_generation(0))
            watched = ServiceEnvironment(
                kube=world.kube, bus=bus, settings=quota_settings(after_s=1), clock=world.clock,
                registry=REGISTRY,
            )  # fmt: skip
            measured = ServiceEnvironment(
                kube=world.kube, bus=bus, settings=RebalancerSettings(kube=kube),
                clock=world.clock, registry=REGISTRY,
            )  # fmt: skip
            async with (
                open_scheduler(world.kube, bus, settings(), world.clock, REGISTRY) as scheduler,
                open_quota(watched) as quota,
                open_rebalancer(measured) as rebalancer,
            ):
                await until(lambda: scheduler.leadership.leads, 60)
                pods_read = rebalancer.objects.pods_read
                await until(lambda: not quota.problem() and pods_read.is_set(), 60)
                yield Stage(
                    world=world, bus=bus, scheduler=scheduler, quota=quota, rebalancer=rebalancer,
                    numbers=count(1),
                )  # fmt: skip


def doubted(registry: MetricsRegistry) -> dict[str, int]:
    lines = (line for line in registry.text().decode().splitlines() if "{reason=" in line)
    counts = {
        line.split('"')[1]: int(float(line.split()[-1]))
        for line in lines
        if "_news_disbelieved_total{" in line
    }
    return {reason: value for reason, value in counts.items() if value}


async def taken_in(stage: Stage, number: int) -> None:
    """Wait until every service has refused so many reports about nodes that are not there."""
    for registry in (
        stage.scheduler.metrics.registry, stage.quota.metrics, stage.rebalancer.metrics,
    ):  # fmt: skip
        await until(refuses(registry, number), 120)


def refuses(registry: MetricsRegistry, number: int) -> Callable[[], bool]:
    return lambda: doubted(registry).get("node", 0) >= number


def occupied(node: str, namespace: str = "default", vendor: str = VENDOR) -> tuple[Occupied, ...]:
    """All of a node's cards, held by pods that never were."""
    return tuple(
        Occupied(
            uid=f"{node}-{card.id}-{number}", namespace=namespace, name="x",
            shares=(
                Share(
                    container="c", position=0, vendor=vendor, dialect="hami", card=card.id,
                    index=card.index, memory_bytes=16384 * MIB, cores_percent=100,
                ),
            ),
        )
        for card in cards_on(node, 2) for number in range(5)
    )  # fmt: skip


def uses(uids: list[str], **amounts: float) -> tuple[ContainerUse, ...]:
    cards = tuple(
        CardUse(card=card.id, **amounts)  # type: ignore[arg-type]  # (amounts of either kind)
        for node in HONEST
        for card in cards_on(node, 2)
    )
    return tuple(
        ContainerUse(namespace="default", pod=uid, uid=uid, container="c", cards=cards)
        for uid in uids
    )


async def lie(stage: Stage, number: int, uids: list[str]) -> None:
    """Everything that one node can think of."""
    own, evil = liar(number), KEYS["liar"]
    for node in HONEST:
        gone = DeviceState(node=node, vendor=VENDOR)
        full = DeviceState(node=node, vendor=VENDOR, occupied=occupied(node))
        for by in (None, evil):
            await stage.state(gone, by)
            await stage.state(full, by)
            await stage.state(replace(full, vendor="iluvatar"), by)
            await stage.state(replace(full, vendor=f"made-up-{number}"), by)
        mine = DeviceState(node=own, vendor=VENDOR, cards=tuple(cards_on(own, 2)))
        await stage.state(replace(mine, occupied=occupied(node)), evil)
        await stage.state(replace(mine, occupied=occupied(node)), evil, f"{node}.{VENDOR}")
        await stage.state(replace(mine, occupied=occupied(own, "default")), evil)
        await stage.state(replace(mine, occupied=occupied(own, vendor="iluvatar")), evil)
        held = CardHeld(card=f"GPU-{node}-0", containers=1 << 80, cores_percent=1e308)
        await stage.state(replace(mine, held=(held,) * 10), evil)
        for amounts in (
            {"memory_bytes": 1 << 49, "cores_percent": 100},
            {"cores_percent": 1e308},
            {"memory_bytes": -1, "launches": 10**30},
        ):
            for by in (None, evil):
                for said in (own, node):
                    reported = NodeUsage(
                        node=said, vendor=VENDOR, at=stage.world.clock.time(), interval_s=60,
                        containers=uses(uids, **amounts),
                    )  # fmt: skip
                    await stage.usage(reported, by)


async def make_up(stage: Stage, numbers: range) -> None:
    """Names that nobody has."""
    for number in numbers:
        node = f"made-up-{number}"
        await stage.state(DeviceState(node=node, vendor=VENDOR), None)
        await stage.usage(
            NodeUsage(node=node, vendor=VENDOR, at=stage.world.clock.time(), interval_s=2), None
        )
        if not number % 500:
            await asyncio.sleep(0.01)


async def test_nothing_of_it_counts_elsewhere_or_stays(tmp_path: Path) -> None:
    async with a_stage(tmp_path) as stage:
        world, scheduler = stage.world, stage.scheduler
        nodes = [*HONEST]
        uids = [world.pod(f"a{number}", 4000) for number in range(4)]
        world.nodes = nodes
        lost = DeviceState(node="n0", vendor=VENDOR)  # once it said so, and was right
        old = await stage.state(lost, KEYS["n0"])
        await stage.state(replace(lost, cards=tuple(cards_on("n0", 2))), KEYS["n0"])
        assert await world.place(scheduler, "a0") in nodes
        assert await world.place(scheduler, "a1") in nodes

        for number in range(LIARS):
            await lie(stage, number, uids)
            for key in ("n0.nvidia", "n1.nvidia", f"{liar(number)}.nvidia"):
                again = replace(old[0], id=f"again-{key}-{number}", source=f"/x/{number}")
                await stage.repeat(f"$KV.{DEVICES_BUCKET}.{key}", again, old[1])
        # Of a key's states the last one is certain to be read.
        for node, by in ((HONEST[0], KEYS["liar"]), (HONEST[1], None)):
            await stage.state(DeviceState(node=node, vendor=VENDOR), by)
        for own, of in ((liar(0), liar(0)), (liar(1), HONEST[0])):
            state = DeviceState(node=own, vendor=VENDOR, cards=tuple(cards_on(own, 2)))
            await stage.state(replace(state, occupied=occupied(of)), KEYS["liar"])
        await make_up(stage, range(FIRST))
        await taken_in(stage, FIRST)

        for node in nodes:
            assert dict(scheduler.ledger.charges_on(node)) == world.truth_on(node)
        assert await world.place(scheduler, "a2") in nodes
        assert await world.place(scheduler, "a3") in nodes
        assert len(list(scheduler.ledger.entries())) <= 4 + LIARS * 10

        await until(lambda: status(world).get("used", {}).get("cards") == 4, 30)
        await stage.quota.evaluator.evaluate()
        evaluated = stage.quota.evaluator.statuses["default/q"]
        assert (evaluated.phase, evaluated.seen.memory, evaluated.hours.seen) == ("Within", "0", 0)
        assert stage.quota.usage.namespaces == frozenset()
        assert [*stage.rebalancer.measured] == []
        assert not set(stage.rebalancer.publisher.published) & set(HONEST)
        assert set(stage.rebalancer.usage.smoother.nodes()) <= set(map(liar, range(LIARS)))
        reasons = {"vendor", "subject", "node", "unsigned", "signature", "card", "excess"}
        assert reasons <= set(doubted(scheduler.metrics.registry))
        assert {"unsigned", "signature", "pod", "node"} <= set(doubted(stage.quota.metrics))

        gc.collect()
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        await make_up(stage, range(FIRST, FIRST + MADE_UP))
        await taken_in(stage, FIRST + MADE_UP)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert after - before < KEPT_BYTES
