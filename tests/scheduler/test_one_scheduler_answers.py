"""The Lease: who answers, when, and what is left of the one who lost it."""

import asyncio
import re

import pytest

from tessera_core.machines.allocation import AllocationPhase
from tessera_core.trust import fencing
from tessera_embedded.apiserver.faults import Answer, Delay, InjectedFault
from tessera_scheduler.extender.handlers import NotLeading
from tessera_schema.cards import MIB
from tessera_schema.grants import GRANT_KEY
from tessera_testing.kube import FakeKube
from tests.scheduler.fake_cluster import (
    BINDING,
    HOME,
    FakeCluster,
    counted,
    leading,
    phase,
    settings,
    standing_by,
    until,
)

pytestmark = pytest.mark.looptime

PROBE = ".*/namespaces/tessera-system/pods/[^/]+/binding"


async def test_the_other_one_stands_by_and_takes_over() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a")
    other = FakeKube(cluster.store)
    async with leading(cluster) as first, standing_by(cluster, other) as second:
        assert "standing by: scheduler-" in second.leadership.problem()
        with pytest.raises(NotLeading):
            cluster.filter(second, "a")
        await cluster.place(first, "a")
        await until(lambda: phase(second, uid) is AllocationPhase.BOUND, 5)
        cluster.kube.pause()
        await until(lambda: second.leadership.leads, 60)
        assert not first.leadership.leads
        with pytest.raises(NotLeading):
            cluster.filter(first, "a")
        cluster.kube.resume()


async def test_a_new_leader_has_read_all_pods_since_it_leads() -> None:
    cluster = FakeCluster(1)
    other = FakeKube(cluster.store)
    uid = cluster.pod("a", 12000)
    async with leading(cluster) as first, standing_by(cluster, other) as second:
        other.event_delay_s = 10_000
        await cluster.place(first, "a")
        cluster.kube.pause()
        await until(lambda: second.leadership.leads, 60)
        assert phase(second, uid) is AllocationPhase.BOUND
        cluster.pod("b", 12000)
        assert not cluster.filter(second, "b").node_names
        cluster.kube.resume()


async def test_no_binding_is_sent_when_the_lease_may_end_before_its_answer() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a")
    async with leading(cluster) as scheduler:
        cluster.fault("PUT", ".*/leases/.*", Answer(500), times=1000)
        cluster.filter(scheduler, "a")
        await until(lambda: scheduler.leadership.fence() < 5, 20)
        assert scheduler.leadership.leads
        assert "about to stop leading" in await cluster.bind(scheduler, "a", "n0")
        assert not [c for c in cluster.kube.calls if re.fullmatch(BINDING, c[1])]
        assert phase(scheduler, uid) is AllocationPhase.RESERVED


async def test_who_loses_the_lease_drops_reservations_and_keeps_what_was_sent() -> None:
    cluster = FakeCluster(2)
    reserved, sent = cluster.pod("a"), cluster.pod("b")
    other = FakeKube(cluster.store)
    async with leading(cluster) as first, standing_by(cluster, other) as second:
        cluster.filter(first, "a")
        cluster.filter(first, "b")
        cluster.fault("POST", BINDING, Delay(12))
        await cluster.bind(first, "b", "n0")
        cluster.kube.pause()
        await until(lambda: not first.leadership.leads, 60)
        assert (phase(first, reserved), phase(first, sent)) == (None, AllocationPhase.UNSETTLED)
        await until(lambda: second.leadership.leads, 60)
        assert phase(second, sent) is AllocationPhase.BOUND
        cluster.kube.resume()
        await until(lambda: phase(first, sent) is AllocationPhase.BOUND, 60)


async def test_a_binding_that_is_on_its_way_when_the_lease_ends_is_not_overtaken() -> None:
    """The next holder waits out the Lease and a call more, then reads: it sees what was written."""
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 12000)
    other = FakeKube(cluster.store)
    async with leading(cluster) as first, standing_by(cluster, other) as second:
        cluster.filter(first, "a")
        await until(lambda: first.leadership.fence() < 12.05, 10)
        cluster.fault("PUT", ".*/leases/.*", Answer(500), times=1000)
        await until(lambda: first.leadership.fence() < 5.1, 10)
        cluster.fault("POST", BINDING, Delay(4.9))
        assert await cluster.bind(first, "a", "n0") == ""
        await until(lambda: second.leadership.leads, 60)
        assert phase(second, uid) is AllocationPhase.BOUND
        cluster.pod("b", 12000)
        assert not cluster.filter(second, "b").node_names


