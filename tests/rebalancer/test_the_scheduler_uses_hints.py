"""Agents, rebalancer and scheduler on one bus: measurements move new pods, and nothing else."""

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest
from msgspec.structs import replace

from tessera_scheduler.cache.hints import HintSettings
from tessera_scheduler.scheduler import Scheduler
from tessera_scheduler.settings import SchedulerSettings
from tessera_schema.messages.envelope import Envelope
from tessera_schema.messages.event_catalogue import HINT_PUBLISHED
from tessera_schema.messages.hints import CardHint, NodeHints, decode_hints, encode_hints
from tessera_schema.subjects import HINTS_BUCKET
from tests.rebalancer.cluster import Cluster, a_use, rebalancing
from tests.scheduler.fake_cluster import FakeCluster, counted, leading
from tests.scheduler.fake_cluster import settings as scheduler_settings

pytestmark = pytest.mark.looptime


def hot(node: str, at: float) -> NodeHints:
    card = CardHint(card=f"GPU-{node}-0", busy_percent=100, contended_percent=90, confidence=1)
    return NodeHints(node=node, at=at, cards=(card,))


class Rebalancer:
    """Publishes hints by hand."""

    def __init__(self, world: FakeCluster, source: str = "rebalancer", epoch: int = 1) -> None:
        self._world = world
        self._source = f"/tessera/rebalancer/{source}"
        self._epoch = epoch
        self.sequence = 0

    async def publish(self, reported: NodeHints, *, ago_s: float = 0) -> None:
        self.sequence += 1
        when = datetime.fromtimestamp(self._world.clock.time() - ago_s, UTC)
        envelope = Envelope(
            id=f"{self._source}{self._epoch}-{self.sequence}", source=self._source,
            type=HINT_PUBLISHED,
            time=when.isoformat().replace("+00:00", "Z"), epoch=self._epoch,
            sequence=self.sequence,
        )  # fmt: skip
        await self._world.bus.put(HINTS_BUCKET, reported.node, envelope, encode_hints(reported))
        await asyncio.sleep(0.1)


def choice(world: FakeCluster, scheduler: Scheduler, name: str) -> str:
    """The node that a new pod gets."""
    world.pod(name, 100)
    [node] = world.filter(scheduler, name).node_names or ()
    return node


async def test_a_pod_goes_where_cards_are_less_used() -> None:
    world = FakeCluster(3)
    async with leading(world) as scheduler:
        assert choice(world, scheduler, "a") == "n0"
        await Rebalancer(world).publish(hot("n0", world.clock.time()))
        assert choice(world, scheduler, "b") == "n1"
        assert counted(scheduler, "hinted_nodes") == 1


async def test_a_pod_that_names_an_order_is_placed_by_it() -> None:
    world = FakeCluster(3)
    async with leading(world) as scheduler:
        assert choice(world, scheduler, "a") == "n0"
        await Rebalancer(world).publish(hot("n0", world.clock.time()))
        world.pod("b", 100, annotations={"hami.io/node-scheduler-policy": "binpack"})
        assert world.filter(scheduler, "b").node_names == ("n0",)


async def test_hints_that_nobody_repeats_are_let_go() -> None:
    world = FakeCluster(2)
    async with leading(world) as scheduler:
        await Rebalancer(world).publish(hot("n0", world.clock.time()))
        assert choice(world, scheduler, "a") == "n1"
        world.delete("a")
        await asyncio.sleep(60)
        assert choice(world, scheduler, "b") == "n1"
        world.delete("b")
        await asyncio.sleep(35)
        assert choice(world, scheduler, "c") == "n0"
        assert counted(scheduler, "hinted_nodes") == 0
        assert not scheduler.ledger.fleet.pressed


async def test_prices_that_nobody_repeats_are_let_go() -> None:
    world = FakeCluster(2)
    dear = CardHint(card="GPU-n0-0", prices=(12, 25, 50, 75, 100), holders=1)
    async with leading(world) as scheduler:
        hints = NodeHints(node="n0", at=world.clock.time(), cards=(dear,))
        await Rebalancer(world).publish(hints)
        assert choice(world, scheduler, "a") == "n1"
        world.delete("a")
        await asyncio.sleep(95)
        assert choice(world, scheduler, "c") == "n0"
        assert not scheduler.ledger.fleet.priced
        assert not scheduler.ledger.fleet.cards.prices.any()


