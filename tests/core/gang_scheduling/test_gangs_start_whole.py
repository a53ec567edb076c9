"""A gang starts whole or not at all: from its first pod to its start, and what ends it. Clusters
and answers are those of the specification's cases."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tessera_core.gang_scheduling.attempt import GangAttempt, GangTimings
from tessera_core.gangs.gang import GangOrigin
from tessera_core.machines.allocation import AllocationPhase
from tessera_core.machines.gang import GangPhase
from tessera_testing.builders import a_container, a_pod
from tests.core.gang_scheduling.gang_cluster import GangCluster, started
from tests.core.gang_scheduling.gang_pods import koord_members, members
from tests.core.gangs.setting import (
    KOORD,
    a_group,
    a_koord_member,
    a_kubernetes_member,
    a_member,
)

FOREIGN = "kueue.x-k8s.io/admission"


def test_a_gang_gathers_while_too_few_pods_exist() -> None:
    """GA5, without gates"""
    group = a_group("g", minMember=3)
    cluster = started(GangCluster({"n1": 8}, [group]), members("g", 1, 2))
    assert cluster.phase(group) is GangPhase.GATHERING
    assert cluster.bound() == []
    assert list(cluster.ledger.entries()) == []
    assert cluster.why(group) == "gang default/g waits: default/g has 2 of 3 members"


def test_a_pod_that_others_hold_back_does_not_count() -> None:
    """GA6"""
    group = a_group("g", minMember=3)
    held = a_member("g3", "g", gates=[FOREIGN])
    cluster = started(GangCluster({"n1": 8}, [group]), [*members("g", 1, 2), held])
    assert cluster.phase(group) is GangPhase.GATHERING
    cluster.create(replace(held, spec=replace(held.spec, scheduling_gates=())))
    cluster.run()
    assert cluster.bound() == ["g1", "g2", "g3"]


def test_pods_wait_for_the_object_that_they_name() -> None:
    """GA7"""
    group = a_group(
        "pg1", GangOrigin.KUBERNETES, schedulingPolicy={"gang": {"minCount": 2}},
    )  # fmt: skip
    pods = [a_kubernetes_member("p1", "pg1"), a_kubernetes_member("p2", "pg1")]
    cluster = started(GangCluster({"n1": 8}), pods)
    assert cluster.bound() == []
    assert "PodGroup default/pg1 does not exist" in cluster.why(group)
    cluster.put_group(group)
    cluster.run()
    assert cluster.bound() == ["p1", "p2"]
    assert cluster.phase(group) is GangPhase.STARTED


def test_an_object_that_is_deleted_holds_back_the_pods_that_wait() -> None:
    group = a_group("g", minMember=2)
    cluster = started(GangCluster({"n1": 2}, [group]), members("g", 1, 2, 3))
    assert cluster.bound() == ["g1", "g2"]
    cluster.gangs.drop_group(group.id)
    cluster.add_node("n2", 4)
    cluster.run()
    assert cluster.bound() == ["g1", "g2"]
    assert "does not exist" in cluster.why(group)


def test_a_minimum_that_is_lowered_is_searched_for_though_no_room_came() -> None:
    cluster = started(GangCluster({"n1": 2}, [a_group("g", minMember=3)]), members("g", 1, 2, 3))
    assert cluster.bound() == []
    cluster.put_group(a_group("g", minMember=2))
    cluster.run(rounds=20)
    assert cluster.bound() == ["g1", "g2"]


def test_of_two_gangs_that_fit_one_at_a_time_one_starts_and_the_other_holds_nothing() -> None:
    """GB1"""
    a, b = a_group("a", minMember=4), a_group("b", minMember=4)
    mixed = [pod for n in (1, 2, 3, 4) for pod in (*members("a", n), *members("b", n))]
    cluster = started(GangCluster({"n1": 4}, [a, b]), mixed)
    assert cluster.bound() == ["a1", "a2", "a3", "a4"]
    assert {entry.grant.name for entry in cluster.ledger.entries()} == {"a1", "a2", "a3", "a4"}
    assert cluster.why(b) == (
        "gang default/b waits: 0 of 4 members like default/b1 fit now: none is placed"
    )
    for name in ("a1", "a2", "a3", "a4"):
        cluster.delete(cluster.uid(name))
    cluster.run(rounds=40)
    assert cluster.bound() == ["b1", "b2", "b3", "b4"]


def test_a_bundle_starts_whole_and_the_other_bundle_holds_nothing() -> None:
    """GB2"""
    ab, cd = '["default/a", "default/b"]', '["default/c", "default/d"]'
    pods = {
        gang: koord_members(gang, 2, 2, groups=groups)
        for gang, groups in (("a", ab), ("b", ab), ("c", cd), ("d", cd))
    }
    cluster = started(GangCluster({"n1": 4}), *(pods[gang] for gang in "acbd"))
    assert cluster.bound() == ["a1", "a2", "b1", "b2"]
    assert len(list(cluster.ledger.entries())) == 4


def test_a_gang_with_enough_waits_for_one_of_its_bundle_that_has_not() -> None:
    """GB4"""
    both = '["default/a", "default/b"]'
    cluster = started(
        GangCluster({"n1": 8}), koord_members("b", 2, 2, groups=both),
        koord_members("a", 1, 3, groups=both),
    )  # fmt: skip
    assert cluster.bound() == []
    why = cluster.coordinator.why("koordinator/default/b", cluster.now)
    assert why == "gang default/a, default/b waits: default/a has 1 of 3 members"


def test_exactly_the_minimum_starts_together_where_not_all_fit_and_others_follow() -> None:
    """GB10"""
    group = a_group("g", minMember=2)
    cluster = GangCluster({"n1": 3}, [group])
    cluster.create(*members("g", 1, 2, 3, 4))
    cluster.watch()
    cluster.step()
    assert len(list(cluster.ledger.entries())) == 2
    cluster.run()
    assert cluster.released == [cluster.uid("g1"), cluster.uid("g2")]
    assert cluster.bound() == ["g1", "g2", "g3"]


def test_roles_of_the_minimum_start_first() -> None:
    """GB3, with cards for two"""
    group = a_group("g", minMember=2, minTaskMember={"master": 1, "worker": 1})
    pods = [a_member(f"p{n}", "g", role=role) for n, role in enumerate(("master", "master"))]
    pods += [a_member(f"p{n + 2}", "g", role=role) for n, role in enumerate(("worker", "worker"))]
    cluster = started(GangCluster({"n1": 2}, [group]), pods)
    assert cluster.bound() == ["p0", "p2"]


def test_nobody_is_bound_before_the_last_one_has_arrived() -> None:
    group = a_group("g", minMember=4)
    cluster = GangCluster({"n1": 4}, [group])
    cluster.create(*members("g", 1, 2, 3, 4))
    cluster.watch()
    cluster.step()
    *first, last = cluster.waiting()
    for uid in first:
        cluster.try_pod(uid)
    assert cluster.phase(group) is GangPhase.BINDING
    assert cluster.bound() == []
    cluster.try_pod(last)
    assert cluster.bound() == ["g1", "g2", "g3", "g4"]


def test_a_barrier_that_is_missed_frees_everything_and_says_who_was_late() -> None:
    """GB7"""
    group = a_group("g", minMember=4)
    cluster = GangCluster({"n1": 4}, [group])
    cluster.create(*members("g", 1, 2, 3, 4))
    cluster.watch()
    cluster.step()
    for name in ("g1", "g2", "g3"):
        cluster.try_pod(cluster.uid(name))
    cluster.now += 60
    assert not cluster.coordinator.step(cluster.now, 0)
    effects = cluster.coordinator.effects()
    assert set(effects.failed) == {cluster.uid(name) for name in ("g1", "g2", "g3")}
    assert set(effects.failed.values()) == {
        "gang default/g does not start now: 3 of 4 members arrived, missing default/g4: time is up"
    }
    assert list(cluster.ledger.entries()) == []
    assert cluster.phase(group) is GangPhase.QUEUED


@pytest.mark.parametrize(("misses", "seconds"), [(1, 2), (2, 4), (3, 8), (12, 300)])
def test_a_gang_that_missed_waits_longer_each_time(misses: int, seconds: float) -> None:
    group = a_group("g", minMember=2)
    cluster = GangCluster({"n1": 2}, [group])
    cluster.create(*members("g", 1, 2))
    cluster.watch()
    for missed in range(misses):
        cluster.step()
        assert cluster.phase(group) is GangPhase.RESERVED
        cluster.now += 120
        cluster.coordinator.step(cluster.now, 0)
        assert cluster.phase(group) is GangPhase.QUEUED
        if missed < misses - 1:
            cluster.now += 300
    cluster.now += seconds - 0.1
    cluster.step()
    assert cluster.phase(group) is GangPhase.QUEUED
    cluster.now += 0.1
    cluster.step()
    assert cluster.phase(group) is GangPhase.RESERVED


def test_a_gang_that_has_missed_for_days_goes_on_waiting() -> None:
    attempt = GangAttempt(frozenset({"volcano/default/g"}), GangTimings(), 0)
    for _ in range(2_000):
        attempt.missed("1 of 2 members arrived", 0.0)
    assert attempt.not_before == 300


def test_a_member_that_is_deleted_at_the_barrier_frees_the_others_in_the_same_step() -> None:
    group = a_group("g", minMember=3)
    cluster = GangCluster({"n1": 3}, [group])
    cluster.create(*members("g", 1, 2, 3))
    cluster.watch()
    cluster.step()
    for name in ("g1", "g2"):
        cluster.try_pod(cluster.uid(name))
    cluster.delete(cluster.uid("g3"))
    cluster.watch()
    cluster.step()
    assert cluster.phase(group) is GangPhase.GATHERING
    assert cluster.calling == set()
    assert "default/g has 2 of 3 members" in cluster.errors[cluster.uid("g1")]
    assert list(cluster.ledger.entries()) == []


def test_a_minimum_that_grows_at_the_barrier_ends_it() -> None:
    group = a_group("g", minMember=2)
    cluster = GangCluster({"n1": 3}, [group])
    cluster.create(*members("g", 1, 2))
    cluster.watch()
    cluster.step()
    cluster.try_pod(cluster.uid("g1"))
    cluster.put_group(a_group("g", minMember=3))
    cluster.watch()
    cluster.step()
    assert cluster.phase(group) is GangPhase.GATHERING
    assert list(cluster.ledger.entries()) == []


def test_a_member_that_gets_cards_elsewhere_counts_where_it_is() -> None:
    group = a_group("g", minMember=2)
    cluster = GangCluster({"n1": 2, "n2": 1}, [group])
    cluster.create(*members("g", 1, 2))
    cluster.watch()
    cluster.step()
    uid = cluster.uid("g2")
    entry = cluster.ledger.entry(uid)
    assert entry is not None
    assert entry.grant.node == "n1"
    (share,) = entry.grant.shares
    moved = replace(entry.grant, node="n2", shares=(replace(share, card="n2-0", index=0),))
    assert cluster.ledger.assume([moved], cluster.now) is None
    cluster.run()
    assert {name: cluster.grants[cluster.uid(name)].node for name in cluster.bound()} == {
        "g1": "n1", "g2": "n2",
    }  # fmt: skip


def test_a_member_that_lost_its_cards_ends_the_attempt_of_all() -> None:
    """GB6"""
    group = a_group("g", minMember=2)
    cluster = GangCluster({"n1": 2}, [group])
    cluster.create(*members("g", 1, 2))
    cluster.watch()
    cluster.step()
    cluster.try_pod(cluster.uid("g1"))
    cluster.ledger.forget(cluster.uid("g2"))
    cluster.step()
    assert cluster.phase(group) is GangPhase.QUEUED
    assert "default/g2 lost its cards on node n1" in cluster.errors[cluster.uid("g1")]
    assert list(cluster.ledger.entries()) == []


def test_a_member_without_cards_is_waited_for_before_the_first_binding() -> None:
    """GB9, without gates"""
    group = a_group("g", minMember=3)
    launcher = replace(a_member("launcher", "g"), spec=a_pod(a_container({"cpu": 1})).spec)
    cluster = GangCluster({"n1": 2}, [group])
    cluster.create(launcher, *members("g", 1, 2))
    cluster.watch()
    cluster.step()
    for name in ("g1", "g2"):
        cluster.try_pod(cluster.uid(name))
    assert cluster.bound() == []
    uid = launcher.metadata.uid
    cluster.create(replace(launcher, spec=replace(launcher.spec, node_name="n1")))
    cluster.watch()
    cluster.step()
    assert cluster.phase(group) in (GangPhase.COMMITTED, GangPhase.STARTED)
    assert set(cluster.bound()) == {"g1", "g2", "launcher"}
    assert uid not in cluster.released


def test_a_member_whose_binding_is_refused_keeps_its_cards_until_it_is_tried_again() -> None:
    group = a_group("g", minMember=2)
    cluster = GangCluster({"n1": 2}, [group])
    cluster.create(*members("g", 1, 2))
    cluster.watch()
    cluster.step()
    refused = cluster.uid("g2")
    cluster.outcome = lambda uid: uid != refused
    for name in ("g1", "g2"):
        cluster.try_pod(cluster.uid(name))
    assert cluster.bound() == ["g1"]
    entry = cluster.ledger.entry(refused)
    assert entry is not None
    assert entry.phase is AllocationPhase.RESERVED
    cluster.outcome = lambda uid: True
    cluster.run()
    assert cluster.bound() == ["g1", "g2"]
    assert cluster.phase(group) is GangPhase.STARTED


def test_a_member_without_cards_that_gets_no_node_is_named() -> None:
    group = a_group("g", minMember=2)
    launcher = replace(a_member("launcher", "g"), spec=a_pod(a_container({"cpu": 1})).spec)
    cluster = GangCluster({"n1": 1}, [group])
    cluster.create(launcher, *members("g", 1))
    cluster.watch()
    cluster.step()
    cluster.try_pod(cluster.uid("g1"))
    cluster.now += 61
    cluster.step()
    said = "1 of 2 members arrived, missing default/launcher: time is up"
    assert said in cluster.errors[cluster.uid("g1")]


def test_a_launcher_that_runs_first_is_no_start() -> None:
    cluster = GangCluster({"n1": 2})
    launcher = a_pod(
        a_container({"cpu": 1}), name="launcher", node="n1",
        annotations={KOORD + "name": "g", KOORD + "min-available": "3"},
    )  # fmt: skip
    cluster.create(launcher, *koord_members("g", 1, 3))
    cluster.run()
    assert cluster.bound() == ["launcher"]
    cluster.create(a_koord_member("g2", "g", min_available="3"))
    cluster.run()
    assert cluster.bound() == ["g1", "g2", "launcher"]


def test_after_the_start_of_a_koordinator_gang_members_go_one_by_one() -> None:
    """GC1"""
    cluster = started(GangCluster({"n1": 3}), koord_members("g", 3, 3))
    cluster.delete(cluster.uid("g3"))
    cluster.create(a_koord_member("successor", "g", min_available="3"))
    cluster.run()
    assert cluster.bound() == ["g1", "g2", "successor"]


def test_members_that_have_to_arrive_together_each_time_wait_for_each_other() -> None:
    """GC2"""
    policy = {"match_policy": "only-waiting"}
    cluster = started(GangCluster({"n1": 3}), koord_members("g", 3, 3, **policy))
    assert len(cluster.bound()) == 3
    cluster.delete(cluster.uid("g3"))
    cluster.create(a_koord_member("successor", "g", min_available="3", **policy))
    cluster.run()
    assert cluster.bound() == ["g1", "g2"]
    why = cluster.coordinator.why("koordinator/default/g", cluster.now)
    assert why == "gang default/g waits: default/g has 1 of 3 members"


def test_the_successor_of_a_gangs_member_goes_before_a_pod_that_waits_as_well() -> None:
    """GC3"""
    group, filler = a_group("g", minMember=2), a_group("filler", minMember=2)
    cluster = started(GangCluster({"n1": 1, "n2": 1}, [group, filler]), members("g", 1, 2))
    assert cluster.bound() == ["g1", "g2"]
    cluster.create(*members("filler", 1, 2))
    cluster.run()
    node = cluster.grants[cluster.uid("g2")].node
    cluster.lose_node(node)
    cluster.run()
    assert cluster.phase(group) is GangPhase.BROKEN
    cluster.create(a_member("successor", "g"))
    cluster.add_node(node, 1)
    cluster.run(rounds=20)
    assert cluster.bound() == ["g1", "successor"]
    assert cluster.phase(group) is GangPhase.STARTED
