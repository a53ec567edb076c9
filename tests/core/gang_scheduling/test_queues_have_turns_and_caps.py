"""Queues in the scheduler: caps hold for whole gangs; the queue with the smaller share is next."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.gang_scheduling.queues import ENTITLED_S, SchedulingQueues
from tessera_core.gang_scheduling.registry import GangRegistry
from tessera_core.gang_scheduling.turns import in_order
from tessera_core.gangs.gang import Gang
from tessera_core.gangs.queue_usage import amounts_of
from tessera_core.gangs.queues import VOLCANO_QUEUE, QueueDimension, QueueSpec
from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.gang import GangPhase
from tessera_schema.kube import Pod
from tests.core.gang_scheduling.gang_cluster import GangCluster
from tests.core.gang_scheduling.gang_pods import gated, members, requests_cards
from tests.core.gangs.setting import a_group, a_member, a_queue

CARDS = QueueDimension("nvidia", "cards")


def queue(name: str, **spec: object) -> QueueSpec:
    return a_queue(name, spec=spec)


def capped(name: str, cards: int, **spec: object) -> QueueSpec:
    return queue(name, capability={"nvidia.com/gpu": cards}, **spec)


def group(name: str, least: int, queue_name: str) -> Gang:
    return a_group(name, minMember=least, queue=queue_name)


def test_a_gang_that_would_exceed_a_cap_by_its_last_member_gets_nothing() -> None:
    """GE4"""
    gang = group("g", 4, "q")
    cluster = GangCluster({"n1": 8}, [gang], queues=[capped("q", 3)])
    cluster.create(*gated(*members("g", 1, 2, 3, 4)))
    cluster.run()
    assert cluster.bound() == []
    assert list(cluster.ledger.entries()) == []
    assert "Queue q allows 3 cards of nvidia, 0 used, 4 asked" in cluster.why(gang)
    cluster.queues.put_queue(capped("q", 4))
    cluster.run(seconds=20)
    assert cluster.bound() == ["g1", "g2", "g3", "g4"]


def test_the_minimum_starts_where_the_cap_leaves_no_more() -> None:
    gang = group("g", 2, "q")
    cluster = GangCluster({"n1": 8}, [gang], queues=[capped("q", 3)])
    cluster.create(*members("g", 1, 2, 3, 4))
    cluster.run()
    assert cluster.phase(gang) is GangPhase.STARTED
    assert len(cluster.bound()) == 3
    (left,) = [uid for uid, pod in cluster.pods.items() if not pod.spec.node_name]
    assert "allows 3" in cluster.queues.problem_of_pod(cluster.pods[left])


def test_caps_above_count_and_what_two_queues_use_together() -> None:
    one, two = group("one", 2, "a"), group("two", 2, "b")
    tree = [capped("top", 3), queue("a", parent="top"), queue("b", parent="top")]
    cluster = GangCluster({"n1": 8}, [one, two], queues=tree)
    cluster.create(*members("one", 1, 2), *members("two", 1, 2))
    cluster.run()
    assert cluster.bound() == ["one1", "one2"]
    assert "Queue top allows 3 cards of nvidia, 2 used, 2 asked" in cluster.why(two)
    for name in ("one1", "one2"):
        cluster.delete(cluster.uid(name))
    cluster.run(seconds=20)
    assert cluster.bound() == ["two1", "two2"]


@pytest.mark.parametrize(
    ("queues", "why"),
    [
        ([queue("other")], "queue q does not exist"),
        ([a_queue("q", status={"state": "Closed"})], "Queue q is Closed: open it"),
        ([queue("q", parent="r"), queue("r", parent="q")], "queues are in a circle: q in r in q"),
        ([queue("q"), queue("r", parent="q")], "Queue q is a parent and takes no pods: name r"),
    ],
)
def test_a_queue_that_takes_no_pods_holds_them_with_a_reason_and_nobody_else(
    queues: list[QueueSpec], why: str
) -> None:
    gang, other = group("g", 2, "q"), a_group("free", minMember=2, queue="open")
    cluster = GangCluster({"n1": 4}, [gang, other], queues=[*queues, queue("open")])
    cluster.create(*members("g", 1, 2), *members("free", 1, 2))
    cluster.run()
    assert cluster.bound() == ["free1", "free2"]
    assert why in cluster.why(gang)


def test_a_queue_whose_head_fits_nowhere_blocks_no_other() -> None:
    """GE3"""
    never, small = group("never", 3, "c1"), group("small", 2, "c2")
    cluster = GangCluster({"n1": 2}, [never, small], queues=[queue("c1"), queue("c2")])
    cluster.create(*members("never", 1, 2, 3), *members("small", 1, 2))
    cluster.run()
    assert cluster.bound() == ["small1", "small2"]


def test_the_queue_with_the_smaller_share_is_next() -> None:
    first, second, third = group("f", 2, "rich"), group("g", 2, "rich"), group("z", 2, "poor")
    deserved = {"deserved": {"nvidia.com/gpu": 2}}
    queues = [queue("rich", **deserved), queue("poor", **deserved)]
    cluster = GangCluster({"n1": 2, "n2": 2}, [first, second, third], queues=queues)
    cluster.create(*members("f", 1, 2))
    cluster.run()
    assert cluster.bound() == ["f1", "f2"]
    cluster.create(*members("g", 1, 2), *members("z", 1, 2))
    cluster.run()
    assert cluster.bound() == ["f1", "f2", "z1", "z2"]


def test_what_waits_counts_where_no_queue_says_what_it_deserves() -> None:
    """Each of two equal queues has a right to 4 of the 8 cards as soon as it wants them: one that
    has 5 is not before one that has 1, though its gang is the first by age and name."""
    groups = [
        group("f", 5, "a"), group("g", 1, "b"),
        group("m", 2, "a"), group("n", 2, "b"), group("o", 2, "b"),
    ]  # fmt: skip
    cluster = GangCluster({"n1": 8}, groups, queues=[queue("a"), queue("b")])
    cluster.create(*members("f", 1, 2, 3, 4, 5), *members("g", 1))
    cluster.run()
    cluster.now += ENTITLED_S
    cluster.create(*members("m", 1, 2), *members("n", 1, 2), *members("o", 1, 2))
    cluster.run()
    assert [name for name in cluster.bound() if name[0] in "mno"] == ["n1", "n2"]


def test_shares_are_measured_by_what_queues_deserve_alone() -> None:
    """Both name cards and no card memory, which every card that is used has: the one that has 4 of
    the 6 that it deserves is before the one that has its 2, however small that is."""
    groups = [
        group("f", 4, "large"),
        group("g", 2, "a"),
        group("m", 2, "a"),
        group("n", 2, "large"),
    ]
    queues = [
        queue("large", deserved={"nvidia.com/gpu": 6}), queue("a", deserved={"nvidia.com/gpu": 2})
    ]  # fmt: skip
    cluster = GangCluster({"n1": 8}, groups, queues=queues)
    cluster.create(*members("f", 1, 2, 3, 4), *members("g", 1, 2))
    cluster.run()
    cluster.create(*members("m", 1, 2), *members("n", 1, 2))
    cluster.run()
    assert [name for name in cluster.bound() if name[0] in "mn"] == ["n1", "n2"]


def test_a_queue_of_higher_priority_is_next() -> None:
    a, z = group("a", 2, "low"), group("z", 2, "high")
    cluster = GangCluster({"n1": 2}, [a, z], queues=[queue("low"), queue("high", priority=5)])
    cluster.create(*members("a", 1, 2), *members("z", 1, 2))
    cluster.run()
    assert cluster.bound() == ["z1", "z2"]


@pytest.mark.parametrize("strategy", ["fifo", "traverse"])
def test_nobody_passes_the_first_one_of_a_queue_that_is_fifo(strategy: str) -> None:
    large, small = group("a", 3, "q"), group("b", 2, "q")
    cluster = GangCluster({"n1": 2}, [large, small], queues=[queue("q", dequeueStrategy=strategy)])
    cluster.create(*members("a", 1, 2, 3), *members("b", 1, 2))
    cluster.run(rounds=10)
    assert cluster.bound() == ([] if strategy == "fifo" else ["b1", "b2"])
    if strategy == "fifo":
        assert "gang default/a is before it in its queue, which is fifo" in cluster.why(small)


def test_gates_of_single_pods_open_as_far_as_the_cap_goes() -> None:
    cluster = GangCluster({"n1": 8}, queues=[capped("q", 2)])
    pods = gated(*(a_queued(f"p{n}") for n in range(4)))
    for pod in pods:
        cluster.queues.put_pod(pod)
    through, held = cluster.queues.let_through(reversed(pods))
    assert [pod.metadata.name for pod in through] == ["p0", "p1"]
    assert [*held.values()] == ["Queue q allows 2 cards of nvidia, 0 used, 3 asked"] * 2


def a_queued(name: str) -> Pod:
    pod = a_member(name, "")
    notes = {"scheduling.volcano.sh/queue-name": "q"}
    return Pod(
        type(pod.metadata)(name=name, namespace="default", uid=f"uid-{name}", annotations=notes),
        pod.spec,
    )


# -- properties


@given(st.integers(0, 10_000))
def test_what_is_counted_step_by_step_is_what_the_ledger_holds(seed: int) -> None:
    """Whatever comes, goes and is counted in between."""
    random = Random(seed)  # noqa: S311  (repeatable)
    groups = [group(name, 2, random.choice("xy")) for name in "abc"]
    cluster = GangCluster({"n1": 4, "n2": 3}, groups, queues=[capped("x", 3), queue("y")])
    for _ in range(30):
        happens = random.choice(("create", "delete", "run", "queue", "restart"))
        if happens == "create" and len(cluster.pods) < 12:
            name = random.choice("abc")
            cluster.create(*members(name, random.randint(100, 10**6)))
        elif happens == "delete" and cluster.pods:
            cluster.delete(random.choice(sorted(cluster.pods)))
        elif happens == "queue":
            cluster.queues.put_queue(capped("x", random.randint(1, 4)))
        elif happens == "restart":
            cluster.start_scheduler()
        else:
            cluster.run(rounds=1)
        wanted: dict[str, float] = {"x": 0, "y": 0}
        cluster.watch()
        cluster.step()
        for entry in cluster.ledger.entries():
            pod = cluster.pods[entry.grant.uid]
            gang_id = cluster.gangs.gang_of(pod.metadata.uid)
            name = cluster.groups[gang_id].queue
            wanted[name] += amounts_of(pod, entry.uses)[CARDS]
        used = {view.key.name: view.used.get(CARDS, 0) for view in cluster.queues.view({}, 0)}
        assert used == wanted


def test_the_order_does_not_depend_on_the_order_of_reading() -> None:
    groups = [group(f"g{n}", 2, f"q{n % 3}") for n in range(9)]
    cluster = GangCluster(
        {"n1": 1}, groups, queues=[queue(f"q{n}", weight=n + 1) for n in range(3)]
    )
    cluster.create(*(pod for n in range(9) for pod in members(f"g{n}", 1, 2)))
    cluster.run()
    known = cluster.coordinator.bundles()
    expected = [each.bundle.key for each in in_order(known, cluster.queues, cluster.now)]
    Random(1).shuffle(known)  # noqa: S311
    assert [each.bundle.key for each in in_order(known, cluster.queues, 0)] == expected


def test_where_no_queues_are_read_nobody_waits() -> None:
    gangs = GangRegistry(requests_cards)
    queues = SchedulingQueues(gangs, Ledger(), lambda pod: {}, dict)
    assert queues.problem_of_pod(a_queued("p")) == ""
    assert queues.let_through([a_queued("p")])[1] == {}
    assert queues.view({}, 0) == ()
    assert queues.spec(VOLCANO_QUEUE, "q") is None
