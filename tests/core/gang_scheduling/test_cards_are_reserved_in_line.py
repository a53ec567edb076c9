"""The first gang in line that has no room has the cards reserved that will come free for it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tessera_core.gang_scheduling.line_shadows import STARVE_S
from tessera_core.machines.gang import GangPhase
from tessera_core.shadows.expected_ends import PodLifetime
from tessera_core.shadows.overdue_owners import REMEMBERED_S, OverdueOwners
from tessera_core.slices import at_once
from tessera_schema.kube import OwnerRef, Pod
from tessera_testing.builders import a_container, a_pod
from tests.core.gang_scheduling.coming_pods import ComingPods, created, said, tried
from tests.core.gang_scheduling.gang_cluster import GangCluster
from tests.core.gangs.setting import a_group, a_member, a_queue


def single(name: str, seconds: float | None = None, cards: int = 1, **more: Any) -> Pod:
    """A pod of no gang."""
    return a_pod(
        a_container({"nvidia.com/gpu": cards}), name=name, uid=name, annotations=said(seconds),
        **more,
    )  # fmt: skip


def gang_of(name: str, count: int, seconds: float | None = None, **more: Any) -> list[Pod]:
    names = [f"{name}{n}" for n in range(count)]
    return [a_member(each, name, annotations=said(seconds), uid=each, **more) for each in names]


@pytest.fixture
def cluster() -> GangCluster:
    """Four cards, of which a pod has two for 600 s, and a gang of four that waits."""
    made = GangCluster({"n1": 4}, [a_group("big", minMember=4)])
    created(made, single("r", 600, cards=2))
    assert tried(made, "r") == {"r"}
    created(made, *gang_of("big", 4))
    return made


BIG = a_group("big", minMember=4)


def test_it_is_known_when_the_gang_starts(cluster: GangCluster) -> None:
    """GE5"""
    assert cluster.reserved.expected_starts() == {BIG.id: 1600.0}
    assert cluster.why(BIG) == (
        "gang default/big waits: 2 of 4 members like default/big2 fit now: none is placed; 4 "
        "cards are reserved for it, it is expected to start at 1600"
    )


def test_pods_pass_that_end_before(cluster: GangCluster) -> None:
    """GE5"""
    created(cluster, single("s1", 300), single("s2", 3600), single("s3"), single("s4", 545))
    assert tried(cluster, "s1", "s2", "s3", "s4") == {"s1", "s4"}


def test_the_margin_is_a_tenth(cluster: GangCluster) -> None:
    created(cluster, single("s", 546))
    assert tried(cluster, "s") == set()


def test_a_higher_priority_passes(cluster: GangCluster) -> None:
    created(cluster, single("same", priority=0), single("high", priority=1))
    assert tried(cluster, "same", "high") == {"high"}


def test_gangs_pass_that_end_before(cluster: GangCluster) -> None:
    for gang in ("short", "long"):
        cluster.put_group(a_group(gang, minMember=2))
    created(cluster, *gang_of("long", 2, 3600))
    assert cluster.phase(a_group("long", minMember=2)) is GangPhase.QUEUED
    assert cluster.why(a_group("long", minMember=2)) == (
        "gang default/long waits: 0 of 2 members like default/long0 fit now: none is placed; cards "
        "are reserved for gang default/big until 1600"
    )
    created(cluster, *gang_of("short", 2, 500))
    assert tried(cluster, "short0", "short1") == {"short0", "short1"}


def test_it_starts_when_the_pods_have_ended(cluster: GangCluster) -> None:
    cluster.now += 590
    cluster.delete("r")
    cluster.watch()
    cluster.now += 20
    cluster.step()
    assert cluster.reserved.all() == ()
    assert cluster.ledger.fleet.reserved == ()
    names = [f"big{n}" for n in range(4)]
    assert tried(cluster, *names) == set(names)


def test_nobody_takes_the_cards_before_the_gang_is_searched_for_again(cluster: GangCluster) -> None:
    """It has found no room so often that its next search would come 16 s later."""
    for n in range(6):
        cluster.now += 20
        cluster.add_node(f"x{n}", 0)
        cluster.watch()
        cluster.step()
    cluster.now = 1599
    cluster.add_node("y", 0)
    cluster.watch()
    cluster.step()
    cluster.now = 1601
    cluster.create(single("s"))
    cluster.delete("r")
    cluster.watch()
    cluster.step()
    assert cluster.phase(BIG) is GangPhase.RESERVED
    assert tried(cluster, "s", *(f"big{n}" for n in range(4))) == {f"big{n}" for n in range(4)}


def test_it_takes_other_cards_that_come_first(cluster: GangCluster) -> None:
    cluster.add_node("n2", 4)
    cluster.watch()
    cluster.now += 20
    cluster.step()
    assert cluster.phase(BIG) is GangPhase.RESERVED
    assert cluster.ledger.fleet.reserved == ()


def test_a_pod_that_is_late_moves_the_time(cluster: GangCluster) -> None:
    """By as much as it is late, a minute at least."""
    cluster.now = 1600
    cluster.step()
    assert cluster.reserved.expected_starts() == {BIG.id: 1660}
    cluster.now = 1900
    cluster.step()
    assert cluster.reserved.expected_starts() == {BIG.id: 2200}


def test_nothing_is_reserved_for_a_gang_that_goes(cluster: GangCluster) -> None:
    for n in range(4):
        cluster.delete(f"big{n}")
    cluster.watch()
    cluster.now += 1
    before = cluster.requeued
    cluster.step()
    assert cluster.ledger.fleet.reserved == ()
    assert cluster.requeued == before + 1
    created(cluster, single("s"))
    assert tried(cluster, "s") == {"s"}


def test_nothing_is_reserved_while_no_end_is_known_until_it_has_waited_for_long() -> None:
    """After that what comes free stays for it, whatever would take it."""
    cluster = GangCluster({"n1": 2, "n2": 2}, [a_group("big", minMember=3)])
    big = a_group("big", minMember=3)
    created(cluster, *(single(f"r{n}") for n in range(4)))
    assert len(tried(cluster, *(f"r{n}" for n in range(4)))) == 4
    created(cluster, *gang_of("big", 3))
    cluster.delete("r0")
    cluster.watch()
    cluster.now += 599
    created(cluster, single("s0"))
    assert tried(cluster, "s0") == {"s0"}
    cluster.now += 1
    cluster.step()
    assert cluster.reserved.expected_starts() == {}
    assert cluster.why(big).endswith(
        "3 cards are reserved for it, nobody says when the pods on them end"
    )
    (reserved,) = cluster.ledger.fleet.reserved
    assert sum(map(len, reserved.cards.values())) == 3
    created(cluster, single("s1"), single("s2", 1), single("s3", priority=1))
    for name in ("r1", "r2", "r3", "s0"):
        cluster.delete(name)
        cluster.watch()
        cluster.now += 20
        cluster.step()
        if cluster.phase(big) is GangPhase.RESERVED:
            break
        assert tried(cluster, "s1", "s2") <= {"s1"}
    names = [f"big{n}" for n in range(3)]
    assert tried(cluster, *names) == set(names)


def test_a_gang_that_no_end_helps_reserves_nothing_and_the_next_one_does() -> None:
    """GE3"""
    groups = [a_group("never", minMember=5), a_group("big", minMember=4)]
    cluster = GangCluster({"n1": 4}, groups)
    created(cluster, single("r", 600, cards=2))
    assert tried(cluster, "r") == {"r"}
    created(cluster, *gang_of("never", 5), *gang_of("big", 4))
    cluster.now += 2
    cluster.step()
    assert cluster.reserved.expected_starts() == {groups[1].id: 1600}


def test_a_gang_at_the_cap_of_its_queue_reserves_nothing() -> None:
    queue = a_queue("q", spec={"capability": {"nvidia.com/gpu": 2}}, status={"state": "Open"})
    cluster = GangCluster({"n1": 4}, [a_group("big", minMember=4, queue="q")], [queue])
    created(cluster, single("r", 600, cards=2))
    assert tried(cluster, "r") == {"r"}
    created(cluster, *gang_of("big", 4))
    assert cluster.ledger.fleet.reserved == ()


def test_a_card_that_goes_is_replaced(cluster: GangCluster) -> None:
    cluster.add_node("n2", 2)
    cluster.create(single("x", 900, cards=2))
    cluster.watch()
    cluster.try_pod("x")
    cluster.watch()
    assert cluster.grants["x"].node == "n2"
    cluster.lose_node("n1")
    cluster.watch()
    cluster.add_node("n3", 2)
    cluster.watch()
    cluster.now += 60
    cluster.step()
    (reserved,) = cluster.ledger.fleet.reserved
    assert set(reserved.cards) == {"n2", "n3"}


def test_a_former_leader_reserves_nothing(cluster: GangCluster) -> None:
    assert cluster.ledger.fleet.reserved != ()
    cluster.coordinator.reset("this replica does not lead")
    assert cluster.ledger.fleet.reserved == ()


class Traffic(ComingPods):
    """Pods of no gang that come and end while a gang waits."""

    def __init__(self, cards: dict[str, int], members: int) -> None:
        super().__init__(GangCluster(cards, [a_group("big", minMember=members)]))
        self.members = members

    def come(self, cards: int, lasts: float, expected: float | None) -> None:
        self.create(single(self.name(), expected, cards), lasts)

    @property
    def started(self) -> bool:
        return self.cluster.phase(a_group("big", minMember=self.members)) is GangPhase.STARTED


SINGLES = st.lists(
    st.tuples(
        st.integers(1, 2), st.floats(10, 900), st.floats(0.5, 1), st.integers(0, 60)
    ),
    min_size=1, max_size=25,
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(before=SINGLES, after=SINGLES, members=st.integers(3, 6))
def test_what_passes_delays_nobody_where_ends_are_true(
    before: list[tuple[int, float, float, int]],
    after: list[tuple[int, float, float, int]],
    members: int,
) -> None:
    """Each pod ends when it has said, or earlier: the gang starts when it was first expected to, or
    earlier, whatever comes after it."""
    traffic = Traffic({"n1": 2, "n2": 4}, members)
    cluster = traffic.cluster
    for cards, expected, part, _ in before:
        traffic.come(cards, expected * part, expected)
    tried(cluster, *cluster.waiting())
    created(cluster, *gang_of("big", members))
    if not cluster.reserved.all():
        assert cluster.phase(a_group("big", minMember=members)) is not GangPhase.QUEUED
        return
    (shadow,) = (each.shadow for each in cluster.reserved.all())
    assert shadow.at is not None
    for cards, expected, part, pause in after:
        traffic.come(cards, expected * part, expected)
        traffic.go_on(pause)
    traffic.go_on(shadow.at + 20 - cluster.now)
    assert traffic.started


@settings(max_examples=15, deadline=None)
@given(
    lengths=st.lists(st.floats(30, 600), min_size=40, max_size=40), members=st.integers(3, 6)
)  # fmt: skip
def test_a_stream_of_small_pods_keeps_nobody_waiting_for_ever(
    lengths: list[float], members: int
) -> None:
    """Nobody says when pods end, and new ones come as soon as others have gone: the gang starts
    once it has waited for `STARVE_S` and the longest pod has ended."""
    traffic = Traffic({"n1": 2, "n2": 4}, members)
    cluster = traffic.cluster
    for seconds in lengths[:8]:
        traffic.come(1, seconds, None)
    tried(cluster, *cluster.waiting())
    created(cluster, *gang_of("big", members))
    began = cluster.now
    for seconds in lengths[8:]:
        traffic.come(1, seconds, None)
        traffic.go_on(50)
        if traffic.started:
            break
    assert traffic.started
    assert cluster.now <= began + STARVE_S + 600 + 60


def owned(pod: Pod, owner: str) -> Pod:
    job = OwnerRef(kind="Job", name=owner, uid=owner, controller=True)
    return replace(pod, metadata=replace(pod.metadata, owner_references=(job,)))


def a_late_pod(cluster: GangCluster) -> None:
    """Two of four cards have a pod that said 100 s and is still there after 300; the gang waits
    meanwhile."""
    created(cluster, owned(single("late", 100, cards=2), "job"))
    assert tried(cluster, "late") == {"late"}
    created(cluster, *gang_of("big", 4))
    for _ in range(5):
        cluster.now += 60
        cluster.run()


def test_the_next_pod_of_an_owner_that_was_late_does_not_pass() -> None:
    cluster = GangCluster({"n1": 4}, [BIG])
    a_late_pod(cluster)
    created(cluster, owned(single("again", 10), "job"), owned(single("other", 10), "kept-its-word"))
    assert tried(cluster, "again", "other") == {"other"}


def test_a_gang_with_a_pod_of_an_owner_that_was_late_does_not_pass() -> None:
    cluster = GangCluster({"n1": 4}, [BIG, a_group("short", minMember=2)])
    a_late_pod(cluster)
    first, second = gang_of("short", 2, 10)
    created(cluster, first, owned(second, "job"))
    assert tried(cluster, "short0", "short1") == set()
    assert "cards are reserved for gang default/big" in cluster.why(a_group("short", minMember=2))


def test_an_owner_that_was_late_passes_by_its_priority_and_is_believed_again_in_time() -> None:
    cluster = GangCluster({"n1": 4}, [BIG])
    a_late_pod(cluster)
    created(cluster, owned(single("high", 10, priority=1), "job"))
    assert tried(cluster, "high") == {"high"}
    late = OverdueOwners()
    pod = owned(single("x", 10), "job")
    at_once(late.observe([PodLifetime(pod, 0, 100, "job")], 110))
    assert not late.any_of([pod], 110)
    at_once(late.observe([PodLifetime(pod, 0, 100, "job")], 111))
    assert late.any_of([pod], 111 + REMEMBERED_S - 1)
    assert not late.any_of([pod], 111 + REMEMBERED_S)
