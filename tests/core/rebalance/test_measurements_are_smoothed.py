"""Means over minutes, waits that rise quickly, peaks that stay; gaps and repeats do no harm."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.usage.smoothed import SmoothingConstants
from tessera_core.usage.smoother import Smoother
from tests.core.rebalance.measured import GIB, NODE, a_message, a_use, card_of, measure, names


def test_what_does_not_change_is_reported_as_it_is() -> None:
    smoother = Smoother()
    now = measure(smoother, a_use("a", 40, memory_bytes=GIB), a_use("b", 20))
    card = card_of(smoother, now)
    assert card.busy_percent == pytest.approx(60)
    assert card.trend_percent == pytest.approx(0, abs=1e-6)
    assert [round(c.cores_percent) for c in card.containers] == [40, 20]
    assert card.containers[0].memory_bytes == card.containers[0].memory_peak_bytes == GIB
    assert card.confidence > 0.99


def test_the_first_message_is_believed_as_a_number_and_hardly_trusted() -> None:
    smoother = Smoother()
    smoother.take(a_message(a_use("a", 70), at=2), 2)
    card = card_of(smoother, 2)
    assert card.busy_percent == pytest.approx(70)
    assert card.confidence < 0.05


def test_a_change_is_followed_within_minutes() -> None:
    smoother = Smoother()
    now = measure(smoother, a_use("a", 0))
    now = measure(smoother, a_use("a", 100), since=now, for_s=60)
    assert 55 < card_of(smoother, now).busy_percent < 70
    now = measure(smoother, a_use("a", 100), since=now, for_s=240)
    assert card_of(smoother, now).busy_percent > 98


def test_the_drivers_view_counts_where_it_sees_more_than_the_hooks() -> None:
    smoother = Smoother()
    now = measure(smoother, a_use("a", 10), loads={"GPU-0": 55, "GPU-1": 5})
    seen = smoother.node(NODE, now)
    assert seen is not None
    assert [round(card.busy_percent) for card in seen.cards] == [55, 5]


def test_a_steady_rise_is_reported_as_its_slope_per_hour() -> None:
    smoother = Smoother()
    for second in range(2, 5400, 2):
        smoother.take(a_message(a_use("a", second / 3600 * 40), at=second), second)
    assert card_of(smoother, 5400).trend_percent == pytest.approx(40, rel=0.01)


def test_a_trend_is_no_more_than_a_whole_card_in_an_hour() -> None:
    smoother = Smoother()
    now = measure(smoother, a_use("a", 0))
    now = measure(smoother, a_use("a", 100), since=now, for_s=60)
    assert card_of(smoother, now).trend_percent == 100


def test_waiting_is_observed_within_two_messages_and_forgotten_slowly() -> None:
    smoother = Smoother()
    now = measure(smoother, a_use("a", 25))
    now = measure(smoother, a_use("a", 25, throttled_percent=100), since=now, for_s=4)
    assert card_of(smoother, now).containers[0].waiting_percent > 70
    now = measure(smoother, a_use("a", 25), since=now, for_s=30)
    assert 30 < card_of(smoother, now).containers[0].waiting_percent < 60


def test_two_that_keep_a_card_busy_are_in_each_others_way_and_one_is_not() -> None:
    together, alone = Smoother(), Smoother()
    now = measure(together, a_use("a", 60), a_use("b", 40))
    measure(alone, a_use("a", 100), a_use("b", 0))
    assert card_of(together, now).crowded_percent > 99
    assert card_of(alone, now).crowded_percent == 0


def test_a_gap_costs_confidence_and_moves_no_number() -> None:
    smoother = Smoother()
    now = measure(smoother, a_use("a", 50))
    smoother.take(a_message(a_use("a", 90), at=now + 2), now + 2)
    now += 2
    before = card_of(smoother, now)
    smoother.take(a_message(a_use("a", before.busy_percent), at=now + 120), now + 120)
    after = card_of(smoother, now + 120)
    assert after.containers[0].cores_peak_percent == pytest.approx(90, rel=0.01)
    assert after.busy_percent == pytest.approx(before.busy_percent)
    assert after.confidence < before.confidence / 2


def test_repeats_and_late_messages_change_nothing() -> None:
    smoother = Smoother()
    now = measure(smoother, a_use("a", 50))
    before = card_of(smoother, now)
    for late in (now, now - 2, now - 300):
        assert not smoother.take(a_message(a_use("a", 0), at=late), now)
    assert card_of(smoother, now) == before


def test_a_clock_that_was_set_back_starts_again() -> None:
    smoother = Smoother()
    now = measure(smoother, a_use("a", 50))
    assert smoother.take(a_message(a_use("a", 10), at=now - 7200), now)
    assert card_of(smoother, now).busy_percent == pytest.approx(10)


@pytest.mark.parametrize(("interval_s", "at"), [(0, 2), (-1, 2), (math.inf, 2), (2, math.nan)])
def test_intervals_that_make_no_sense_are_left_out(interval_s: float, at: float) -> None:
    smoother = Smoother()
    assert not smoother.take(a_message(a_use("a", 50), at=at, interval_s=interval_s), 2)
    assert smoother.node(NODE, 2) is None


def test_amounts_beyond_belief_stay_within_a_card() -> None:
    smoother = Smoother()
    wild = a_use("a", 1e9, throttled_percent=-5, memory_bytes=-GIB)
    smoother.take(a_message(wild, a_use("b", -40), at=2), 2)
    card = card_of(smoother, 2)
    a, b = card.containers
    assert (card.busy_percent, a.cores_percent, b.cores_percent) == (100, 100, 0)
    assert (a.waiting_percent, a.memory_bytes, a.memory_peak_bytes) == (0, 0, 0)


def test_two_vendors_of_a_node_are_one_node_and_go_stale_apart() -> None:
    smoother = Smoother()
    smoother.take(a_message(loads={"GPU-0": 50}, at=2), 2)
    smoother.take(a_message(loads={"X-0": 20}, at=2, vendor="zeta"), 2)
    smoother.take(a_message(loads={"GPU-0": 50}, at=40), 40)
    early, late = smoother.node(NODE, 3), smoother.node(NODE, 41)
    assert early is not None
    assert late is not None
    assert (names(early.cards), names(late.cards)) == (["GPU-0", "X-0"], ["GPU-0"])


def test_containers_come_and_go_and_the_others_keep_their_past() -> None:
    smoother = Smoother()
    now = measure(smoother, a_use("a", 50), a_use("b", 10))
    now = measure(smoother, a_use("b", 10), a_use("c", 90), since=now, for_s=2)
    b, c = card_of(smoother, now).containers
    assert (b.uid, c.uid) == ("uid-b", "uid-c")
    assert b.confidence > 0.99
    assert c.confidence < 0.05


def test_one_that_is_back_after_a_moment_keeps_its_past_too() -> None:
    smoother = Smoother()
    now = measure(smoother, a_use("a", 50, memory_bytes=GIB))
    now = measure(smoother, since=now, for_s=10)
    now = measure(smoother, a_use("a", 50), since=now, for_s=2)
    [a] = card_of(smoother, now).containers
    assert a.confidence > 0.8
    assert a.memory_peak_bytes > 0.99 * GIB


def test_one_that_was_away_for_long_starts_again() -> None:
    smoother = Smoother(SmoothingConstants(keep_s=60))
    now = measure(smoother, a_use("a", 50), a_use("b", 1))
    now = measure(smoother, a_use("b", 1), since=now, for_s=120)
    now = measure(smoother, a_use("a", 50), a_use("b", 1), since=now, for_s=2)
    assert card_of(smoother, now).containers[0].confidence < 0.05


def test_a_node_that_fell_silent_is_not_known_and_then_forgotten() -> None:
    smoother = Smoother()
    now = measure(smoother, a_use("a", 50))
    assert smoother.node(NODE, now + 29) is not None
    assert not smoother.is_silent(NODE, now + 29)
    assert smoother.node(NODE, now + 31) is None
    assert smoother.is_silent(NODE, now + 31)
    smoother.forget(now + 31)
    assert smoother.nodes() == (NODE,)
    smoother.forget(now + 601)
    assert smoother.nodes() == ()


@given(
    st.lists(
        st.tuples(
            st.floats(0.1, 500), st.floats(0.1, 100), st.floats(-10, 200), st.floats(-10, 6400),
            st.sets(st.sampled_from("abcd"), max_size=4),
        ),
        min_size=1, max_size=40,
    )
)  # fmt: skip
def test_whatever_comes_numbers_stay_within_what_they_mean(
    steps: list[tuple[float, float, float, float, set[str]]],
) -> None:
    smoother, at = Smoother(SmoothingConstants(keep_s=100)), 0.0
    for elapsed, interval_s, cores, throttled, present in steps:
        at += elapsed
        uses = [a_use(name, cores, throttled_percent=throttled) for name in sorted(present)]
        assert smoother.take(a_message(*uses, at=at, interval_s=interval_s), at)
        seen = smoother.node(NODE, at)
        assert seen is not None
        for card in seen.cards:
            assert 0 <= card.busy_percent <= 100 + 1e-9
            assert 0 <= card.crowded_percent <= 100
            assert -100 <= card.trend_percent <= 100
            assert 0 <= card.confidence <= 1
            for one in card.containers:
                assert 0 <= one.cores_percent <= one.cores_peak_percent + 1e-9 <= 100 + 2e-9
                assert 0 <= one.waiting_percent <= 100
                assert 0 < one.confidence <= 1
        uids = {one.uid for card in seen.cards for one in card.containers}
        assert uids == {f"uid-{name}" for name in present}


@given(
    st.lists(
        st.tuples(st.floats(0.5, 20), st.floats(0.5, 20), st.floats(0, 100), st.booleans()),
        min_size=1, max_size=30,
    )
)  # fmt: skip
def test_a_mean_weighs_each_measurement_by_its_age_however_often_a_container_is_away(
    steps: list[tuple[float, float, float, bool]],
) -> None:
    smoother, at, load_s = Smoother(), 0.0, SmoothingConstants().load_s
    measured: list[tuple[float, float, float]] = []
    for elapsed, interval_s, cores, there in steps:
        covered = min(interval_s, elapsed) if at else interval_s
        at += elapsed
        uses = [a_use("a", cores), a_use("b", 1)] if there else [a_use("b", 1)]
        assert smoother.take(a_message(*uses, at=at, interval_s=interval_s), at)
        if there:
            measured.append((at, -math.expm1(-covered / load_s), cores))
    if not steps[-1][3]:
        return
    weights = [gain * math.exp((moment - at) / load_s) for moment, gain, _ in measured]
    one = card_of(smoother, at).containers[0]
    assert one.confidence == pytest.approx(sum(weights), abs=1e-4)  # Unix times are that exact
    mean = sum(w * cores for w, (*_, cores) in zip(weights, measured, strict=True)) / sum(weights)
    assert one.cores_percent == pytest.approx(mean, abs=1e-3)
