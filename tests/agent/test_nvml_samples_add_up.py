"""What NVML samples of processes adds up to what the card says of itself."""

from hypothesis import given
from hypothesis import strategies as st

from tessera_agent.readers.nvml_samples import (
    SAMPLE_US,
    CardTimeLimit,
    ProcessSample,
    sampled_time,
)

S = 1_000_000


def test_a_sample_stands_for_the_time_since_the_one_before() -> None:
    samples = [ProcessSample(11 * S, 1, 50), ProcessSample(12 * S, 1, 100)]
    assert sampled_time(samples, since_us=10 * S) == (
        {1: 1_500_000_000}, 12 * S, 2_000_000_000,
    )  # fmt: skip


def test_after_a_pause_it_stands_for_as_long_as_samples_are_apart() -> None:
    assert sampled_time([ProcessSample(100 * S, 1, 100)], since_us=10 * S) == (
        {1: SAMPLE_US * 1000}, 100 * S, SAMPLE_US * 1000,
    )  # fmt: skip


def test_what_was_counted_before_counts_no_more() -> None:
    assert sampled_time([ProcessSample(9 * S, 1, 100)], since_us=10 * S) == ({}, 0, 0)
    assert sampled_time([], since_us=10 * S) == ({}, 0, 0)


def test_two_that_wait_for_each_other_have_half_the_card_each() -> None:
    limit = CardTimeLimit()
    assert limit.within({1: 1000, 2: 1000}, 1000) == {1: 500, 2: 500}


def test_what_they_had_less_before_is_no_error_afterwards() -> None:
    limit = CardTimeLimit()
    assert limit.within({1: 900}, 1000) == {1: 900}
    assert limit.within({1: 1100}, 1000) == {1: 1100}
    assert limit.within({1: 1100}, 1000) == {1: 1000}


polls = st.lists(
    st.tuples(
        st.dictionaries(st.integers(1, 16), st.integers(0, S), max_size=16), st.integers(0, S)
    ),
    max_size=40,
)


@given(polls)
def test_nobody_has_more_than_it_was_sampled_and_all_no_more_than_the_card(
    seen: list[tuple[dict[int, int], int]],
) -> None:
    limit, had = CardTimeLimit(), 0
    for busy, card in seen:
        within = limit.within(busy, card)
        assert within.keys() == busy.keys()
        assert all(within[pid] <= ns for pid, ns in busy.items())
        had += sum(within.values())
    assert had <= sum(card for _, card in seen)
