"""From what agents measure to what NATS keeps about each node."""

import asyncio

import pytest

from tessera_core.trust.grants import Signer, new_key
from tessera_testing.builders import a_card
from tests.rebalancer.cluster import NODE, Cluster, a_use, rebalancing, settings, until

pytestmark = pytest.mark.looptime


async def test_a_contended_card_is_reported_of_within_five_seconds_of_its_message() -> None:
    cluster = Cluster()
    a, b = cluster.bound("a"), cluster.bound("b")
    calm = (a, a_use(30)), (b, a_use(10))
    async with rebalancing(cluster):
        await cluster.agents.measure(120, *calm)
        hints = cluster.hints()
        assert hints is not None
        [card] = hints.cards
        assert (card.card, card.contended_percent) == ("n0-0", 0)
        assert 59 < card.idle_cores_percent < 61
        await cluster.agents.publish((a, a_use(50, throttled_percent=90)), (b, a_use(10)))
        await asyncio.sleep(5)
        hints = cluster.hints()
        assert hints is not None
        assert hints.cards[0].contended_percent > 25


async def test_what_does_not_change_is_reported_every_half_minute() -> None:
    cluster = Cluster()
    a = cluster.bound("a")
    async with rebalancing(cluster):
        await cluster.agents.measure(300, (a, a_use(30)))
        before = len(cluster.published())
        await cluster.agents.measure(300, (a, a_use(30)))
        assert 9 <= len(cluster.published()) - before <= 11


async def test_however_fast_it_changes_a_node_is_reported_of_every_two_seconds_at_most() -> None:
    cluster = Cluster()
    a = cluster.bound("a")
    async with rebalancing(cluster):
        for n in range(200):
            await cluster.agents.publish((a, a_use(100 * (n % 2), throttled_percent=100 * (n % 2))))
            await asyncio.sleep(0.25)
        assert 5 <= len(cluster.published()) <= 26


async def test_a_node_that_fell_silent_is_reported_of_no_more_even_when_nats_comes_back() -> None:
    cluster = Cluster()
    a = cluster.bound("a")
    async with rebalancing(cluster) as rebalancer:
        await cluster.agents.measure(60, (a, a_use(30)))
        assert cluster.published()
        await asyncio.sleep(60)
        before = len(cluster.published())
        assert rebalancer.publisher.published == {}
        cluster.bus.away()
        cluster.bus.back()
        await asyncio.sleep(60)
        assert len(cluster.published()) == before


async def test_while_nats_is_away_the_newest_waits_for_it() -> None:
    cluster = Cluster()
    a = cluster.bound("a")
    async with rebalancing(cluster):
        await cluster.agents.measure(60, (a, a_use(10)))
        cluster.bus.remake("tessera-hints")
        await asyncio.sleep(1)
        hints = cluster.hints()
        assert hints is not None
        assert hints.node == NODE


async def test_names_with_dots_are_one_token() -> None:
    cluster = Cluster("gpu-1.example.org")
    a = cluster.bound("a", node="gpu-1.example.org")
    async with rebalancing(cluster):
        await cluster.agents.measure(
            10, (a, a_use(10, node="gpu-1.example.org")), node="gpu-1.example.org"
        )
        hints = cluster.hints("gpu-1.example.org")
        assert hints is not None
        assert hints.node == "gpu-1.example.org"


async def test_two_vendors_of_a_node_are_one_message() -> None:
    cluster = Cluster()
    cluster.publish(NODE, a_card("BI-0", 0, vendor="iluvatar", mib=16384), vendor="iluvatar")
    async with rebalancing(cluster):
        for _ in range(10):
            await cluster.agents.publish(loads={"n0-0": 30})
            await cluster.agents.publish(vendor="iluvatar", loads={"BI-0": 70})
            await asyncio.sleep(2)
        hints = cluster.hints()
        assert hints is not None
        assert {c.card: round(c.busy_percent) for c in hints.cards} == {"n0-0": 30, "BI-0": 70}


async def test_a_grant_that_the_scheduler_did_not_sign_is_not_idle() -> None:
    cluster = Cluster()
    a = cluster.bound("a", signer=Signer(new_key()))
    async with rebalancing(cluster):
        for _ in range(30):
            await cluster.agents.publish((a, a_use(10)), loads={"n0-0": 10})
            await asyncio.sleep(2)
        hints = cluster.hints()
        assert hints is not None
        assert (hints.cards[0].idle_cores_percent, hints.bounds) == (0, ())


async def test_bounds_follow_grants_as_pods_come_and_go() -> None:
    cluster = Cluster()
    a = cluster.bound("a", 30)
    out = cluster.bound("out", 50, annotations={"tessera.dev/lending": "false"})

    def bounds() -> dict[str, float]:
        hints = cluster.hints()
        return {} if hints is None else {b.uid: b.most_cores_percent for b in hints.bounds}

    async with rebalancing(cluster):
        await cluster.agents.measure(20, (a, a_use(10)), (out, a_use(10)))
        assert bounds() == {a: 50, out: 50}
        cluster.end("out")
        await cluster.agents.measure(10, (a, a_use(10)))
        assert bounds() == {a: 100}


