"""What sizes and free room are worth, against cutting stock problems solved by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.placement.packing.card_values import OPEN, ValueTable, table
from tessera_core.placement.packing.cutting_stock import prices
from tessera_core.placement.packing.knapsack import Knapsack


def priced(sizes: list[int], demand: list[float], card: int = 10) -> list[float]:
    knapsack = Knapsack(np.array(sizes)[:, None], np.array([card]))
    return [round(p, 9) for p in prices(knapsack, np.array([demand]))[0].tolist()]


@pytest.mark.parametrize(
    ("sizes", "demand", "expected"),
    [
        ([4, 6], [3, 1], [0.5, 0.5]),  # cut 4+6 once and 4+4 once: both prices are one half
        ([4, 6], [1, 2], [0, 1]),  # cut 4+6 once and 6 once: a 4 more costs nothing
        ([5], [7], [0.5]),
        ([6], [7], [1]),  # nothing else is asked for: the other 4 are lost
        ([2, 3, 7], [1, 9, 1], [1 / 6, 1 / 3, 2 / 3]),  # cut 7+3, 3+3+3, and one 3+3+2+2
    ],
)
def test_prices_are_those_found_by_hand(
    sizes: list[int], demand: list[float], expected: list[float]
) -> None:
    assert priced(sizes, demand) == pytest.approx(expected)


stock = st.integers(2, 12).flatmap(
    lambda card: st.tuples(
        st.just(card),
        st.lists(st.integers(1, card), min_size=1, max_size=6, unique=True),
        st.integers(0, 1000),
    )
)


@given(stock)
def test_no_pattern_is_worth_more_than_its_card_and_all_demand_is_paid_for(
    given_: tuple[int, list[int], int],
) -> None:
    card, sizes, seed = given_
    demand = np.random.default_rng(seed).uniform(1, 9, (3, len(sizes)))
    knapsack = Knapsack(np.array(sizes)[:, None], np.array([card]))
    found = prices(knapsack, demand)
    worth, pattern = knapsack.best(found)
    assert (found >= 0).all()
    assert (worth <= 1 + 1e-9).all()
    assert (pattern @ np.array(sizes) <= card).all()
    paid = (found * demand).sum(1)
    volume = demand @ np.array(sizes) / card
    alone = (demand / (card // np.array(sizes))).sum(1)
    assert (paid >= volume - 1e-6).all(), "less than the room that is needed in any case"
    assert (paid <= alone + 1e-6).all(), "more than cutting each size by itself"


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 6)), min_size=1, max_size=4),
    st.integers(0, 99),
)
def test_two_resources_are_worth_what_the_best_set_of_shares_is(
    sizes: list[tuple[int, int]], seed: int
) -> None:
    knapsack = Knapsack(np.array(sizes), np.array([6, 6]))
    price = np.random.default_rng(seed).uniform(0, 1, (1, len(sizes)))
    value = knapsack.values(price)[0].reshape(7, 7)

    def best(memory: int, cores: int) -> float:
        return max(
            (
                p + best(memory - m, cores - c)
                for (m, c), p in zip(sizes, price[0].tolist(), strict=True)
                if m <= memory and c <= cores
            ),
            default=0.0,
        )

    assert value[3, 6] == pytest.approx(best(3, 6))
    assert value[6, 2] == pytest.approx(best(6, 2))


def a_table(sizes: list[list[int]], counts: list[float], totals: list[int]) -> ValueTable:
    return table(np.array(totals), np.array(sizes), np.array(counts), 1, np.random.default_rng(0))


def test_an_idle_card_is_worth_one_and_a_used_up_one_nothing() -> None:
    value = a_table([[5], [3]], [1, 5], [10]).value
    assert value[10] == 1
    assert value[0] == 0


def test_room_that_no_size_fits_into_is_worth_nothing() -> None:
    value = a_table([[500]], [1], [1000]).value
    assert value.tolist() == pytest.approx([0, 0.5 - OPEN, 1])


def test_a_grid_is_as_fine_as_the_sizes_need_and_no_finer_than_a_hundred_cells() -> None:
    assert a_table([[250], [500]], [1, 1], [1000]).cells.tolist() == [4]
    assert a_table([[333], [500]], [1, 1], [1000]).cells.tolist() == [100]


def test_slots_count_where_they_run_out_before_memory() -> None:
    value = a_table([[10, 1]], [1], [100, 4]).value
    assert value.shape == (11, 5)
    assert value[8].tolist() == pytest.approx([0, *(k / 4 - OPEN for k in (1, 2, 3, 4))])
    enough = a_table([[10, 1]], [1], [100, 10]).value
    assert enough.shape == (11, 2)
    assert enough[:, 0].tolist() == [0] * 11


def test_without_a_past_halves_quarters_and_eighths_are_expected() -> None:
    value = table(
        np.array([800]), np.zeros((0, 1), np.int64), np.zeros(0), 1, np.random.default_rng(0)
    ).value
    assert value.tolist() == pytest.approx([0, *(k / 8 - OPEN for k in range(1, 8)), 1])
