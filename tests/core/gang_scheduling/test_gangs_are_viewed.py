"""The read-only view of gangs: what statuses and commands read."""

from __future__ import annotations

from tessera_core.machines.gang import GangPhase
from tests.core.gang_scheduling.gang_cluster import GangCluster, started
from tests.core.gang_scheduling.gang_pods import members
from tests.core.gangs.setting import a_group

A = a_group("a", minMember=2)
B = a_group("b", minMember=3)


def test_a_gang_that_waits_says_why_and_since_when() -> None:
    cluster = started(GangCluster({"n0": 2}, [B]), members("b", 1, 2, 3))
    view = cluster.coordinator.view()[B.id]
    assert view.phase is GangPhase.QUEUED
    assert (view.min, view.needed, view.bound, view.exist) == (3, 3, 0, 3)
    assert view.fits_not
    assert view.reason == cluster.why(B)
    assert view.reserved == ()
    assert 1000 <= view.waits_since < cluster.now
    waits_since = view.waits_since
    cluster.now += 100
    cluster.step()
    assert cluster.coordinator.view()[B.id].waits_since == waits_since


def test_a_gang_that_gathers_and_one_that_has_cards() -> None:
    cluster = GangCluster({"n0": 2}, [A, B])
    cluster.create(*members("a", 1, 2), *members("b", 1))
    cluster.watch()
    cluster.step()
    view = cluster.coordinator.view()
    assert view[B.id].phase is GangPhase.GATHERING
    assert "1 of 3 members" in view[B.id].reason
    assert view[A.id].phase is GangPhase.RESERVED
    assert len(view[A.id].reserved) == 2
    cluster.bind(cluster.uid("a1"))
    assert cluster.coordinator.view()[A.id].arrived == 1


def test_a_gang_that_has_started_has_no_reason() -> None:
    cluster = started(GangCluster({"n0": 2}, [A]), members("a", 1, 2))
    view = cluster.coordinator.view()[A.id]
    assert (view.phase, view.bound, view.needed) == (GangPhase.STARTED, 2, 0)
    assert view.reason == ""


def test_a_missed_barrier_leaves_the_time_since_which_a_gang_waits() -> None:
    cluster = GangCluster({"n0": 2}, [A])
    cluster.create(*members("a", 1, 2))
    cluster.watch()
    cluster.step()
    began = cluster.coordinator.view()[A.id].waits_since
    cluster.now += 121
    cluster.coordinator.step(cluster.now, 0)
    view = cluster.coordinator.view()[A.id]
    assert (view.phase, view.misses, view.waits_since) == (GangPhase.QUEUED, 1, began)
    assert view.since == cluster.now
