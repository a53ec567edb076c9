"""Queues in the scheduler: one that used more than its part in the past comes after the others."""

from __future__ import annotations

import pytest

from tessera_core.gang_scheduling.queues import ENTITLED_S
from tessera_core.gangs.gang import Gang
from tessera_core.gangs.queue_history import DAY_S, HistoryTerms
from tessera_core.gangs.queues import VOLCANO_QUEUE, QueueDimension, QueueSpec
from tests.core.gang_scheduling.gang_cluster import GangCluster
from tests.core.gang_scheduling.gang_pods import members
from tests.core.gangs.setting import a_group, a_queue

CARDS = QueueDimension("nvidia", "cards")
COUNTS = HistoryTerms(weight=1)


def queue(name: str, **spec: object) -> QueueSpec:
    return a_queue(name, spec=spec)


def group(name: str, least: int, queue_name: str) -> Gang:
    return a_group(name, minMember=least, queue=queue_name)


def after_a_day_of(history: HistoryTerms | None) -> GangCluster:
    """Queue `a` had all eight cards for a day, and then nobody has any."""
    groups = [group("day", 8, "a"), group("m", 8, "a"), group("n", 8, "b")]
    cluster = GangCluster({"n1": 8}, groups, [queue("a"), queue("b")], history)
    cluster.create(*members("day", *range(8)))
    cluster.run()
    assert len(cluster.bound()) == 8
    cluster.queues.record(cluster.now)
    cluster.now += DAY_S
    for uid in sorted(cluster.pods):
        cluster.delete(uid)
    cluster.watch()
    cluster.queues.record(cluster.now)
    cluster.now += ENTITLED_S
    return cluster


def both_wait(cluster: GangCluster) -> None:
    """A gang of either queue wants all cards; that of `a` is the first by name."""
    cluster.create(*members("m", *range(8)), *members("n", *range(8)))
    cluster.watch()
    cluster.step()


@pytest.mark.parametrize(("history", "first"), [(None, "m"), (COUNTS, "n")])
def test_of_two_equal_queues_the_one_that_had_the_day_comes_second(
    history: HistoryTerms | None, first: str
) -> None:
    cluster = after_a_day_of(history)
    both_wait(cluster)
    cluster.run()
    assert {name[0] for name in cluster.bound()} == {first}


def test_its_gangs_come_later_too_where_both_are_as_far_beyond_what_they_deserve() -> None:
    """Each has two cards and deserves none."""
    groups = [group(name, 2, name[0]) for name in ("a0", "b0", "a1", "b1")]
    queues = [queue(name, deserved={"nvidia.com/gpu": 0}) for name in "ab"]
    groups.append(group("day", 8, "a"))
    cluster = GangCluster({"n1": 8}, groups, queues, COUNTS)
    cluster.create(*members("day", *range(8)))
    cluster.run()
    cluster.queues.record(cluster.now)
    cluster.now += DAY_S
    for uid in sorted(cluster.pods):
        cluster.delete(uid)
    cluster.create(*members("a0", 1, 2), *members("b0", 1, 2))
    cluster.run()
    cluster.queues.record(cluster.now)
    shares = {view.key.name: view.share for view in cluster.queues.view({}, cluster.now)}
    assert shares["b"].beyond == pytest.approx(0.25)
    assert shares["a"].beyond == pytest.approx(0.25 * 1.5, rel=1e-3)
    assert shares["a"].lost == pytest.approx(1 / 3, rel=1e-3)


def test_both_have_their_parts_by_weight_where_the_past_does_not_count() -> None:
    cluster = after_a_day_of(None)
    both_wait(cluster)
    lent = cluster.queues.lending(cluster.now).deserved
    assert [lent[VOLCANO_QUEUE, name][CARDS] for name in "ab"] == [4, 4]


def test_what_queues_lend_each_other_goes_by_the_same_weights() -> None:
    cluster = after_a_day_of(COUNTS)
    both_wait(cluster)
    cluster.now += ENTITLED_S
    lending = cluster.queues.lending(cluster.now)
    assert [lending.deserved[VOLCANO_QUEUE, name][CARDS] for name in "ab"] == [3, 5]
    tree = lending.queues.tree(VOLCANO_QUEUE).queues
    assert tree["a"].weight == pytest.approx(2 / 3, rel=1e-3)
    assert cluster.queues.demands(VOLCANO_QUEUE)["b"].entitled[CARDS] == 5


def test_a_queue_whose_object_changes_has_its_past_at_once() -> None:
    cluster = after_a_day_of(COUNTS)
    cluster.queues.put_queue(queue("a", weight=3))
    cluster.queues.put_queue(queue("b", weight=3))
    tree = cluster.queues.usage().tree(VOLCANO_QUEUE).queues
    assert tree["a"].weight == pytest.approx(2, rel=1e-3)
    spec = cluster.queues.spec(VOLCANO_QUEUE, "a")
    assert spec is not None
    assert spec.weight == 3


def test_a_scheduler_that_starts_has_forgotten_and_counts_from_then_on() -> None:
    cluster = after_a_day_of(COUNTS)
    cluster.start_scheduler()
    cluster.queues.record(cluster.now)
    assert cluster.queues.usage().tree(VOLCANO_QUEUE).queues["a"].weight == 1


def test_a_replica_that_does_not_lead_counts_gangs_by_their_pod_groups() -> None:
    """It reads no gangs: nobody steps its coordinator."""
    cluster = GangCluster({"n1": 8}, [group("day", 8, "a")], [queue("a"), queue("b")], COUNTS)
    cluster.create(*members("day", *range(8)))
    cluster.run()
    cluster.start_scheduler()
    cluster.queues.record(cluster.now)
    cluster.queues.record(cluster.now + DAY_S)
    tree = cluster.queues.usage().tree(VOLCANO_QUEUE).queues
    assert tree["a"].weight == pytest.approx(2 / 3)
