"""Of 100,000 pods names and equal values are there once, and a list of pods that are known already
leaves nothing behind."""

from __future__ import annotations

import pytest

from tests.scheduler.fake_cluster import FakeCluster, leading, the_entry

pytestmark = pytest.mark.looptime


async def test_of_pods_that_another_replica_has_placed() -> None:
    cluster = FakeCluster(1)
    uids = [cluster.pod(name) for name in ("a", "b")]
    async with leading(cluster) as scheduler:
        for name in ("a", "b"):
            await cluster.place(scheduler, name)
    async with leading(cluster) as scheduler:
        first, second = (the_entry(scheduler, uid).grant for uid in uids)
        (node,), ((card,),) = scheduler.ledger.fleet.rows, scheduler.ledger.fleet.facts[:1]
        assert first.node is second.node is node
        assert first.shares[0].card is second.shares[0].card is card.id
        assert first.shares[0].vendor is second.shares[0].vendor
        assert first.namespace is second.namespace

        assert scheduler.preemption is not None
        victims = {uid: scheduler.preemption.pods.get(uid) for uid in uids}
        assert all(victim is not None for victim in victims.values())
        await scheduler.watches.refresh_pods()
        assert the_entry(scheduler, uids[0]).grant is first
        assert all(scheduler.preemption.pods.get(uid) is victims[uid] for uid in uids)
