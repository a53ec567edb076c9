"""Members beyond a gang's minimum are the last to come: the minimum of another gang goes before
them, and they take what is left."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tessera_core.gangs.gang import Gang
from tessera_core.machines.gang import GangPhase
from tessera_schema.kube import Pod
from tests.core.gang_scheduling.gang_cluster import GangCluster, started
from tests.core.gang_scheduling.gang_pods import koord_members, members
from tests.core.gangs.setting import a_group, a_member, a_queue


def group(name: str, least: int, queue: str = "") -> Gang:
    return a_group(name, minMember=least, queue=queue)


def with_priority(pods: list[Pod], priority: int) -> list[Pod]:
    return [replace(pod, spec=replace(pod.spec, priority=priority)) for pod in pods]


def in_namespace(pods: list[Pod], namespace: str) -> list[Pod]:
    return [
        replace(pod, metadata=replace(pod.metadata, namespace=namespace, uid=f"u-{pod.name}"))
        for pod in pods
    ]


def tried_first(cluster: GangCluster, *names: str) -> None:
    """kube-scheduler tries these pods before anything else happens."""
    for name in names:
        cluster.try_pod(cluster.uid(name))
    cluster.watch()


def test_two_jobs_that_come_together_both_start_and_share_the_rest() -> None:
    a, b = group("a", 2), group("b", 2)
    cluster = started(
        GangCluster({"n1": 5}, [a, b]), members("a", 1, 2, 3, 4, 5), members("b", 1, 2)
    )
    assert cluster.phase(a) is cluster.phase(b) is GangPhase.STARTED
    assert cluster.bound() == ["a1", "a2", "a3", "b1", "b2"]


def test_a_job_alone_starts_with_all_its_members_at_once() -> None:
    a = group("a", 2)
    cluster = GangCluster({"n1": 5}, [a])
    cluster.create(*members("a", 1, 2, 3, 4, 5))
    cluster.watch()
    cluster.step()
    assert len(list(cluster.ledger.entries())) == 5


def test_cards_that_come_free_go_to_a_minimum_and_not_to_a_jobs_growth() -> None:
    a, b = group("a", 2), group("b", 2)
    cluster = started(GangCluster({"n1": 4}, [a, b]), members("a", 1, 2, 3, 4))
    cluster.create(*members("a", 5, 6), *members("b", 1, 2))
    cluster.run()
    assert cluster.bound() == ["a1", "a2", "a3", "a4"]
    for name in ("a3", "a4"):
        cluster.delete(cluster.uid(name))
    cluster.watch()
    tried_first(cluster, "a5", "a6")
    assert cluster.bound() == ["a1", "a2"]
    assert cluster.filter(cluster.uid("a5")) == ""
    cluster.run()
    assert cluster.bound() == ["a1", "a2", "b1", "b2"]


def test_a_job_grows_into_cards_that_a_gang_before_it_cannot_use() -> None:
    a, b = group("a", 2), group("b", 3)
    cluster = started(GangCluster({"n1": 4}, [a, b]), members("a", 1, 2), members("b", 1, 2, 3))
    requeued = cluster.requeued
    cluster.create(*members("a", 3, 4))
    cluster.run()
    assert cluster.bound() == ["a1", "a2", "a3", "a4"]
    assert cluster.requeued > requeued


def test_a_job_grows_though_other_pods_come_and_go_all_the_time() -> None:
    """The room is another one at each moment, and a gang that never fits is always searched."""
    a, b = group("a", 2), group("b", 9)
    cluster = started(
        GangCluster({"n1": 4}, [a, b]), members("a", 1, 2), members("b", *range(1, 10))
    )
    cluster.create(*members("a", 3))
    for n in range(40):
        cluster.add_node(f"extra-{n}", 0)
        cluster.run(rounds=1, seconds=0.5)
    assert "a3" in cluster.bound()


def test_a_successor_that_its_job_needs_for_its_minimum_waits_for_nobody() -> None:
    cluster = GangCluster({"n1": 3}, [group("b", 2)])
    cluster.create(*koord_members("a", 3, 3))
    cluster.run()
    cluster.create(*members("b", 1, 2))
    cluster.run()
    cluster.delete(cluster.uid("a1"))
    cluster.watch()
    cluster.create(*koord_members("a", 4, 3)[3:])
    cluster.watch()
    tried_first(cluster, "a4")
    assert "a4" in cluster.bound()


def test_growth_of_a_higher_priority_goes_before_a_minimum() -> None:
    a, b = group("a", 2), group("b", 2)
    low = with_priority(members("b", 1, 2), 1)
    cluster = started(
        GangCluster({"n1": 3}, [a, b]), with_priority(members("a", 1, 2, 3, 4), 5), low
    )
    assert cluster.bound() == ["a1", "a2", "a3"]


def test_the_queue_with_the_smaller_share_grows_first() -> None:
    deserved = {"deserved": {"nvidia.com/gpu": 3}}
    queues = [
        a_queue("over", spec={"deserved": {"nvidia.com/gpu": 1}}),
        a_queue("own", spec=deserved),
    ]
    a, b, c = group("a", 2, "own"), group("b", 2, "over"), group("c", 2, "over")
    cluster = GangCluster({"n1": 4}, [a, b, c], queues=queues)
    cluster.create(*members("a", 1, 2), *members("b", 1, 2))
    cluster.run()
    assert cluster.bound() == ["a1", "a2", "b1", "b2"]
    cluster.create(*members("c", 1, 2), *members("a", 3))
    cluster.run()
    cluster.delete(cluster.uid("b1"))
    cluster.watch()
    tried_first(cluster, "a3")
    assert "a3" in cluster.bound()


def test_in_a_queue_that_is_fifo_no_growth_passes_the_first_gang() -> None:
    queues = [a_queue("q", spec={"dequeueStrategy": "fifo"})]
    a, b, c = group("a", 2, "q"), group("b", 3, "q"), group("c", 2)
    cluster = GangCluster({"n1": 4}, [a, b, c], queues=queues)
    cluster.create(*members("a", 1, 2))
    cluster.run()
    cluster.create(*members("b", 1, 2, 3), *members("a", 3))
    cluster.run(rounds=20)
    assert cluster.bound() == ["a1", "a2"]
    assert "goes before its other members" in str(
        cluster.coordinator.answer(cluster.uid("a3"), cluster.now)
    )


def test_a_gang_that_still_gathers_holds_nobody_back() -> None:
    a, b = group("a", 2), group("b", 3)
    cluster = started(GangCluster({"n1": 4}, [a, b]), members("a", 1, 2), members("b", 1))
    cluster.create(*members("a", 3, 4))
    cluster.run()
    assert cluster.bound() == ["a1", "a2", "a3", "a4"]


@pytest.mark.parametrize(("namespace", "named"), [("default", "gang default/b"), ("x", "another")])
def test_the_reason_names_the_gang_that_goes_before_to_its_neighbours_alone(
    namespace: str, named: str
) -> None:
    a, b = group("a", 2), group("b", 2)
    b = replace(b, namespace=namespace, bundle=(f"{namespace}/b",))
    cluster = started(GangCluster({"n1": 2}, [a, b]), members("a", 1, 2))
    of_b = members("b", 1, 2)
    cluster.create(*(of_b if namespace == "default" else in_namespace(of_b, namespace)))
    cluster.run(rounds=1)
    cluster.add_node("n2", 1)
    cluster.create(a_member("a3", "a"))
    cluster.now += 5
    cluster.watch()
    answer = cluster.coordinator.answer(cluster.uid("a3"), cluster.now)
    assert named in str(answer)
    assert "gang default/a has its minimum" in str(answer)
