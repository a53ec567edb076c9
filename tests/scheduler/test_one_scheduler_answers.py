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
from tests.scheduler.world import (
    BINDING,
    HOME,
    World,
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
    world = World(1)
    uid = world.pod("a")
    other = FakeKube(world.store)
    async with leading(world) as first, standing_by(world, other) as second:
        assert "standing by: scheduler-" in second.leadership.problem()
        with pytest.raises(NotLeading):
            world.filter(second, "a")
        await world.place(first, "a")
        await until(lambda: phase(second, uid) is AllocationPhase.BOUND, 5)
        world.kube.pause()
        await until(lambda: second.leadership.leads, 60)
        assert not first.leadership.leads
        with pytest.raises(NotLeading):
            world.filter(first, "a")
        world.kube.resume()


async def test_a_new_leader_has_read_all_pods_since_it_leads() -> None:
    world = World(1)
    other = FakeKube(world.store)
    uid = world.pod("a", 12000)
    async with leading(world) as first, standing_by(world, other) as second:
        other.event_delay_s = 10_000
        await world.place(first, "a")
        world.kube.pause()
        await until(lambda: second.leadership.leads, 60)
        assert phase(second, uid) is AllocationPhase.BOUND
        world.pod("b", 12000)
        assert not world.filter(second, "b").node_names
        world.kube.resume()


async def test_no_binding_is_sent_when_the_lease_may_end_before_its_answer() -> None:
    world = World(1)
    uid = world.pod("a")
    async with leading(world) as scheduler:
        world.fault("PUT", ".*/leases/.*", Answer(500), times=1000)
        world.filter(scheduler, "a")
        await until(lambda: scheduler.leadership.fence() < 5, 20)
        assert scheduler.leadership.leads
        assert "about to stop leading" in await world.bind(scheduler, "a", "n0")
        assert not [c for c in world.kube.calls if re.fullmatch(BINDING, c[1])]
        assert phase(scheduler, uid) is AllocationPhase.RESERVED


async def test_who_loses_the_lease_drops_reservations_and_keeps_what_was_sent() -> None:
    world = World(2)
    reserved, sent = world.pod("a"), world.pod("b")
    other = FakeKube(world.store)
    async with leading(world) as first, standing_by(world, other) as second:
        world.filter(first, "a")
        world.filter(first, "b")
        world.fault("POST", BINDING, Delay(12))
        await world.bind(first, "b", "n0")
        world.kube.pause()
        await until(lambda: not first.leadership.leads, 60)
        assert (phase(first, reserved), phase(first, sent)) == (None, AllocationPhase.UNSETTLED)
        await until(lambda: second.leadership.leads, 60)
        assert phase(second, sent) is AllocationPhase.BOUND
        world.kube.resume()
        await until(lambda: phase(first, sent) is AllocationPhase.BOUND, 60)


async def test_a_binding_that_is_on_its_way_when_the_lease_ends_is_not_overtaken() -> None:
    """The next holder waits out the Lease and a call more, then reads: it sees what was written."""
    world = World(1)
    uid = world.pod("a", 12000)
    other = FakeKube(world.store)
    async with leading(world) as first, standing_by(world, other) as second:
        world.filter(first, "a")
        await until(lambda: first.leadership.fence() < 12.05, 10)
        world.fault("PUT", ".*/leases/.*", Answer(500), times=1000)
        await until(lambda: first.leadership.fence() < 5.1, 10)
        world.fault("POST", BINDING, Delay(4.9))
        assert await world.bind(first, "a", "n0") == ""
        await until(lambda: second.leadership.leads, 60)
        assert phase(second, uid) is AllocationPhase.BOUND
        world.pod("b", 12000)
        assert not world.filter(second, "b").node_names


async def test_a_binding_that_comes_when_another_leads_is_refused() -> None:
    """It was sent in time, and the way was long: nobody could know of it any more."""
    world = World(1)
    late, other = world.pod("a", 12000), FakeKube(world.store)
    async with leading(world) as first, standing_by(world, other) as second:
        world.filter(first, "a")
        world.fault("POST", BINDING, Delay(60))
        assert "not known" in await world.bind(first, "a", "n0")
        world.kube.pause()
        await until(lambda: second.leadership.leads, 50)
        world.pod("b", 12000)
        assert await world.place(second, "b") == "n0"
        await asyncio.sleep(60)
        assert world.read("a").spec.node_name == ""
        assert world.truth_on("n0")["GPU-n0-0"].memory_bytes == 12000 * MIB
        world.kube.resume()
        await until(lambda: phase(first, late) is None, 120)


async def test_nobody_leads_before_the_api_server_compares_with_his_term() -> None:
    """It hears of the Lease a little later."""
    world = World(1)
    message = f"ValidatingAdmissionPolicy '{fencing.POLICY}' denied request"
    world.fault("POST", PROBE, Answer(403, message), times=6)
    async with standing_by(world) as scheduler:
        await until(lambda: scheduler.leadership.holds, 60)
        assert not scheduler.leadership.leads
        await until(lambda: scheduler.leadership.leads, 60)
        assert counted(scheduler, "fenced") == 1


async def test_who_is_not_compared_with_leads_and_says_so() -> None:
    world = World(1)
    policies, policy = next(iter(fencing.fencing_policy(HOME).items()))
    world.call("DELETE", f"{policies}/{fencing.POLICY}")
    async with leading(world, config=settings(fence_s=1)) as scheduler:
        assert counted(scheduler, "fenced") == 0
        world.pod("a")
        assert await world.place(scheduler, "a") == "n0"
        world.make(policies, policy)
        await until(lambda: counted(scheduler, "fenced") == 1, 5)
        world.call("DELETE", f"{policies}/{fencing.POLICY}")
        await until(lambda: counted(scheduler, "fenced") == 0, 5)


async def test_a_scheduler_that_was_stopped_leaves_the_lease_to_the_next() -> None:
    world = World(1)
    async with leading(world):
        pass
    began = asyncio.get_running_loop().time()
    async with leading(world):
        assert asyncio.get_running_loop().time() - began < 10


async def test_a_grant_that_was_removed_while_nobody_led_is_restored_by_the_next() -> None:
    world = World(1)
    world.pod("a", 9000)
    other = FakeKube(world.store)
    async with leading(world) as first, standing_by(world, other) as second:
        await world.place(first, "a")
        await asyncio.sleep(1)
        world.kube.pause()
        world.note(world.path("a"), {GRANT_KEY: None})
        await asyncio.sleep(1)
        assert GRANT_KEY not in world.read("a").metadata.annotations
        await until(lambda: second.leadership.leads, 60)
        await until(lambda: GRANT_KEY in world.read("a").metadata.annotations, 10)
        world.granted("a", second.keys.verifier)
        world.kube.resume()


async def test_a_binding_is_not_tried_again_when_the_lease_may_end_meanwhile() -> None:
    world = World(1)
    uid = world.pod("a")
    async with leading(world) as scheduler:
        world.fault("PUT", ".*/leases/.*", Answer(500), times=1000)
        world.filter(scheduler, "a")
        await until(lambda: scheduler.leadership.fence() < 5.5, 20)
        world.fault("POST", BINDING, Answer(429, retry_after_s=1))
        assert "fault" in await world.bind(scheduler, "a", "n0")
        assert len([c for c in world.kube.calls if re.fullmatch(BINDING, c[1])]) == 1
        assert phase(scheduler, uid) is None


async def test_what_the_former_leader_could_not_tell_the_next_one_tells() -> None:
    world = World(1)
    world.pod("a", 0, annotations={GRANT_KEY: "forged"})
    other = FakeKube(world.store)
    async with leading(world), standing_by(world, other) as second:
        world.kube.pause()
        world.bind_elsewhere("a", "n0")
        await until(lambda: second.leadership.leads, 60)
        await asyncio.sleep(1)
        events = world.call("GET", "/api/v1/namespaces/default/events")["items"]
        assert [e["reason"] for e in events] == ["ForgedGrant"]
        world.kube.resume()


async def test_nobody_is_answered_while_the_pods_are_read_anew() -> None:
    world = World(1)
    world.pod("a")
    other = FakeKube(world.store)
    async with leading(world), standing_by(world, other) as second:
        world.kube.pause()
        other.faults.add(InjectedFault("GET", "/api/v1/pods", Delay(3)))
        await until(lambda: second.leadership.holds, 60)
        assert second.leadership.problem() == "leads, and is reading the pods anew"
        assert second.leadership.fence() == 0
        with pytest.raises(NotLeading):
            world.filter(second, "a")
        await until(lambda: second.leadership.leads, 10)
        world.filter(second, "a")
        world.kube.resume()