@pytest.mark.parametrize(
    "card",
    [
        b'{"card": "GPU-n0-0", "prices": [0, 0, 0, 0, 101]}',
        b'{"card": "GPU-n0-0", "prices": [-1, 0, 0, 0, 0]}',
        b'{"card": "GPU-n0-0", "prices": [1, 2, 3, 4, 5, 6]}',
        b'{"card": "GPU-n0-0", "prices": [0.5]}',
    ],
)
def test_prices_beyond_their_bounds_are_not_readable(card: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_hints(b'{"node": "n0", "at": 1, "cards": [' + card + b"]}")


async def test_hints_that_were_old_when_they_came_never_count() -> None:
    world = FakeCluster(2)
    await Rebalancer(world).publish(hot("n0", world.clock.time()), ago_s=3600)
    async with leading(world) as scheduler:
        await asyncio.sleep(5)
        assert choice(world, scheduler, "a") == "n0"
        assert not scheduler.ledger.fleet.pressed


async def test_a_scheduler_that_starts_takes_up_the_last_hints() -> None:
    world = FakeCluster(2)
    await Rebalancer(world).publish(hot("n0", world.clock.time()), ago_s=10)
    async with leading(world) as scheduler:
        await asyncio.sleep(1)
        assert choice(world, scheduler, "a") == "n1"


async def test_late_messages_and_those_of_an_earlier_life_change_nothing() -> None:
    world = FakeCluster(2)
    async with leading(world) as scheduler:
        old, new = Rebalancer(world), Rebalancer(world, epoch=2)
        await old.publish(hot("n0", world.clock.time()))
        await new.publish(replace(hot("n0", world.clock.time()), cards=()))
        await old.publish(hot("n0", world.clock.time()))
        assert choice(world, scheduler, "a") == "n0"


async def test_what_cannot_be_read_is_counted_and_changes_nothing() -> None:
    world = FakeCluster(2)
    async with leading(world) as scheduler:
        envelope = Envelope(
            id="x",
            source="/tessera/rebalancer/r",
            type=HINT_PUBLISHED,
            time="soon",
            epoch=1,
            sequence=1,
        )
        await world.bus.put(HINTS_BUCKET, "n0", envelope, b'{"node": "n0"}')
        again = replace(envelope, id="y", sequence=2)
        await world.bus.put(HINTS_BUCKET, "n0", again, encode_hints(hot("n0", 0)))
        await asyncio.sleep(1)
        assert choice(world, scheduler, "a") == "n0"
        text = scheduler.metrics.registry.text().decode()
        assert 'tessera_scheduler_undecodable_objects_total{kind="hints"} 1.0' in text


async def test_they_may_be_switched_off() -> None:
    world = FakeCluster(2)
    off: SchedulerSettings = replace(scheduler_settings(), hints=HintSettings(enabled=False))
    async with leading(world, config=off) as scheduler:
        await Rebalancer(world).publish(hot("n0", world.clock.time()))
        await asyncio.sleep(5)
        assert choice(world, scheduler, "a") == "n0"
        assert not scheduler.ledger.fleet.pressed


async def test_a_pod_that_waited_is_answered_from_what_it_was_reported_whatever_hints_say() -> None:
    world = FakeCluster(2)
    async with leading(world) as scheduler:
        world.pod("large", 99_000)
        before = world.filter(scheduler, "large")
        await Rebalancer(world).publish(hot("n0", world.clock.time()))
        assert world.filter(scheduler, "large") == before


async def test_without_a_rebalancer_answers_are_what_they_were() -> None:
    answers = []
    for hinted in (False, True):
        world = FakeCluster(3, cards=2)
        async with leading(world) as scheduler:
            if hinted:
                rebalancer = Rebalancer(world)
                for node in ("n0", "n2"):
                    await rebalancer.publish(hot(node, world.clock.time()))
                await asyncio.sleep(120)
            found = []
            for n, mib in enumerate((100, 9000, 9000, 16000, 4000, 16000, 16000, 16000)):
                world.pod(f"p{n}", mib)
                node = await world.place(scheduler, f"p{n}")
                found.append((node, sorted(scheduler.ledger.charges_on(node)) if node else []))
            answers.append(found)
    assert answers[0] == answers[1]


async def test_from_measurement_to_placement_and_back_when_the_rebalancer_dies() -> None:
    cluster = Cluster("n0", "n1")
    world = FakeCluster(0)
    world.bus, world.store, world.nodes = cluster.bus, cluster.store, ["n0", "n1"]
    world.clock, world.kube = cluster.clock, cluster.kube
    holders = [(cluster.bound(f"h{n}", 25, card=n % 2, mib=100), n % 2) for n in range(4)]
    busy = [(uid, a_use(48, card=card)) for uid, card in holders]
    async with leading(world) as scheduler:
        assert choice(world, scheduler, "before") == "n0"
        world.delete("before")
        async with rebalancing(cluster):
            await cluster.agents.measure(240, *busy)
            assert choice(world, scheduler, "during") == "n1"
            world.delete("during")
        await cluster.agents.measure(120, *busy)
        assert choice(world, scheduler, "after") == "n0"
