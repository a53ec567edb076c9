"""The model of a card: who gets how much of its time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.workloads_cards import SWITCH_MOST_PERCENT, SWITCH_PERCENT, capacity, divide

wants = st.lists(st.one_of(st.just(0.0), st.floats(0.1, 100)), min_size=1, max_size=8)


def test_one_alone_gets_what_it_wants() -> None:
    assert divide(np.array([[0.0, 70.0, 0.0]])).tolist() == [[0.0, 70.0, 0.0]]


def test_two_that_want_all_share_it_alike() -> None:
    half = (100 - SWITCH_PERCENT) / 2
    assert divide(np.array([[100.0, 100.0]])).tolist() == [[half, half]]


def test_who_wants_little_gets_it_next_to_one_who_wants_all() -> None:
    assert divide(np.array([[10.0, 100.0]]))[0].tolist() == pytest.approx([10, 88])


def test_switching_costs_no_more_than_stated() -> None:
    assert capacity(np.full((1, 10), 5.0)).tolist() == [100 - SWITCH_MOST_PERCENT]


@given(st.lists(wants, min_size=1, max_size=4))
def test_nobody_gets_more_than_it_wants_and_no_time_is_left_while_somebody_wants_it(
    cards: list[list[float]],
) -> None:
    demand = np.zeros((len(cards), 8))
    for row, card in zip(demand, cards, strict=True):
        row[: len(card)] = card
    got = divide(demand)
    assert (got >= 0).all()
    assert (got <= demand + 1e-9).all()
    assert got.sum(1) == pytest.approx(np.minimum(demand.sum(1), capacity(demand)))
