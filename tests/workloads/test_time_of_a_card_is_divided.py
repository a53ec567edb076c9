"""The model of a card: who gets how much of its time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.workloads_cards import CardModel
from benchmarks.workloads_interference import SWITCH_MOST_PERCENT, SWITCH_PERCENT
from tessera_core.fleet.arrays import Floats

SEATS = 8
wants = st.lists(st.one_of(st.just(0.0), st.floats(0.1, 100)), min_size=1, max_size=SEATS)


def divide(wants: Floats, limits: float = 100.0, *, closed: bool = False) -> Floats:
    model, loads = CardModel(closed=closed), np.zeros(wants.shape, np.int64)
    return model.divide(wants, np.full_like(wants, limits), loads, wants < 0)


def capacity(wants: Floats) -> Floats:
    return CardModel().capacity(wants, np.zeros(wants.shape, np.int64))


def a_cluster(cards: list[list[float]]) -> Floats:
    found = np.zeros((len(cards), SEATS))
    for row, card in zip(found, cards, strict=True):
        row[: len(card)] = card
    return found


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
    demand = a_cluster(cards)
    got = divide(demand)
    assert (got >= 0).all()
    assert (got <= demand + 1e-9).all()
    assert got.sum(1) == pytest.approx(np.minimum(demand.sum(1), capacity(demand)))


def test_a_synchronous_job_gets_a_third_next_to_one_that_wants_all() -> None:
    got = divide(np.array([[50.0, 100.0]]), closed=True)[0]
    assert got.tolist() == pytest.approx([98 / 3, 196 / 3], abs=0.5)


def test_a_service_answers_its_clients_while_it_can() -> None:
    wants, model = np.array([[45.0, 100.0], [80.0, 100.0]]), CardModel(closed=True)
    loads, serving = np.zeros(wants.shape, np.int64), np.array([[True, False], [True, False]])
    got = model.divide(wants, np.full_like(wants, 100.0), loads, serving)
    assert got[0].tolist() == pytest.approx([45, 53], abs=0.2)
    assert got[1].tolist() == pytest.approx([49, 49], abs=0.2)


def test_synchronous_jobs_that_want_all_share_it_alike() -> None:
    got = divide(np.full((1, 4), 100.0), closed=True)
    assert got[0].tolist() == pytest.approx([94 / 4] * 4)


def test_a_limit_leaves_the_rest_to_the_others() -> None:
    wants, limits = np.array([[100.0, 100.0]]), np.array([[40.0, 100.0]])
    model = CardModel(closed=True)
    got = model.divide(wants, limits, np.zeros(wants.shape, np.int64), wants < 0)
    assert got[0].tolist() == pytest.approx([40, 58], abs=0.1)


@given(st.lists(wants, min_size=1, max_size=4), st.sampled_from([25.0, 60.0, 100.0]))
def test_synchronous_jobs_get_no_more_than_others_would_and_no_card_is_exceeded(
    cards: list[list[float]], limit: float
) -> None:
    demand = a_cluster(cards)
    got, open_card = divide(demand, limit, closed=True), divide(demand, limit)
    assert (got >= 0).all()
    assert (got <= np.minimum(demand, limit) + 1e-9).all()
    assert (got.sum(1) <= open_card.sum(1) + 1e-6).all()


@given(wants, st.floats(1, 100))
def test_another_synchronous_job_speeds_up_nobody(card: list[float], more: float) -> None:
    before = divide(a_cluster([card[: SEATS - 1]]), closed=True)[0]
    after = divide(a_cluster([[*card[: SEATS - 1], more]]), closed=True)[0]
    count = len(card[: SEATS - 1])
    assert (after[:count] <= before[:count] + 0.05).all()
