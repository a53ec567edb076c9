"""Scheduling gates: opened once a gang has cards, and never left for ever."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tessera_core.gang_scheduling.gate_openings import (
    GATHERING_PODS,
    GATHERING_S,
    somebody_waits,
)
from tessera_core.gangs.gang import GangOrigin
from tessera_core.machines.gang import GangPhase
from tessera_schema.kube import Pod
from tessera_testing.builders import a_container, a_pod
from tests.core.gang_scheduling.gang_cluster import GangCluster, started
from tests.core.gang_scheduling.gang_pods import gated, members
from tests.core.gangs.setting import (
    VOLCANO_NAME,
    a_group,
    a_koord_member,
    a_kubernetes_member,
    a_member,
)

A = a_group("a", minMember=2)
B = a_group("b", minMember=3)


def a_launcher(name: str, gang: str) -> Pod:
    return a_pod(a_container({"cpu": "1"}), name=name, annotations={VOLCANO_NAME: gang})


def test_a_gang_gets_cards_behind_its_gates_and_then_they_open() -> None:
    cluster = GangCluster({"n0": 2}, [A])
    cluster.create(*gated(*members("a", 1, 2)))
    cluster.watch()
    assert cluster.waiting() == []
    cluster.step()
    assert cluster.phase(A) is GangPhase.RESERVED
    cluster.open_gates()
    assert cluster.opened == ["a1", "a2"]
    cluster.run()
    assert cluster.bound() == ["a1", "a2"]


@pytest.mark.parametrize("cards", [1, 0])
def test_a_gang_that_gathers_or_does_not_fit_stays_gated(cards: int) -> None:
    cluster = started(GangCluster({"n0": cards}, [A, B]), gated(*members("a", 1, 2)))
    cluster.create(*gated(*members("b", 1, 2)))
    cluster.run()
    assert cluster.opened == []
    cluster.add_node("n1", 2)
    cluster.run(seconds=20)
    assert cluster.opened == ["a1", "a2"]


def test_two_gangs_that_fit_one_at_a_time_open_one_at_a_time() -> None:
    cluster = GangCluster({"n0": 3}, [A, B])
    cluster.create(*gated(*members("b", 1, 2, 3)))
    cluster.create(*gated(*members("a", 1, 2)))
    cluster.run()
    assert cluster.opened == cluster.bound()
    assert len(cluster.opened) in (2, 3)


def test_a_member_without_cards_comes_last() -> None:
    cluster = GangCluster({"n0": 2}, [B])
    cluster.create(*gated(a_launcher("b0", "b"), *members("b", 1, 2)))
    cluster.watch()
    cluster.step()
    cluster.open_gates()
    assert cluster.opened == ["b1", "b2"]
    for name in ("b1", "b2"):
        uid = cluster.uid(name)
        cluster.watch()
        assert cluster.opened == ["b1", "b2"]
        cluster.try_pod(uid)
    cluster.open_gates()
    assert cluster.opened == ["b1", "b2", "b0"]
    assert cluster.bound() == []
    launcher = cluster.pods[cluster.uid("b0")]  # kube-scheduler does not call for it
    cluster.create(replace(launcher, spec=replace(launcher.spec, node_name="n0")))
    cluster.watch()
    cluster.step()
    assert cluster.bound() == ["b0", "b1", "b2"]


def test_all_members_of_a_kubernetes_group_come_at_once() -> None:
    group = a_group("k", GangOrigin.KUBERNETES, schedulingPolicy={"gang": {"minCount": 2}})
    cluster = GangCluster({"n0": 2}, [group])
    launcher = a_pod(
        a_container({"cpu": "1"}),
        name="k0",
        scheduling_group=a_kubernetes_member("x", "k").spec.scheduling_group,
    )
    cluster.create(*gated(launcher, a_kubernetes_member("k1", "k")))
    cluster.watch()
    cluster.step()
    cluster.open_gates()
    assert sorted(cluster.opened) == ["k0", "k1"]


def test_no_gang_and_members_after_the_start_go_at_once() -> None:
    cluster = GangCluster({"n0": 2}, [a_group("one", minMember=1), A])
    cluster.create(*gated(*members("one", 1)), *gated(*members("a", 1, 2)))
    cluster.watch()
    cluster.step()
    cluster.open_gates()
    assert "one1" in cluster.opened
    cluster.delete(cluster.uid("one1"))
    cluster.run(seconds=20)
    assert cluster.phase(A) is GangPhase.STARTED
    cluster.create(*gated(*members("a", 3)))
    cluster.watch()
    cluster.step()
    cluster.open_gates()
    assert cluster.opened[-1] == "a3"


def test_a_gang_without_cards_goes_once_enough_exist() -> None:
    cluster = GangCluster({"n0": 1}, [A])
    cluster.create(*gated(a_launcher("a1", "a")))
    cluster.run()
    assert cluster.opened == []
    cluster.create(*gated(a_launcher("a2", "a")))
    cluster.run()
    assert cluster.opened == ["a1", "a2"]


def test_a_replica_that_takes_over_opens_the_rest() -> None:
    cluster = GangCluster({"n0": 2}, [A])
    cluster.create(*gated(*members("a", 1, 2)))
    cluster.watch()
    cluster.step()
    cluster.open_gates(1)
    cluster.start_scheduler()
    cluster.run()
    assert cluster.opened == ["a1", "a2"]
    assert cluster.bound() == ["a1", "a2"]


def test_a_gate_that_somebody_takes_off_changes_nothing() -> None:
    cluster = started(GangCluster({"n0": 1}, [A]), members("a", 1), gated(*members("a", 2)))
    assert cluster.filter(cluster.uid("a1")) == ""
    assert cluster.bound() == []
    assert cluster.opened == []


def test_a_gang_whose_object_is_missing_stays_gated_and_says_why() -> None:
    cluster = started(GangCluster({"n0": 2}), gated(a_member("x1", "gone")))
    assert cluster.opened == []
    view = cluster.coordinator.view()["volcano/default/gone"]
    assert "PodGroup default/gone does not exist: create it" in view.reason


# -- whether new pods need gates


def waits(cluster: GangCluster) -> bool:
    return somebody_waits(cluster.coordinator.bundles(), cluster.now)


def test_nobody_waits_while_gangs_come_and_start() -> None:
    cluster = GangCluster({"n0": 5}, [A, B])
    assert not waits(cluster)
    cluster.create(*members("a", 1))
    cluster.watch()
    cluster.step()
    assert not waits(cluster), "the rest of it may come at once"
    cluster.create(*members("a", 2))
    cluster.create(*members("b", 1, 2, 3))
    cluster.watch()
    cluster.step()
    assert not waits(cluster)
    cluster.run()
    assert len(cluster.bound()) == 5
    assert not waits(cluster)


def test_a_gang_that_does_not_fit_waits_until_it_does() -> None:
    cluster = GangCluster({"n0": 1}, [A])
    cluster.create(*members("a", 1, 2))
    cluster.watch()
    cluster.step()
    assert waits(cluster)
    cluster.add_node("n1", 2)
    cluster.run(seconds=20)
    assert cluster.bound() == ["a1", "a2"]
    assert not waits(cluster)


def test_a_gang_that_lacks_pods_for_long_waits() -> None:
    cluster = GangCluster({"n0": 3}, [B])
    cluster.create(*members("b", 1, 2))
    cluster.watch()
    cluster.step()
    assert not waits(cluster)
    cluster.now += GATHERING_S
    assert waits(cluster)


def test_a_large_gang_that_lacks_pods_waits_from_the_first_second() -> None:
    large = a_group("c", minMember=2 * GATHERING_PODS)
    cluster = GangCluster({"n0": 3}, [large])
    cluster.create(*members("c", *range(GATHERING_PODS)))
    cluster.watch()
    cluster.step()
    assert not waits(cluster)
    cluster.create(*members("c", GATHERING_PODS))
    cluster.watch()
    cluster.step()
    assert waits(cluster)


def test_a_member_that_names_another_queue_than_its_gang_waits() -> None:
    cluster = GangCluster({"n0": 3})
    for name, queue in (("a1", "p"), ("a2", "p"), ("a3", "q")):
        pod = a_koord_member(name, "a", min_available="2")
        notes = {**pod.metadata.annotations, "scheduling.volcano.sh/queue-name": queue}
        cluster.create(replace(pod, metadata=replace(pod.metadata, annotations=notes)))
    cluster.run()
    assert waits(cluster)
