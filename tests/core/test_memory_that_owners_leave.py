"""Room for best-effort memory: what owners leave, and who ends when they need it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.node.memory_reclaim import too_many
from tessera_core.usage.memory_room import MemoryRoomRules, needed_bytes, room_bytes
from tessera_schema.cards import MIB

GIB = 1024 * MIB
CARD = 80 * GIB
RULES = MemoryRoomRules()
HOUR_S = 3600.0

_owner = st.tuples(st.integers(0, 80), st.floats(0, 1), st.floats(0, 3 * HOUR_S))
"""GiB granted, the part of it that was used, seconds for which it is held."""


def counted(held: float, peak: float, held_s: float, *, best_effort: bool = False) -> float:
    one = np.array([[held]]), np.array([[peak]]), np.array([[held_s]]), np.array([[best_effort]])
    return float(needed_bytes(*one, RULES)[0, 0])


@pytest.mark.parametrize(
    ("granted", "peak", "held_s", "expected"),
    [
        (40 * GIB, 10 * GIB, HOUR_S, 12 * GIB),
        (40 * GIB, 1 * GIB, HOUR_S, 2 * GIB),
        (40 * GIB, 39 * GIB, HOUR_S, 40 * GIB),
        (40 * GIB, 10 * GIB, HOUR_S - 1, 40 * GIB),
        (40 * GIB, 0, HOUR_S, 40 * GIB),
    ],
    ids=[
        "its peak and a fifth",
        "a GiB at least",
        "never more than granted",
        "young",
        "unmeasured",
    ],
)
def test_an_owner_counts_with_its_peak_and_a_margin(
    granted: float, peak: float, held_s: float, expected: float
) -> None:
    assert counted(granted, peak, held_s) == expected


@pytest.mark.parametrize(("held_s", "expected"), [(600, 12 * GIB), (599, 40 * GIB)])
def test_a_best_effort_container_counts_likewise_and_sooner(held_s: float, expected: float) -> None:
    assert counted(40 * GIB, 10 * GIB, held_s, best_effort=True) == expected


def test_the_margins_of_a_card_add_up_like_deviations() -> None:
    """Of two cards: on the first, three may grow by 2 GiB each and one is young; the second one's
    containers are alone in having a margin."""
    held = np.full((2, 4), 20.0 * GIB)
    peaks = np.array([[10.0, 10.0, 10.0, 1.0], [20.0, 10.0, 0.0, 20.0]]) * GIB
    held_s = np.array([[HOUR_S, HOUR_S, HOUR_S, 0.0], [HOUR_S] * 4])
    needed = needed_bytes(held, peaks, held_s, np.zeros((2, 4), np.bool_), RULES) / GIB
    together = 12**0.5
    assert needed[0] == pytest.approx([10 + together / 3] * 3 + [20])
    assert needed[1] == pytest.approx([20, 12, 20, 20])


@given(st.lists(_owner, max_size=9))
def test_a_card_counts_between_its_largest_margin_and_all_of_them(
    owners: list[tuple[int, float, float]],
) -> None:
    rows = np.array([(g * GIB, g * GIB * part, s) for g, part, s in owners]).reshape(-1, 3)
    held, peaks, held_s = (column[None] for column in rows.T)
    best_effort = np.zeros(held.shape, np.bool_)
    needed = needed_bytes(held, peaks, held_s, best_effort, RULES)
    each = np.array([[counted(*owner) for owner in rows.tolist()]]).reshape(held.shape)
    assert (needed <= each + 1).all()
    assert needed.sum() >= (each - peaks).max(initial=0) + peaks.sum() - 1


@given(_owner)
def test_an_owner_counts_between_its_peak_and_its_grant(owner: tuple[int, float, float]) -> None:
    granted, part, held_s = owner[0] * GIB, owner[1], owner[2]
    assert part * granted <= counted(granted, part * granted, held_s) <= granted


@given(holders=st.lists(st.tuples(_owner, st.booleans()), max_size=9), closed=st.booleans())
def test_room_is_never_below_0_and_none_on_a_closed_card(
    *, holders: list[tuple[tuple[int, float, float], bool]], closed: bool
) -> None:
    rows = np.array([(g * GIB, g * GIB * part, s) for (g, part, s), _ in holders]).reshape(-1, 3)
    best_effort = np.array([[lent for _, lent in holders]], dtype=np.bool_)
    needed = needed_bytes(rows[None, :, 0], rows[None, :, 1], rows[None, :, 2], best_effort, RULES)
    room = float(room_bytes(CARD, needed, np.array([closed]))[0])
    assert room >= 0
    if closed:
        assert room == 0
    elif room:
        assert needed.sum() + room == pytest.approx(CARD)


@given(st.lists(st.tuples(st.floats(0, 9), st.integers(1, 40)), max_size=8), st.integers(0, 80))
def test_owners_get_their_grants_when_best_effort_containers_end(
    best_effort: list[tuple[float, int]], granted: int
) -> None:
    """The owners' grants are never more than the card has."""
    held = [(came, float(size * GIB)) for came, size in best_effort]
    short = granted * GIB + sum(size for _, size in held) - CARD
    ends = too_many(short, held)
    left = sum(size for n, (_, size) in enumerate(held) if n not in ends)
    assert granted * GIB + left <= CARD
    if ends:
        last = held[ends[-1]][1]
        assert granted * GIB + left + last > CARD, "one more than needed has ended"
    stay = [came for n, (came, _) in enumerate(held) if n not in ends]
    assert all(held[n][0] >= max(stay, default=0) for n in ends)
