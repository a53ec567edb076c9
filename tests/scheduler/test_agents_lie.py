"""What one agent reports counts for its own node's cards, whatever it reports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest

from tessera_core.trust.grants import new_key
from tessera_core.trust.messages import MessageSigner
from tessera_runtime.bus.outbox import Outbox, open_outbox
from tessera_schema.cards import MIB
from tessera_schema.grants import Share
from tessera_schema.messages.device_reports import CardHeld, DeviceState, Occupied, encode
from tessera_schema.messages.envelope import Envelope
from tessera_schema.node_cards import NodeCardsAnnotation, encode_node_cards
from tessera_schema.subjects import DEVICES_BUCKET
from tests.scheduler.fake_cluster import CARDS, FakeCluster, cards_on, counted, doubted, leading

pytestmark = pytest.mark.looptime

VENDOR = "nvidia"
SPEAKERS = {f"n{i}": MessageSigner(new_key()) for i in range(3)}


def a_cluster(nodes: int = 2) -> FakeCluster:
    """Every node's agent shows its key."""
    cluster = FakeCluster(nodes)
    for node in cluster.nodes:
        published = NodeCardsAnnotation(cards=tuple(cards_on(node)), speaks=SPEAKERS[node].public)
        cluster.note(f"/api/v1/nodes/{node}", {CARDS: encode_node_cards(published)})
    return cluster


def left(
    node: str, mib: int = 16384, *, uid: str = "gone", namespace: str = "default", count: int = 1,
    vendor: str = VENDOR, card: str = "", cores: float = 0,
) -> Occupied:  # fmt: skip
    """Shares that containers are said to hold although their pod is gone."""
    share = Share(
        container="c", position=0, vendor=vendor, dialect="hami", card=card or f"GPU-{node}-0",
        index=0, memory_bytes=mib * MIB, cores_percent=cores,
    )  # fmt: skip
    return Occupied(uid=uid, namespace=namespace, name="a", shares=(share,) * count)


def a_state(
    node: str, *occupied: Occupied, vendor: str = VENDOR, held: Sequence[CardHeld] | None = None
) -> DeviceState:
    return DeviceState(
        node=node, vendor=vendor, cards=tuple(cards_on(node)), occupied=occupied,
        held=None if held is None else tuple(held),
    )  # fmt: skip


@asynccontextmanager
async def an_agent(
    cluster: FakeCluster, node: str, *, signs: bool = True
) -> AsyncGenerator[Outbox]:
    sign = SPEAKERS[node].sign if signs else None
    async with open_outbox(cluster.bus, cluster.clock, "agent", node, sign=sign) as outbox:
        yield outbox


async def report(
    cluster: FakeCluster, by: str, state: DeviceState, *, key: str = "", signs: bool = True
) -> None:
    """An agent publishes a state, under the key of its own node or another one."""
    async with an_agent(cluster, by, signs=signs) as outbox:
        key = key or f"{state.node}.{state.vendor}"
        outbox.publish_state(DEVICES_BUCKET, key, "dev.tessera.device", encode(state))
    await asyncio.sleep(0.1)


@pytest.mark.parametrize("vendor", ["bogus", "iluvatar"])
async def test_a_vendor_without_a_key_on_the_node_fills_no_card(vendor: str) -> None:
    """Unsigned, of a vendor that the node's key is not for, with shares of the other vendor."""
    cluster = a_cluster()
    cluster.pod("a", 4000)
    async with leading(cluster) as scheduler:
        for node in cluster.nodes:
            await report(cluster, "n1", a_state(node, left(node), vendor=vendor), signs=False)
        assert not scheduler.ledger.charges_on("n0")
        assert await cluster.place(scheduler, "a") in cluster.nodes
        [(reason, count)] = doubted(scheduler).items()
        assert (reason, count) == ("vendor" if vendor == "bogus" else "node", 2)


async def test_what_is_occupied_lasts_only_while_it_is_repeated() -> None:
    cluster = a_cluster(1)
    cluster.pod("a", 12000)
    async with leading(cluster) as scheduler:
        async with an_agent(cluster, "n0") as outbox:
            state = encode(a_state("n0", left("n0")))
            for _ in range(5):
                outbox.publish_state(DEVICES_BUCKET, "n0.nvidia", "dev.tessera.device", state)
                await asyncio.sleep(30)
                assert not cluster.filter(scheduler, "a").node_names
        await asyncio.sleep(90)
        assert cluster.filter(scheduler, "a").node_names == ("n0",)


@pytest.mark.parametrize(
    "occupied",
    [
        left("n0", vendor="iluvatar"),
        left("n0", card="GPU-n1-0"),
        left("n0", card="GPU-n0-9"),
        left("n0", mib=1 << 40),
        left("n0", mib=-1),
        left("n0", cores=1e308),
        left("n0", uid="u" * 1000),
    ],
    ids=["vendor", "other-node", "no-card", "huge", "negative", "cores", "long"],
)
async def test_shares_that_cannot_be_hold_nothing(occupied: Occupied) -> None:
    cluster = a_cluster()
    async with leading(cluster) as scheduler:
        await report(cluster, "n0", a_state("n0", occupied))
        assert not scheduler.ledger.charges_on("n0")
        assert not scheduler.ledger.charges_on("n1")
        assert len(doubted(scheduler)) == 1


