"""Schedulers that take over or stop leading, calls that end, pods that are not known yet."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tessera_core.machines.gang import GangPhase
from tessera_core.slices import at_once
from tessera_schema.kube import SchedulingGate
from tests.core.gang_scheduling.gang_cluster import GangCluster, started
from tests.core.gang_scheduling.gang_pods import koord_members, members
from tests.core.gangs.setting import KOORD, a_group, a_koord_member, a_member


@pytest.mark.parametrize("origin", ["volcano", "koordinator"])
def test_a_scheduler_that_takes_over_finishes_a_start_first(origin: str) -> None:
    """GB8"""
    group = a_group("g", minMember=8)
    pods = members("g", *range(1, 9)) if origin == "volcano" else koord_members("g", 8, 8)
    cluster = GangCluster({"n1": 8}, [group] if origin == "volcano" else [])
    gang_id = f"{origin}/default/g"
    written: list[str] = []

    def dies_after_three(uid: str) -> bool | None:
        written.append(uid)
        return len(written) <= 3

    cluster.outcome = dies_after_three
    cluster.create(*pods)
    cluster.run(rounds=1)
    assert len(cluster.bound()) == 3
    cluster.start_scheduler()
    del cluster.outcome
    cluster.create(*members("x", 1))  # of a gang without a PodGroup: it waits
    cluster.watch()
    assert cluster.coordinator.phase(gang_id, cluster.now) is GangPhase.BROKEN
    cluster.step()
    assert len(list(cluster.ledger.entries())) == 8
    cluster.run()
    assert len(cluster.bound()) == 8
    assert cluster.coordinator.phase(gang_id, cluster.now) is GangPhase.STARTED


def test_a_replica_that_stops_leading_frees_what_it_holds() -> None:
    group = a_group("g", minMember=2)
    cluster = GangCluster({"n1": 2}, [group])
    cluster.create(*members("g", 1, 2))
    cluster.watch()
    cluster.step()
    cluster.try_pod(cluster.uid("g1"))
    cluster.lose_lease()
    assert cluster.errors == {cluster.uid("g1"): "this replica does not lead"}
    assert list(cluster.ledger.entries()) == []
    cluster.run()
    assert cluster.bound() == ["g1", "g2"]


def test_calls_that_end_have_not_arrived() -> None:
    group = a_group("g", minMember=2)
    cluster = GangCluster({"n1": 2}, [group])
    cluster.create(*members("g", 1, 2))
    cluster.watch()
    cluster.step()
    cluster.try_pod(cluster.uid("g1"))
    cluster.restart_kube_scheduler()
    cluster.try_pod(cluster.uid("g2"))
    assert cluster.bound() == []
    cluster.try_pod(cluster.uid("g1"))
    assert cluster.bound() == ["g1", "g2"]


def test_the_gate_of_tessera_does_not_keep_a_pod_from_counting() -> None:
    group = a_group("g", minMember=1)
    gated = a_member("g1", "g", gates=["tessera.dev/admission"])
    assert gated.spec.scheduling_gates == (SchedulingGate("tessera.dev/admission"),)
    cluster = started(GangCluster({"n1": 1}, [group]), [gated])
    assert cluster.bound() == ["g1"]


def test_a_pod_that_names_two_gangs_waits_with_both_fields() -> None:
    pod = a_member("p", "a", annotations={KOORD + "name": "b"})
    cluster = GangCluster({"n1": 1})
    cluster.create(pod)
    cluster.run()
    assert cluster.bound() == []
    assert "name two different groups" in cluster.gangs.wrong(pod.metadata.uid)


def test_a_pod_that_is_not_known_yet_waits_and_is_tried_again() -> None:
    group = a_group("g", minMember=1)
    cluster = GangCluster({"n1": 1}, [group])
    cluster.create(*members("g", 1))
    cluster.try_pod(cluster.uid("g1"))
    assert cluster.bound() == []
    before = cluster.requeued
    cluster.watch()
    cluster.step()
    assert cluster.requeued == before + 1
    cluster.try_pod(cluster.uid("g1"))
    assert cluster.bound() == ["g1"]


def test_a_once_satisfied_gang_that_did_not_start_waits_for_all_its_members() -> None:
    """Somebody else gives a member its node, and another one goes: the rest has no right to go one
    by one, since the scheduler has seen the gang without any pod that has a node."""
    first, second, third = koord_members("g", 3, 3)
    cluster = GangCluster({"n1": 1})
    cluster.create(first, second)
    cluster.run()
    cluster.create(replace(third, spec=replace(third.spec, node_name="n1")))
    cluster.run()
    cluster.delete(second.metadata.uid)
    cluster.add_node("n2", 2)
    cluster.run()
    assert cluster.bound() == ["g3"]
    why = cluster.coordinator.why("koordinator/default/g", cluster.now)
    assert why == "gang default/g waits: default/g has 2 of 3 members"
    cluster.create(a_koord_member("successor", "g", min_available="3"))
    cluster.run()
    assert cluster.bound() == ["g1", "g3", "successor"]


def test_a_once_satisfied_gang_of_a_former_scheduler_goes_one_by_one_where_pods_are_gone() -> None:
    cluster = started(GangCluster({"n1": 3}), koord_members("g", 3, 3))
    for name in ("g2", "g3"):
        cluster.delete(cluster.uid(name))
    cluster.start_scheduler()
    cluster.create(a_koord_member("successor", "g", min_available="3"))
    cluster.run()
    assert cluster.bound() == ["g1", "successor"]


def test_a_start_counts_of_which_a_list_shows_a_part_since_a_member_has_ended() -> None:
    cluster = GangCluster({"n1": 3})
    cluster.create(*koord_members("g", 3, 3))
    cluster.watch()
    cluster.step()
    for uid in cluster.waiting():
        cluster.try_pod(uid)
    assert cluster.bound() == ["g1", "g2", "g3"]
    cluster.step()
    cluster.delete(cluster.uid("g3"))
    cluster.events = cluster.events[-1:]
    at_once(cluster.gangs.list_pods(list(cluster.pods.values())))
    cluster.create(a_koord_member("successor", "g", min_available="3"))
    cluster.run()
    assert cluster.bound() == ["g1", "g2", "successor"]