async def test_a_binding_that_comes_when_another_leads_is_refused() -> None:
    """It was sent in time, and the way was long: nobody could know of it any more."""
    cluster = FakeCluster(1)
    late, other = cluster.pod("a", 12000), FakeKube(cluster.store)
    async with leading(cluster) as first, standing_by(cluster, other) as second:
        cluster.filter(first, "a")
        cluster.fault("POST", BINDING, Delay(60))
        assert "not known" in await cluster.bind(first, "a", "n0")
        cluster.kube.pause()
        await until(lambda: second.leadership.leads, 50)
        cluster.pod("b", 12000)
        assert await cluster.place(second, "b") == "n0"
        await asyncio.sleep(60)
        assert cluster.read("a").spec.node_name == ""
        assert cluster.truth_on("n0")["GPU-n0-0"].memory_bytes == 12000 * MIB
        cluster.kube.resume()
        await until(lambda: phase(first, late) is None, 120)


async def test_nobody_leads_before_the_api_server_compares_with_its_term() -> None:
    """It learns of the Lease a little later."""
    cluster = FakeCluster(1)
    message = f"ValidatingAdmissionPolicy '{fencing.POLICY}' denied request"
    cluster.fault("POST", PROBE, Answer(403, message), times=6)
    async with standing_by(cluster) as scheduler:
        await until(lambda: scheduler.leadership.holds, 60)
        assert not scheduler.leadership.leads
        await until(lambda: scheduler.leadership.leads, 60)
        assert counted(scheduler, "fenced") == 1


async def test_who_is_not_compared_with_leads_and_says_so() -> None:
    cluster = FakeCluster(1)
    policies, policy = next(iter(fencing.fencing_policy(HOME).items()))
    cluster.call("DELETE", f"{policies}/{fencing.POLICY}")
    async with leading(cluster, config=settings(fence_s=1)) as scheduler:
        assert counted(scheduler, "fenced") == 0
        cluster.pod("a")
        assert await cluster.place(scheduler, "a") == "n0"
        cluster.make(policies, policy)
        await until(lambda: counted(scheduler, "fenced") == 1, 5)
        cluster.call("DELETE", f"{policies}/{fencing.POLICY}")
        await until(lambda: counted(scheduler, "fenced") == 0, 5)


async def test_a_scheduler_that_was_stopped_leaves_the_lease_to_the_next() -> None:
    cluster = FakeCluster(1)
    async with leading(cluster):
        pass
    began = asyncio.get_running_loop().time()
    async with leading(cluster):
        assert asyncio.get_running_loop().time() - began < 10


async def test_a_grant_that_was_removed_while_nobody_led_is_restored_by_the_next() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 9000)
    other = FakeKube(cluster.store)
    async with leading(cluster) as first, standing_by(cluster, other) as second:
        await cluster.place(first, "a")
        await asyncio.sleep(1)
        cluster.kube.pause()
        cluster.note(cluster.path("a"), {GRANT_KEY: None})
        await asyncio.sleep(1)
        assert GRANT_KEY not in cluster.read("a").metadata.annotations
        await until(lambda: second.leadership.leads, 60)
        await until(lambda: GRANT_KEY in cluster.read("a").metadata.annotations, 10)
        cluster.granted("a", second.keys.verifier)
        cluster.kube.resume()


async def test_a_binding_is_not_tried_again_when_the_lease_may_end_meanwhile() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a")
    async with leading(cluster) as scheduler:
        cluster.fault("PUT", ".*/leases/.*", Answer(500), times=1000)
        cluster.filter(scheduler, "a")
        await until(lambda: scheduler.leadership.fence() < 5.5, 20)
        cluster.fault("POST", BINDING, Answer(429, retry_after_s=1))
        assert "fault" in await cluster.bind(scheduler, "a", "n0")
        assert len([c for c in cluster.kube.calls if re.fullmatch(BINDING, c[1])]) == 1
        assert phase(scheduler, uid) is None


async def test_what_the_former_leader_could_not_publish_the_next_one_publishes() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 0, annotations={GRANT_KEY: "forged"})
    other = FakeKube(cluster.store)
    async with leading(cluster), standing_by(cluster, other) as second:
        cluster.kube.pause()
        cluster.bind_elsewhere("a", "n0")
        await until(lambda: second.leadership.leads, 60)
        await asyncio.sleep(1)
        events = cluster.call("GET", "/api/v1/namespaces/default/events")["items"]
        assert [e["reason"] for e in events] == ["ForgedGrant"]
        cluster.kube.resume()


async def test_nobody_is_answered_while_the_pods_are_read_again() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a")
    other = FakeKube(cluster.store)
    async with leading(cluster), standing_by(cluster, other) as second:
        cluster.kube.pause()
        other.faults.add(InjectedFault("GET", "/api/v1/pods", Delay(3)))
        await until(lambda: second.leadership.holds, 60)
        assert second.leadership.problem() == "leads, and is reading the pods again"
        assert second.leadership.fence() == 0
        with pytest.raises(NotLeading):
            cluster.filter(second, "a")
        await until(lambda: second.leadership.leads, 10)
        cluster.filter(second, "a")
        cluster.kube.resume()