async def test_what_is_occupied_is_no_more_than_the_cards_have() -> None:
    cluster = a_cluster(1)
    async with leading(cluster) as scheduler:
        many = [left("n0", 1000, uid=f"u{i}", cores=30, count=3) for i in range(100)]
        await report(cluster, "n0", a_state("n0", *many))
        card = cards_on("n0")[0]
        held = scheduler.ledger.charges_on("n0")[card.id]
        assert held.memory_bytes <= card.memory_bytes
        assert held.cores_percent <= card.cores_percent
        assert held.slots <= card.slots
        assert set(doubted(scheduler)) == {"excess"}


async def test_reports_do_not_add_up_to_more_than_the_cards_have() -> None:
    """What was occupied before is said to be nothing, and something else takes its place."""
    cluster = a_cluster(1)
    async with leading(cluster) as scheduler:
        for number in range(5):
            before = [left("n0", 0, uid=f"u{i}") for i in range(number)]
            await report(cluster, "n0", a_state("n0", *before, left("n0", uid=f"u{number}")))
        card = cards_on("n0")[0]
        held = scheduler.ledger.charges_on("n0")[card.id]
        assert (held.memory_bytes, held.slots) == (card.memory_bytes, 5)


async def test_what_is_occupied_counts_in_no_namespaces_quota() -> None:
    cluster = a_cluster()
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"limits.nvidia.com/gpumem": "16000"}}}
    cluster.make("/api/v1/namespaces/default/resourcequotas", quota)
    cluster.pod("a", 4000)
    async with leading(cluster) as scheduler:
        await report(cluster, "n1", a_state("n1", left("n1", 15000)))
        assert scheduler.ledger.charges_on("n1")
        assert await cluster.place(scheduler, "a") in cluster.nodes


async def test_a_state_counts_on_its_own_subject_alone() -> None:
    """A signed report is published again under other keys, with other ids and sources."""
    cluster = a_cluster()
    cluster.pod("a", 4000, nodeSelector={})
    async with leading(cluster) as scheduler:
        old = DeviceState(node="n0", vendor=VENDOR)  # it has lost its card, once
        await report(cluster, "n0", old)
        await report(cluster, "n0", a_state("n0"))
        data = encode(old)
        [first, *_] = [n for n in cluster.bus.said("tessera.v1.*.device.>") if n.data == data]
        for number, key in enumerate(("n1.nvidia", "n0.iluvatar", "x.nvidia", "n0.nvidia")):
            again = Envelope(
                id=f"again-{number}", source=f"/tessera/agent/{number}", type=first.envelope.type,
                time=first.envelope.time, epoch=first.envelope.epoch,
                sequence=first.envelope.sequence, signature=first.envelope.signature,
            )  # fmt: skip
            await cluster.bus.put(DEVICES_BUCKET, key, again, data)
            await asyncio.sleep(0.1)
            assert set(cluster.filter(scheduler, "a").node_names or ()) == {"n0"}
        assert doubted(scheduler) == {"subject": 3}


async def test_odd_numbers_of_shares_end_nothing() -> None:
    cluster = a_cluster(1)
    cluster.pod("a", 4000)
    odd = [
        CardHeld(card="GPU-n0-0", containers=1 << 70, memory_bytes=-(1 << 70)),
        CardHeld(card="GPU-n0-0", containers=1, cores_percent=1e308),
        CardHeld(card="GPU-n0-0", containers=1, cores_percent=-1e308),
    ]
    async with leading(cluster) as scheduler:
        await report(cluster, "n0", a_state("n0", held=odd))
        assert doubted(scheduler) == {"numbers": 1}
        assert scheduler.agent_audit.differing == 0
        assert await cluster.place(scheduler, "a") == "n0"


@pytest.mark.parametrize("data", [b'{"node":"\xff"}', b"[" * 100_000, b'{"node":"\\ud800"}', b""])
async def test_bytes_that_are_no_report_end_nothing(data: bytes) -> None:
    cluster = a_cluster(1)
    cluster.pod("a", 4000)
    async with leading(cluster) as scheduler:
        for number in range(3):
            envelope = Envelope(id=f"{number}", source="x", type="t", time="t", epoch=1, sequence=1)
            await cluster.bus.put(DEVICES_BUCKET, "n0.nvidia", envelope, data)
            await asyncio.sleep(0.1)
        assert doubted(scheduler) == {"unreadable": 3}
        await report(cluster, "n0", a_state("n0", left("n0")))
        assert scheduler.ledger.charges_on("n0")
        assert counted(scheduler, 'undecodable_objects_total{kind="device news"}') == 3


async def test_names_that_are_made_up_are_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    cluster = a_cluster(1)
    async with leading(cluster) as scheduler, an_agent(cluster, "n0") as outbox:
        for number in range(500):
            state = a_state(f"made-up-{number}", left("n0"))
            key = f"made-up-{number}.nvidia"
            outbox.publish_state(DEVICES_BUCKET, key, "dev.tessera.device", encode(state))
            if not number % 50:
                await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        assert doubted(scheduler) == {"node": 500}
        logged = [r for r in caplog.records if "does not count" in r.getMessage()]
        assert len(logged) == 1


async def test_a_node_that_is_gone_is_forgotten_with_what_was_said_of_it() -> None:
    cluster = a_cluster()
    async with leading(cluster) as scheduler:
        await report(cluster, "n1", a_state("n1", left("n1")))
        assert scheduler.ledger.charges_on("n1")
        cluster.call("DELETE", "/api/v1/nodes/n1")
        await asyncio.sleep(0.1)
        assert not scheduler.ledger.charges_on("n1")
        await report(cluster, "n1", a_state("n1", left("n1")))
        assert not scheduler.ledger.charges_on("n1")
        assert doubted(scheduler) == {"node": 1}
