"""What one pod more costs the holders of a card."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tessera_core.usage.expected_use import ExpectedWant
from tessera_core.usage.hints import HintBuilder
from tessera_core.usage.lending_terms import Holders
from tessera_core.usage.overload_price import capacity, card_prices, overload
from tessera_core.usage.priced_cards import CardPricer, PricedNode
from tessera_core.usage.smoother import Smoother
from tessera_schema.messages.hints import PRICED_PERCENTS, ClassWant
from tests.core.rebalance.measured import NODE, a_message, a_use, granted, key, measure

wants = st.builds(ExpectedWant, st.floats(0, 100), st.floats(0, 2500))


@pytest.mark.parametrize("mean", [0.0, 60.0, 95.0, 100.0, 140.0, 400.0])
@pytest.mark.parametrize("deviation", [0.5, 20.0, 60.0])
def test_it_is_what_many_draws_come_to(mean: float, deviation: float) -> None:
    drawn = np.random.default_rng(7).normal(mean, deviation, 400_000)
    beyond = np.maximum(drawn - 92, 0)
    error = 5 * float(beyond.std()) / len(drawn) ** 0.5 + 1e-3
    assert overload(mean, deviation**2, 92) == pytest.approx(float(beyond.mean()), abs=error)


def test_without_variance_it_is_what_is_too_much() -> None:
    assert overload(80, 0) == 0
    assert overload(130, 0) == 30
    assert overload(130, 0, 90) == 40


@given(st.floats(0, 1000), st.floats(0, 1e5), st.floats(1, 100))
def test_it_is_never_negative_nor_less_than_what_is_too_much(
    mean: float, variance: float, room: float
) -> None:
    assert overload(mean, variance, room) >= max(mean - room, 0)


@given(st.lists(wants, max_size=10))
def test_a_price_grows_with_what_the_pod_wants_and_is_no_more_than_that(
    there: list[ExpectedWant],
) -> None:
    prices = card_prices(there)
    assert len(prices) == len(PRICED_PERCENTS)
    assert list(prices) == sorted(prices)
    for price, percent in zip(prices, PRICED_PERCENTS, strict=True):
        assert 0 <= price <= percent


def test_more_holders_make_it_dearer_and_idle_cards_cost_nothing_to_small_pods() -> None:
    half = ExpectedWant(50, 900)
    former = (0,) * len(PRICED_PERCENTS)
    for count in range(6):
        prices = card_prices([half] * count)
        assert all(a <= b for a, b in zip(former, prices, strict=True))
        former = prices
    assert card_prices([])[:2] == (0, 0)
    assert card_prices([half] * 6)[-1] == 100


def test_each_busy_neighbour_costs_the_card_a_little() -> None:
    busy, idle = ExpectedWant(50, 0), ExpectedWant(0.2, 0)
    assert [capacity([busy] * n) for n in (0, 1, 2, 3, 9)] == [100, 100, 98, 96, 90]
    assert capacity([busy, *[idle] * 5]) == 100


def priced(pricer: CardPricer, smoother: Smoother, now: float, **holders: float) -> PricedNode:
    seen = smoother.node(NODE, now)
    assert seen is not None
    return pricer.price(seen, granted(**holders))


def test_what_best_effort_wants_costs_nobody_and_makes_no_class() -> None:
    smoother, pricer = Smoother(), CardPricer()
    now = measure(smoother, a_use("a", 30), a_use("rest", 60), for_s=600)
    seen = smoother.node(NODE, now)
    assert seen is not None
    holders = granted(a=50, rest=0)
    holders |= {key("rest"): replace(holders[key("rest")], best_effort=True)}
    node = pricer.price(seen, holders)
    alone = CardPricer().price(seen, granted(a=50))
    assert node.cards["GPU-0"].prices == alone.cards["GPU-0"].prices
    assert node.cards["GPU-0"].holders == 2
    assert [want.cores_percent for want in node.wants] == [50]


def test_a_pod_counts_from_the_moment_that_it_holds_a_share() -> None:
    smoother, pricer = Smoother(), CardPricer()
    now = measure(smoother, a_use("a", 30), for_s=60)
    alone = priced(pricer, smoother, now, a=50).cards["GPU-0"]
    with_b = priced(pricer, smoother, now, a=50, b=50).cards["GPU-0"]
    assert (alone.holders, with_b.holders) == (1, 2)
    assert with_b.expected_percent == pytest.approx(alone.expected_percent + 50, abs=1)
    assert with_b.prices > alone.prices
    assert priced(pricer, smoother, now, a=50).cards["GPU-0"] == alone


def test_prices_are_worked_out_when_a_pod_has_another_sample_or_others_hold_cards() -> None:
    smoother, pricer, holders = Smoother(), CardPricer(), granted(a=50)

    def price_at(second: int, holders: Holders = holders) -> PricedNode:
        smoother.take(a_message(a_use("a", second), at=second, interval_s=10), second)
        seen = smoother.node(NODE, second)
        assert seen is not None
        return pricer.price(seen, holders)

    found = [price_at(second) for second in range(10, 130, 10)]
    assert [one is former for former, one in itertools.pairwise(found)].count(False) == 1
    assert price_at(130, granted(a=50, b=20)).cards["GPU-0"].holders == 2
    assert price_at(140).cards["GPU-0"].holders == 1


def test_what_is_measured_for_hours_is_what_is_expected() -> None:
    smoother, pricer = Smoother(), CardPricer()
    node = PricedNode()
    for minute in range(1, 400):
        smoother.take(a_message(a_use("a", 20), at=minute * 60, interval_s=60), minute * 60)
        node = priced(pricer, smoother, minute * 60, a=50)
    assert node.cards["GPU-0"].expected_percent == pytest.approx(21, abs=1.5)
    [want] = node.wants
    assert (want.namespace, want.cores_percent) == ("", 50)
    assert want.wanted_percent == pytest.approx(21, abs=1.5)


def test_who_holds_nothing_counts_nothing_however_busy_it_says_it_is() -> None:
    smoother, pricer = Smoother(), CardPricer()
    now = measure(smoother, a_use("stranger", 100), loads={"GPU-0": 100})
    node = priced(pricer, smoother, now)
    assert node.cards["GPU-0"].expected_percent == 0
    assert node.cards["GPU-0"].holders == 0
    assert node.wants == ()


def test_containers_of_one_pod_on_a_card_are_one_holder_with_several_shares() -> None:
    smoother, pricer = Smoother(), CardPricer()
    now = measure(smoother, a_use("a", 30))
    seen = smoother.node(NODE, now)
    assert seen is not None
    shares = granted(a=50)
    shares["uid-a", "init", "GPU-0"] = shares[key("a")]
    card = pricer.price(seen, shares).cards["GPU-0"]
    assert card.holders == 2
    assert card.expected_percent <= 50


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_whatever_agents_report_prices_stay_within_their_bounds(reported: list[float]) -> None:
    smoother, builder = Smoother(), HintBuilder()
    for minute, cores in enumerate(reported, 1):
        use = a_use("a", cores, throttled_percent=cores)
        if smoother.take(a_message(use, at=minute * 60, interval_s=60), minute * 60):
            seen = smoother.node(NODE, minute * 60)
            assert seen is not None
            [card] = builder.build(seen, granted(a=50)).cards
            assert 0 <= card.expected_percent <= 100
            assert all(0 <= price <= 100 for price in card.prices)


def test_a_hint_carries_prices_and_what_classes_want() -> None:
    smoother = Smoother()
    now = measure(smoother, a_use("a", 30))
    seen = smoother.node(NODE, now)
    assert seen is not None
    holders = {k: replace(held, namespace="ml") for k, held in granted(a=50).items()}
    hints = HintBuilder().build(seen, holders)
    assert len(hints.cards[0].prices) == len(PRICED_PERCENTS)
    assert hints.cards[0].holders == 1
    assert hints.wants == (
        ClassWant(namespace="ml", cores_percent=50, wanted_percent=hints.wants[0].wanted_percent),
    )
