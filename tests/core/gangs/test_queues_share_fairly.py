"""What queues are entitled to, who is served first, and what an overused quota
gives up. The cases' numbers are
those of the specification of gangs."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tessera_core.gangs.fair_shares import QueueClaim, QueueShare, divide, share_of
from tessera_core.gangs.queue_tree import QueueTree
from tessera_core.gangs.queue_turns import demands, entitlements, turns
from tessera_core.gangs.queues import QueueAmounts, QueueDimension
from tessera_core.gangs.quota_overuse import OverusingPod, revoked
from tests.core.gangs.setting import a_queue

CPU, MEMORY = QueueDimension("", "cpu"), QueueDimension("", "memory")
CARDS = QueueDimension("acme", "cards")
NAMES = {"cpu": CPU, "memory": MEMORY, "cards": CARDS}


def amounts(**given: float) -> QueueAmounts:
    return {NAMES[name]: amount for name, amount in given.items()}


def claims(
    requests: Sequence[float], weights: Sequence[float], **more: Sequence[Any]
) -> list[QueueClaim]:
    """Two queues that deserve 2 each, the first one the older."""
    return [
        QueueClaim(
            name=f"q{n}", request=request, weight=weights[n], deserved=2, created=str(n),
            **{name: values[n] for name, values in more.items()},
        )
        for n, request in enumerate(requests)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("total", "queues", "shares"),
    [
        (15, claims([6, 6], [2, 2]), [6, 6]),
        (8, claims([6, 6], [1, 3]), [3, 5]),
        (12, claims([6, 6], [2, 2], cap=[5, None]), [5, 6]),
        (11, claims([10, 10], [1, 4]), [3, 8]),
        (11, claims([6, 6], [2, 2]), [6, 5]),
        (4, claims([6, 6], [1, 1], band=[1, 2]), [2, 2]),
        (7, claims([6, 6], [1, 1], band=[1, 2]), [2, 5]),
        (9, claims([6, 6], [0, 1]), [2, 6]),
        (6, claims([6, 6], [1, 1], guarantee=[0, 4]), [2, 4]),
        (3, claims([6, 6], [1, 1], guarantee=[0, 2]), [1, 2]),
        (3, claims([0, 6], [1, 1], guarantee=[2, 0]), [2, 1]),
    ],
)
def test_a_division(total: int, queues: list[QueueClaim], shares: list[int]) -> None:
    """GE1, and more of the kind"""
    assert list(divide(total, queues).values()) == shares


AMOUNT = st.integers(0, 12)
CLAIMS = st.lists(
    st.builds(
        QueueClaim,
        name=st.just(""),
        request=AMOUNT,
        guarantee=st.integers(0, 3),
        deserved=st.integers(0, 6),
        cap=st.one_of(st.none(), st.integers(4, 12)),
        weight=st.integers(0, 4),
        band=st.integers(0, 1),
    ),
    min_size=1,
    max_size=5,
).map(lambda found: [replace(claim, name=f"q{n}") for n, claim in enumerate(found)])


@given(total=AMOUNT, queues=CLAIMS, whole=st.booleans())
def test_no_more_than_there_is_and_no_less_than_the_floor(
    total: int, queues: list[QueueClaim], *, whole: bool
) -> None:
    """I11"""
    found = divide(total, queues, whole=whole)
    assert sum(found.values()) <= total
    floors = {q.name: max(q.guarantee, min(q.deserved, float(q.wanted))) for q in queues}
    if sum(floors.values()) <= total:
        assert all(found[name] >= least for name, least in floors.items())
    for queue in queues:
        assert 0 <= float(found[queue.name]) <= max(float(queue.wanted), queue.guarantee)
        assert not whole or found[queue.name].denominator == 1


@given(total=AMOUNT, queues=CLAIMS, whole=st.booleans())
def test_nothing_is_left_that_somebody_may_have(
    total: int, queues: list[QueueClaim], *, whole: bool
) -> None:
    found = divide(total, queues, whole=whole)
    left = total - sum(found.values())
    guaranteed = sum(queue.guarantee for queue in queues)
    hungry = [
        queue for queue in queues
        if queue.weight
        and found[queue.name] < min(float(queue.wanted), total - guaranteed + queue.guarantee)
    ]  # fmt: skip
    assert not (left >= 1 and hungry)


@given(
    total=AMOUNT,
    queues=CLAIMS,
    whole=st.booleans(),
    chance=st.randoms(use_true_random=False),
)
def test_the_order_of_queues_changes_nothing(
    total: int, queues: list[QueueClaim], *, whole: bool, chance: Random
) -> None:
    mixed = list(queues)
    chance.shuffle(mixed)
    assert divide(total, mixed, whole=whole) == divide(total, queues, whole=whole)


@given(total=AMOUNT, queues=CLAIMS, whole=st.booleans(), more=st.integers(1, 5))
def test_more_weight_is_never_less(
    total: int, queues: list[QueueClaim], *, whole: bool, more: int
) -> None:
    heavier = [replace(queues[0], weight=queues[0].weight + more), *queues[1:]]
    before, after = (divide(total, each, whole=whole)["q0"] for each in (queues, heavier))
    assert after >= before


@pytest.mark.parametrize(
    ("used", "deserved", "totals", "beyond", "by"),
    [
        (amounts(cards=7), amounts(cards=5), amounts(cards=10), 0.2, CARDS),
        (amounts(cards=2), amounts(cards=5), amounts(cards=10), 0, None),
        (
            amounts(cpu=3, cards=3),
            amounts(cpu=2, cards=5),
            amounts(cpu=10, cards=10),
            0.1,
            CPU,
        ),
        (amounts(cpu=3, cards=1), {}, amounts(cpu=10, cards=10), 0.1, CARDS),
    ],
)
def test_a_share(
    used: QueueAmounts,
    deserved: QueueAmounts,
    totals: QueueAmounts,
    beyond: float,
    by: QueueDimension | None,
) -> None:
    """GE2; a queue that does not say what it deserves of CPU is not measured by it"""
    share, decides = share_of(used, deserved, totals)
    assert share.beyond == pytest.approx(beyond)
    assert decides == by


def test_of_queues_within_what_they_deserve_the_idler_one_is_served() -> None:
    totals = amounts(cards=10)
    busy, idle = (share_of(amounts(cards=used), amounts(cards=5), totals)[0] for used in (4, 1))
    assert idle < busy < QueueShare(0.1, 0)


def test_what_a_quota_has_to_give_up() -> None:
    """GG4"""
    pods = [
        OverusingPod("1", amounts(cpu=20)), OverusingPod("2", amounts(cpu=10, memory=1)),
        OverusingPod("3", amounts(cpu=20)), OverusingPod("4", amounts(cpu=40)),
    ]  # fmt: skip
    found = revoked(amounts(cpu=50, memory=0), pods)
    assert [unit.name for unit in found] == ["2", "4"]


def a_share(name: str, *, used: float, waiting: float = 1, **spec: Any) -> tuple[Any, float, float]:
    return a_queue(name, spec=spec), used, waiting


def order(*queues: tuple[Any, float, float], total: float = 8) -> list[str]:
    tree = QueueTree([queue for queue, _, _ in queues])
    used = {queue.name: amounts(cards=have) for queue, have, _ in queues}
    waiting = {queue.name: amounts(cards=more) for queue, _, more in queues if more}
    return [turn.queue.name for turn in turns(tree, amounts(cards=total), used, waiting)]


def test_the_queue_with_the_least_share_is_served_first() -> None:
    assert order(a_share("a", used=4, waiting=4), a_share("b", used=1, waiting=4)) == ["b", "a"]
    weighed = a_share("a", used=4, waiting=4, weight=9), a_share("b", used=2, waiting=4)
    assert order(*weighed) == ["a", "b"]  # a deserves 7 of 8, b 1
    first = a_share("a", used=8, priority=1), a_share("b", used=0)
    assert order(*first) == ["a", "b"]
    assert order(a_share("b", used=1), a_share("a", used=1), a_share("c", used=0)) == [
        "c",
        "a",
        "b",
    ]
    assert order(a_share("a", used=1, waiting=0), a_share("b", used=1)) == ["b"]


def test_children_divide_what_their_parent_got() -> None:
    tree = QueueTree([
        a_queue("top", spec={"weight": 3}), a_queue("other"),
        a_queue("x", spec={"parent": "top", "weight": 2}), a_queue("y", spec={"parent": "top"}),
    ])  # fmt: skip
    wants = {name: amounts(cards=12) for name in ("x", "y", "other")}
    found = entitlements(tree, amounts(cards=12), wants)
    assert {name: part[CARDS] for name, part in found.items()} == {
        "top": 9, "other": 3, "x": 6, "y": 3,
    }  # fmt: skip


def test_queues_in_a_circle_and_deep_ones_are_no_endless_work() -> None:
    circle = [a_queue("a", spec={"parent": "b"}), a_queue("b", spec={"parent": "a"})]
    deep = [a_queue(f"d{n}", spec={"parent": f"d{n + 1}"}) for n in range(2000)]
    tree = QueueTree([*circle, *deep, a_queue("d2000")])
    wants = {"a": amounts(cards=1), "d0": amounts(cards=1)}
    assert entitlements(tree, amounts(cards=8), wants)["a"] == {}
    assert "a" not in demands(tree, wants)
    assert "in a circle" in tree.problem("a")
    assert "32 levels deep or more" in tree.problem("d0")
    assert turns(tree, amounts(cards=8), {}, wants) == ()
