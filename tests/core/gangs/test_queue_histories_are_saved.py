"""A history of queues that is written down and read again is the one that went on."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.gangs.queue_history import (
    DAY_S,
    QueueHistory,
    SavedQueueHistory,
    UnknownQueueHistoryVersion,
    decode,
    encode,
)
from tessera_core.gangs.queues import VOLCANO_QUEUE, QueueDimension
from tests.core.gangs.test_what_queues_have_used_counts import (
    CARDS,
    STEPS,
    TOTALS,
    USE,
    a_history,
    cards,
    weights,
)


def saved(history: QueueHistory) -> SavedQueueHistory:
    """Written down and read again."""
    found = history.saved()
    assert found is not None
    return decode(encode(found))


@given(STEPS, USE, USE, st.integers(0, 200_000))
def test_a_replica_that_takes_over_goes_on_with_it(
    steps: list[tuple[int, int, int]], a: int, b: int, later: int
) -> None:
    """The seconds since it was written count as things are then."""
    former, now = a_history(), 0.0
    former.record(now, {}, TOTALS)
    for seconds, used_a, used_b in steps:
        now += seconds
        former.record(now, cards(a=used_a, b=used_b), TOTALS)
    former.record(now, cards(a=a, b=b), TOTALS)
    text = saved(former)
    follower = a_history()
    follower.record(now + later + 1, cards(a=a, b=b), TOTALS)
    assert follower.restore(text)
    former.record(now + later + 1, cards(a=a, b=b), TOTALS)
    assert weights(follower) == pytest.approx(weights(former))


def test_one_that_is_restored_before_its_first_record_goes_on_from_there() -> None:
    former, follower = a_history(), a_history()
    former.record(0, cards(a=8), TOTALS)
    former.record(DAY_S, cards(a=8), TOTALS)
    assert follower.restore(saved(former))
    assert weights(follower) == pytest.approx({"a": 2 / 3, "b": 1})
    follower.record(DAY_S + 60, cards(a=8), TOTALS)
    former.record(DAY_S + 60, cards(), TOTALS)
    assert weights(follower)["a"] == pytest.approx(weights(former)["a"], abs=1e-3)


def test_one_that_began_later_is_left_out() -> None:
    own, later = a_history(), a_history()
    own.record(0, cards(a=8), TOTALS)
    own.record(DAY_S, cards(), TOTALS)
    later.record(10, cards(b=8), TOTALS)
    later.record(DAY_S, cards(), TOTALS)
    before = weights(own)
    assert not own.restore(saved(later))
    assert weights(own) == before
    assert not own.restore(saved(own))


def test_with_another_half_life_it_weighs_as_much_of_what_counts() -> None:
    former, follower = a_history(half_life_s=DAY_S), a_history(half_life_s=7 * DAY_S)
    former.record(0, cards(a=8), TOTALS)
    former.record(DAY_S, cards(), TOTALS)
    assert follower.restore(saved(former))
    assert weights(follower) == pytest.approx(weights(former))


def test_what_it_says_of_no_vendor_stays_as_it_was() -> None:
    other = QueueDimension("other", "cards")
    former, follower = a_history(), a_history()
    former.record(0, cards(a=8), TOTALS)
    former.record(DAY_S, cards(), TOTALS)
    own = {(VOLCANO_QUEUE, "b"): {other: 2.0}}
    follower.record(100, own, {CARDS: 8.0, other: 2.0})
    follower.record(DAY_S + 100, own, {CARDS: 8.0, other: 2.0})
    before = weights(follower)["b"]
    assert follower.restore(saved(former))
    assert weights(follower)["b"] == before < 1
    assert weights(follower)["a"] < 0.7


def test_nothing_is_written_before_the_first_record() -> None:
    assert a_history().saved() is None


def test_of_very_many_queues_those_are_written_that_used_most() -> None:
    history = a_history()
    used = {f"q{n}": float(n) for n in range(1, 6001)}
    history.record(0, cards(**used), {CARDS: 1e9})
    history.record(DAY_S, cards(), {CARDS: 1e9})
    found = saved(history).used
    assert len(found) == 4000
    assert {each.queue for each in found} == {f"q{n}" for n in range(2001, 6001)}
    assert len(encode(saved(history))) < 900_000


def test_a_newer_release_is_said_to_have_written_it() -> None:
    with pytest.raises(UnknownQueueHistoryVersion, match="version 2"):
        decode('{"version": 2, "since": "yesterday"}')


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"version": 1}', '{"version": "1"}',
        '{"version": 1, "since": -1, "at": 0, "half_life_s": 60}',
        '{"version": 1, "since": 0, "at": 0, "half_life_s": 0}',
        '{"version": 1, "since": 0, "at": 1e999, "half_life_s": 60}',
        '{"version": 1, "since": 0, "at": 0, "half_life_s": 60, "used": [{"queue": "a"}]}',
    ],
)  # fmt: skip
def test_what_is_no_history_is_an_error(text: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(text)
