"""What a pod is expected to want: between what it wanted so far and what pods like it want."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera_core.usage import expected_use
from tessera_core.usage.expected_use import (
    ExpectedUse,
    ExpectedUseRules,
    ExpectedWant,
    PodTraits,
    wanted_percent,
)

RULES = ExpectedUseRules()
TRAINING = PodTraits("ml", 50, 1 << 30)
percents = st.lists(st.floats(0, 100), min_size=1, max_size=40)


def wanting(
    expected: ExpectedUse, *wanted: float, traits: PodTraits = TRAINING, full: bool = False
) -> ExpectedWant:
    """A pod of which these minutes were measured."""
    pod = expected.samples(0)
    for minute, percent in enumerate(wanted, 1):
        assert expected.add(pod, traits, percent, minute * 60, full=full)
    return expected.of(pod, traits)


def test_of_a_first_pod_that_was_never_measured_half_a_card_is_expected() -> None:
    assert wanting(ExpectedUse()) == ExpectedWant(50, 900)


def test_hours_of_measurements_outweigh_the_prior() -> None:
    want = wanting(ExpectedUse(), *[10.0] * 600)
    assert 10 < want.mean < 13
    assert want.variance < 150


def test_what_it_wants_just_now_counts_for_about_a_third() -> None:
    expected = ExpectedUse()
    calm = wanting(expected, *[10.0] * 300)
    risen = wanting(expected, *[10.0] * 300, *[90.0] * 20)
    assert 20 < risen.mean - calm.mean < 40


@settings(max_examples=200, deadline=None)
@given(percents)
def test_it_is_between_the_prior_and_what_was_measured(wanted: list[float]) -> None:
    want = wanting(ExpectedUse(), *wanted)
    assert min(*wanted, 50) - 1e-9 <= want.mean <= max(*wanted, 50) + 1e-9
    assert want.variance >= 0


@settings(max_examples=100, deadline=None)
@given(st.lists(percents, min_size=2, max_size=5), st.data())
def test_other_pods_change_it_only_through_the_prior(
    pods: list[list[float]], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(pods))))
    found: list[ExpectedWant] = []
    for turn in (range(len(pods)), order):
        expected = ExpectedUse()
        samples = [expected.samples(0) for _ in pods]
        for minute in range(1, max(map(len, pods)) + 1):
            for n in (n for n in turn if minute <= len(pods[n])):
                expected.add(samples[n], TRAINING, pods[n][minute - 1], minute * 60, full=False)
        found.append(expected.of(samples[0], TRAINING))
    assert found[0].mean == pytest.approx(found[1].mean, abs=1e-6)
    assert found[0].variance == pytest.approx(found[1].variance, abs=1e-4)


@pytest.mark.parametrize("at", [0, 30, -60, math.nan, math.inf])
def test_what_is_late_or_too_early_or_no_time_changes_nothing(at: float) -> None:
    expected = ExpectedUse()
    pod = expected.samples(0)
    expected.add(pod, TRAINING, 80, 60, full=False)
    before = expected.of(pod, TRAINING)
    assert not expected.add(pod, TRAINING, 5, 60 + at, full=False)
    assert not expected.add(pod, TRAINING, math.nan, 120, full=False)
    assert expected.of(pod, TRAINING) == before


def test_a_gap_is_not_believed_to_have_been_measured() -> None:
    expected = ExpectedUse()
    pods = [expected.samples(0), expected.samples(0)]
    expected.add(pods[0], TRAINING, 90, RULES.longest_s, full=False)
    assert expected.add(pods[1], TRAINING, 90, 3600, full=False)
    assert pods[1].weight == pytest.approx(pods[0].weight)


def test_on_a_full_card_a_sample_lowers_nothing_and_may_raise() -> None:
    assert wanting(ExpectedUse(), *[10.0] * 60, full=True).mean >= 50 - 1e-9
    assert wanting(ExpectedUse(), *[90.0] * 60, full=True).mean > 70


def test_who_had_to_wait_wanted_more_than_it_got() -> None:
    assert wanted_percent(25, 50) == 50
    assert wanted_percent(25, 0) == 25
    assert wanted_percent(80, 90) == 100
    assert wanted_percent(1, 100) == 10
    assert wanted_percent(-5, 0) == 0


def test_a_new_pod_is_expected_to_want_what_pods_like_it_want() -> None:
    expected = ExpectedUse()
    for _ in range(20):
        wanting(expected, *[90.0] * 120)
        wanting(expected, *[5.0] * 120, traits=PodTraits("home", 20, 1 << 30))
    assert wanting(expected).mean > 80
    assert wanting(expected, traits=PodTraits("ml", 30, 1 << 31)).mean > 75
    assert wanting(expected, traits=PodTraits("home", 20, 1 << 30)).mean < 15
    assert 30 < wanting(expected, traits=PodTraits("new")).mean < 70
    assert expected.of_class("home", 20) < 15


def test_pods_of_one_owner_say_more_than_their_namespace() -> None:
    expected = ExpectedUse()
    sweep = PodTraits("ml", 50, 1 << 30, owner="sweep")
    for _ in range(20):
        wanting(expected, *[80.0] * 120)
    for _ in range(4):
        wanting(expected, *[15.0] * 120, traits=sweep)
    assert wanting(expected, traits=sweep).mean < 35 < wanting(expected).mean


def test_one_long_pod_is_not_all_that_its_class_is() -> None:
    expected = ExpectedUse()
    wanting(expected, *[100.0] * 2000)
    for _ in range(5):
        wanting(expected, *[0.0] * 120)
    assert wanting(expected).mean < 50


def test_however_many_classes_there_are_so_many_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(expected_use, "MOST_CLASSES", 50)
    expected = ExpectedUse()
    for n, cores in itertools.product(range(100), (10, 20)):
        wanting(expected, 50.0, traits=PodTraits(f"ns-{n}", cores, n, owner=str(n)))
        assert expected.classes <= 50
