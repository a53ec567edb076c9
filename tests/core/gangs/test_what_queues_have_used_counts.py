"""What queues have used of cards in the past takes from their weights, and is forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.gangs.queue_history import (
    DAY_S,
    HistoryTerms,
    QueueHistory,
    factor_of,
    weight_shares,
)
from tessera_core.gangs.queue_tree import QueueTree
from tessera_core.gangs.queue_turns import entitlements
from tessera_core.gangs.queue_usage import QueueOfKind
from tessera_core.gangs.queues import VOLCANO_QUEUE, QueueAmounts, QueueDimension, QueueSpec

CARDS, OTHER = QueueDimension("acme", "cards"), QueueDimension("other", "cards")
TOTALS = {CARDS: 8.0}


def a_queue(name: str, weight: float = 1, parent: str = "", **more: Any) -> QueueSpec:
    return QueueSpec(origin=VOLCANO_QUEUE, name=name, weight=weight, parent=parent, **more)


TWO = (a_queue("a"), a_queue("b"))


def cards(**used: float) -> dict[QueueOfKind, QueueAmounts]:
    return {(VOLCANO_QUEUE, name): {CARDS: amount} for name, amount in used.items()}


def weighed(history: QueueHistory, queues: Sequence[QueueSpec] = TWO) -> QueueTree:
    tree = QueueTree(queues)
    return tree.weighed(history.factors(VOLCANO_QUEUE, tree))


def weights(history: QueueHistory, queues: Sequence[QueueSpec] = TWO) -> dict[str, float]:
    return {name: queue.weight for name, queue in weighed(history, queues).queues.items()}


def a_history(weight: float = 1, half_life_s: float = DAY_S) -> QueueHistory:
    return QueueHistory(HistoryTerms(weight=weight, half_life_s=half_life_s))


def test_a_queue_that_had_all_cards_for_a_day_has_two_thirds_of_its_weight() -> None:
    """The day is half of what counts, and of the rest everybody had its half: 3/4 of the cluster
    where its part is 1/2."""
    history = a_history()
    history.record(0, cards(a=8, b=0), TOTALS)
    history.record(DAY_S, cards(a=0, b=0), TOTALS)
    assert weights(history) == pytest.approx({"a": 2 / 3, "b": 1})


def test_it_has_all_of_its_weight_again_after_fourteen_hours_without_a_card() -> None:
    history = a_history()
    history.record(0, cards(a=8, b=0), TOTALS)
    history.record(DAY_S, cards(a=0, b=0), TOTALS)
    history.record(DAY_S + 13 * 3600, cards(a=0, b=0), TOTALS)
    assert 0.95 < weights(history)["a"] < 1
    history.record(DAY_S + 14.1 * 3600, cards(a=0, b=0), TOTALS)
    assert weights(history)["a"] == 1


def test_the_other_queue_is_entitled_to_more_by_weight() -> None:
    history = a_history()
    history.record(0, cards(a=8, b=0), TOTALS)
    history.record(DAY_S, cards(a=0, b=0), TOTALS)
    wanted = {"a": {CARDS: 8.0}, "b": {CARDS: 8.0}}
    before = entitlements(QueueTree(TWO), TOTALS, wanted)
    after = entitlements(weighed(history), TOTALS, wanted)
    assert [before[name][CARDS] for name in "ab"] == [4, 4]
    assert [after[name][CARDS] for name in "ab"] == [3, 5]


def test_what_a_queue_deserves_is_guaranteed_and_may_use_stays() -> None:
    own = {CARDS: 6.0}
    queues = (a_queue("a", deserved=own, guarantee=own, cap=own), a_queue("b"))
    history = a_history(weight=100)
    history.record(0, cards(a=8, b=0), TOTALS)
    history.record(DAY_S, cards(a=8, b=0), TOTALS)
    found = weighed(history, queues).queues["a"]
    assert found.weight < 0.1
    assert found.deserved == found.guarantee == found.cap == own
    wanted = {"a": own, "b": {CARDS: 8.0}}
    assert entitlements(weighed(history, queues), TOTALS, wanted)["a"][CARDS] == 6


def test_a_history_that_begins_changes_nothing_and_ten_minutes_of_it_hardly_more() -> None:
    history = a_history()
    assert weights(history) == {"a": 1, "b": 1}
    history.record(0, cards(a=8, b=0), TOTALS)
    assert weights(history) == {"a": 1, "b": 1}
    history.record(600, cards(a=8, b=0), TOTALS)
    assert 0.99 < weights(history)["a"] < 1


def test_queues_that_used_their_parts_keep_their_weights() -> None:
    queues = (a_queue("a", 3), a_queue("b"))
    history = a_history()
    history.record(0, cards(a=6, b=2), TOTALS)
    history.record(DAY_S, cards(a=6, b=2), TOTALS)
    assert weights(history, queues) == pytest.approx({"a": 3, "b": 1})


def test_what_queues_below_it_used_counts_for_a_parent() -> None:
    tree = (a_queue("a"), a_queue("b"), a_queue("a1", parent="a"), a_queue("a2", parent="a"))
    assert weight_shares(QueueTree(tree), CARDS) == {"a": 0.5, "b": 0.5, "a1": 0.25, "a2": 0.25}
    history = a_history()
    history.record(0, cards(a=0, b=0, a1=8, a2=0), TOTALS)
    history.record(DAY_S, cards(a=0, b=0, a1=0, a2=0), TOTALS)
    expected = {"a": 2 / 3, "b": 1, "a1": 1 / (1 + 1.5), "a2": 1}
    assert weights(history, tree) == pytest.approx(expected)


def test_of_several_vendors_the_one_counts_whose_cards_it_used_most_beyond_its_part() -> None:
    history = a_history()
    totals = {CARDS: 8.0, OTHER: 2.0}
    used: dict[QueueOfKind, QueueAmounts] = {
        (VOLCANO_QUEUE, "a"): {OTHER: 2.0, QueueDimension("other", "memory"): 1e12}
    }
    history.record(0, used, totals)
    history.record(DAY_S, used, totals)
    assert weights(history) == pytest.approx({"a": 2 / 3, "b": 1})


def test_weights_by_dimension_go_by_it_too_and_a_queue_of_no_weight_has_none_to_lose() -> None:
    queues = (a_queue("a", weights={CARDS: 4.0}), a_queue("b", weights={CARDS: 4.0}))
    history = a_history()
    history.record(0, cards(a=8, b=0), TOTALS)
    history.record(DAY_S, cards(a=8, b=0), TOTALS)
    assert weighed(history, queues).queues["a"].weights == pytest.approx({CARDS: 8 / 3})
    nothing = (a_queue("a", weights={CARDS: 0.0}), a_queue("b", weights={CARDS: 0.0}))
    assert [*weighed(history, nothing).queues.values()] == list(nothing)


def test_a_queue_that_is_deleted_and_created_again_has_its_past() -> None:
    history = a_history()
    history.record(0, cards(a=8, b=0), TOTALS)
    history.record(DAY_S, cards(b=0), TOTALS)
    history.record(DAY_S + 60, cards(a=0, b=0), TOTALS)
    assert weights(history)["a"] < 0.7


def test_a_cluster_that_has_no_cards_any_more_has_weights_all_the_same() -> None:
    history = a_history(half_life_s=60)
    history.record(0, cards(a=8), TOTALS)
    history.record(60, {}, {})
    history.record(1e9, {}, {})
    assert weights(history) == {"a": 1, "b": 1}


# -- properties

USE = st.integers(0, 8)
STEPS = st.lists(st.tuples(st.integers(0, 200_000), USE, USE), max_size=6)
WEIGHT = st.floats(0, 100)


def played(steps: Sequence[tuple[int, int, int]], weight: float = 1) -> QueueHistory:
    """Seconds, and what both queues use from then on."""
    history, now = a_history(weight), 0.0
    history.record(now, {}, TOTALS)
    for seconds, a, b in steps:
        now += seconds
        history.record(now, cards(a=a, b=b), TOTALS)
    history.record(now + DAY_S, {}, TOTALS)
    return history


@given(STEPS)
def test_a_weight_of_0_changes_no_weight(steps: list[tuple[int, int, int]]) -> None:
    assert [*weighed(played(steps, weight=0)).queues.values()] == list(TWO)


@given(STEPS, WEIGHT)
def test_weights_shrink_and_none_is_lost(steps: list[tuple[int, int, int]], weight: float) -> None:
    assert all(0 < found <= 1 for found in weights(played(steps, weight)).values())


@given(st.floats(0, 100), st.floats(0, 100), WEIGHT)
def test_who_has_used_more_keeps_no_more(one: float, other: float, weight: float) -> None:
    less, more = sorted((one, other))
    assert 0 < factor_of(more, weight) <= factor_of(less, weight) <= 1


@given(STEPS, USE)
def test_more_use_at_any_time_leaves_no_more_weight(
    steps: list[tuple[int, int, int]], more: int
) -> None:
    increased = [(seconds, a + more, b) for seconds, a, b in steps]
    assert weights(played(increased))["a"] <= weights(played(steps))["a"] + 1e-12


@given(STEPS, st.integers(1, 5))
def test_records_of_the_same_use_in_between_change_nothing(
    steps: list[tuple[int, int, int]], times: int
) -> None:
    history, now = a_history(), 0.0
    history.record(now, {}, TOTALS)
    use = cards()
    for seconds, a, b in steps:
        for part in range(1, times):
            history.record(now + seconds * part / times, use, TOTALS)
        now, use = now + seconds, cards(a=a, b=b)
        history.record(now, use, TOTALS)
    history.record(now + DAY_S, {}, TOTALS)
    assert weights(history) == pytest.approx(weights(played(steps)), abs=0.001)


@given(STEPS)
def test_the_order_of_queues_changes_nothing(steps: list[tuple[int, int, int]]) -> None:
    history, now = a_history(), 0.0
    history.record(now, {}, TOTALS)
    for seconds, a, b in steps:
        now += seconds
        history.record(now, cards(b=b, a=a), TOTALS)
    history.record(now + DAY_S, {}, TOTALS)
    assert weights(history, TWO[::-1]) == weights(played(steps))


@given(STEPS)
def test_what_was_used_is_forgotten(steps: list[tuple[int, int, int]]) -> None:
    history = played(steps)
    end = sum(seconds for seconds, _, _ in steps) + DAY_S
    before = weights(history)
    for days in (1, 10, 60):
        history.record(end + days * DAY_S, {}, TOTALS)
        now = weights(history)
        assert all(before[name] <= now[name] + 1e-12 for name in "ab")
        before = now
    assert before == pytest.approx({"a": 1, "b": 1})
