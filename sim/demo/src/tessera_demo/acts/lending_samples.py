"""What was seen of an owner that works by turns and of a neighbour that is always busy: when the
owner launched, and what GPU time each had a second later. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from tessera_demo.promises import Promise

_REST_S: Final = 1.5
"""Without a launch for so long, the owner rests."""
_LATER_S: Final = 1.0
"""What is to be so after a turn is to be so this much later."""
_WINDOW_S: Final = 1.0
"""Over which GPU time is then measured."""
_SECOND: Final = 1e9


class CounterPair(NamedTuple):
    """Both containers' counters at one moment."""

    at_s: float
    launches: int
    """Of the owner."""
    owner_ns: int
    """GPU time."""
    borrower_ns: int


class Turn(NamedTuple):
    """The owner began to work, or to rest, and what each had from a second later."""

    wakes: bool
    before: float
    """Percent of the card that the neighbour had in the second before."""
    borrower: float
    """Percent that it had afterwards."""
    owner: float


class Shares(NamedTuple):
    """Percent of the card that each was granted."""

    owner: float
    borrower: float


def rests(samples: Sequence[CounterPair]) -> list[tuple[float | None, float | None]]:
    """When the owner's rests began and ended, with its launches; None = that was not seen."""
    launched = [b.at_s for a, b in pairwise(samples) if b.launches != a.launches]
    if not launched:
        return []
    ends = [samples[0].at_s, *launched, samples[-1].at_s]
    known = set(launched)
    return [
        (a if a in known else None, b if b in known else None)
        for a, b in pairwise(ends)
        if b - a >= _REST_S
    ]


def turns(samples: Sequence[CounterPair]) -> list[Turn]:
    """Every turn of the owner that was seen long enough before and after."""
    found = rests(samples)
    moments = [
        *((end, True) for _, end in found if end is not None),
        *((begin, False) for begin, _ in found if begin is not None),
    ]
    each = (_turn(samples, at_s, wakes=wakes) for at_s, wakes in sorted(moments))
    return [turn for turn in each if turn is not None]


def lending_promises(seen: Sequence[Turn], shares: Shares, slack: float) -> list[Promise]:
    """Both directions: the best turn of each counts, as a machine may be busy with other things."""
    left = 100 - shares.owner
    gains = [turn for turn in seen if not turn.wakes]
    returns = [turn for turn in seen if turn.wakes]
    return [
        _promise(
            "lending grows",
            f"a busy container with {shares.borrower:g} % of a card grows beyond {left:g} % within "
            "a second of its neighbour's rest",
            gains, lambda turn: turn.borrower > left + slack,
        ),
        _promise(
            "lending returns",
            f"it gives them back within a second of the launch of their owner, who has "
            f"{shares.owner:g} %",
            returns,
            lambda turn: turn.borrower < left + slack and turn.owner > shares.owner - 2 * slack,
        ),
    ]  # fmt: skip


def _promise(
    check: str, text: str, seen: Sequence[Turn], kept: Callable[[Turn], bool]
) -> Promise:  # fmt: skip
    best = next(filter(kept, seen), None)
    if best is None:
        words = "; ".join(map(_words, seen)) or "no turn was seen"
        return Promise(check, text, kept=False, measured=words)
    what = "its owner launched" if best.wakes else "a neighbour rested"
    brief = f"{what}: {best.before:.0f} → {best.borrower:.0f} %"
    return Promise(check, text, kept=True, measured=_words(best), brief=brief)


def _words(turn: Turn) -> str:
    return (
        f"neighbour {turn.before:.0f} % before, {turn.borrower:.0f} % after, owner "
        f"{turn.owner:.0f} %"
    )


def _turn(samples: Sequence[CounterPair], at_s: float, *, wakes: bool) -> Turn | None:
    before = card_time(samples, at_s - _WINDOW_S, at_s)
    after = card_time(samples, at_s + _LATER_S, at_s + _LATER_S + _WINDOW_S)
    if before is None or after is None:
        return None
    return Turn(wakes, before[1], borrower=after[1], owner=after[0])


def card_time(
    samples: Sequence[CounterPair], from_s: float, to_s: float
) -> tuple[float, float] | None:
    """GPU time of owner and other, percent of the card; None where that was not seen whole.

    What hooks count of a card that is busy throughout may add up to more than the card has
    (docs/hook.md). Then each had its part of the whole.
    """
    if not samples or samples[0].at_s > from_s or samples[-1].at_s < to_s:
        return None
    inside = [s for s in samples if from_s <= s.at_s <= to_s]
    if len(inside) < 2 or inside[-1].at_s <= inside[0].at_s:
        return None
    first, last = inside[0], inside[-1]
    owner, borrower = last.owner_ns - first.owner_ns, last.borrower_ns - first.borrower_ns
    whole = max((last.at_s - first.at_s) * _SECOND, owner + borrower)
    return owner / whole * 100, borrower / whole * 100