async def test_lending_may_be_switched_off() -> None:
    cluster = Cluster()
    a = cluster.bound("a", 30)
    off = settings(lending=settings().lending.__class__(on=False))
    async with rebalancing(cluster, off):
        await cluster.agents.measure(20, (a, a_use(10)))
        hints = cluster.hints()
        assert hints is not None
        assert [b.most_cores_percent for b in hints.bounds] == [30]


async def test_repeats_and_nonsense_change_nothing_and_are_counted() -> None:
    cluster = Cluster()
    a = cluster.bound("a", 30)
    async with rebalancing(cluster) as rebalancer:
        await cluster.agents.measure(20, (a, a_use(10)))
        taken = rebalancer.usage.taken
        said = cluster.bus.said("tessera.v1.default.usage.n0")
        cluster.bus.repeat("tessera.v1.default.usage.n0")
        nonsense = said[-1]
        envelope = nonsense.envelope.__class__(
            id="x", source="/tessera/agent/other", type="t", time="2026-11-21T00:00:00Z",
            epoch=1, sequence=1,
        )  # fmt: skip
        await cluster.bus.publish(nonsense.subject, envelope, b'{"node": 7}')
        await asyncio.sleep(5)
        usage = rebalancer.usage
        assert (usage.taken, usage.late, usage.unreadable) == (taken, len(said), 1)
        text = rebalancer.metrics.text().decode().splitlines()
        assert f"tessera_rebalancer_usage_messages_total {float(taken)}" in text
        assert "tessera_rebalancer_usage_messages_unreadable_total 1.0" in text
        assert "tessera_rebalancer_hinted_nodes 1.0" in text


async def test_without_the_schedulers_keys_nothing_is_reported() -> None:
    cluster = Cluster(keys=False)
    a = cluster.bound("a", 30)
    async with rebalancing(cluster) as rebalancer:
        await cluster.agents.measure(20, (a, a_use(10)))
        assert "public keys" in rebalancer.problem()
        assert cluster.published() == []
        cluster.publish_keys()
        await until(rebalancer.objects.pods_read.is_set)
        await cluster.agents.measure(10, (a, a_use(10)))
        hints = cluster.hints()
        assert hints is not None
        assert hints.bounds


async def test_a_rebalancer_that_starts_again_goes_on_with_less_confidence() -> None:
    cluster = Cluster()
    a = cluster.bound("a", 30)
    async with rebalancing(cluster):
        await cluster.agents.measure(300, (a, a_use(10)))
    sure = cluster.hints()
    async with rebalancing(cluster):
        await cluster.agents.measure(10, (a, a_use(10)))
    unsure = cluster.hints()
    assert sure is not None
    assert unsure is not None
    assert sure.bounds == unsure.bounds
    assert sure.cards[0].confidence > 0.9
    assert unsure.cards[0].confidence < 0.3


async def test_a_pod_that_came_counts_in_the_price_of_its_card_before_it_was_measured() -> None:
    cluster = Cluster()
    a = cluster.bound("a")
    async with rebalancing(cluster):
        await cluster.agents.measure(60, (a, a_use(90)))
        before = cluster.hints()
        assert before is not None
        cluster.bound("b")
        await asyncio.sleep(5)
        after = cluster.hints()
        assert after is not None
        assert (before.cards[0].holders, after.cards[0].holders) == (1, 2)
        assert after.cards[0].expected_percent > before.cards[0].expected_percent + 40
        assert after.cards[0].prices > before.cards[0].prices
        cluster.end("b")
        await asyncio.sleep(5)
        after = cluster.hints()
        assert after is not None
        assert after.cards[0].holders == 1


async def test_a_pod_whose_status_alone_changes_has_the_shares_that_it_had() -> None:
    cluster = Cluster()
    a = cluster.bound("a")
    async with rebalancing(cluster) as rebalancer:
        await cluster.agents.measure(10, (a, a_use(90)))
        granted = rebalancer.objects.granted
        before = granted.on(NODE)
        cluster.call("PATCH", f"{cluster.path('a')}/status", {"status": {"message": "m"}})
        await asyncio.sleep(5)
        assert granted.on(NODE) is before
        cluster.bound("b")
        await asyncio.sleep(5)
        assert granted.on(NODE) is not before
        assert {uid for uid, *_ in before} == {a}


async def test_pods_of_one_controller_are_known_to_be_alike() -> None:
    cluster = Cluster()
    owner = {"uid": "sweep", "kind": "Job", "controller": True}
    first = [cluster.bound(f"p{n}", 20, ownerReferences=[owner]) for n in range(2)]
    async with rebalancing(cluster) as rebalancer:
        for _ in range(20):
            await cluster.agents.measure(60, *((uid, a_use(5)) for uid in first))
        assert {held.owner for held in rebalancer.objects.granted.on(NODE).values()} == {"sweep"}
        hints = cluster.hints()
        assert hints is not None
        assert hints.cards[0].expected_percent < 60
        [want] = hints.wants
        assert (want.namespace, want.cores_percent) == ("default", 20)
        assert want.wanted_percent < 30
