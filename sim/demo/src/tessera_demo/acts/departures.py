"""What was seen of a best-effort container when the owner of its card began to work. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from tessera_demo.acts.lending_samples import CounterPair, card_time, rests
from tessera_demo.promises import Promise

OFF_S: Final = 0.2
"""docs/hook.md: it is off its cores so long after the owner's first launch."""
_LIVES: Final = 80.0
"""Percent of the card that it has, at least, where the owner leaves all."""
_NOTHING: Final = 5.0
"""Percent of the card: its floor is 1, and some kernels of it end later."""
_WINDOW_S: Final = 0.3
"""Over which it is seen to have nothing."""
_SEEN_S: Final = 1.5


class Departure(NamedTuple):
    """An owner that had rested launched."""

    before: float
    """Percent of the card that the container had in the second before."""
    off_s: float | None
    """Until it had nothing any more; None = it always had something."""


def departures(samples: Sequence[CounterPair]) -> list[Departure]:
    """Each launch after a rest that was seen long enough before and after."""
    found = []
    for _, launched in rests(samples):
        if launched is None:
            continue
        # The launch was between this sample and the one before it: the earlier one counts.
        at_s = max((a.at_s for a, b in pairwise(samples) if b.at_s <= launched), default=launched)
        before = card_time(samples, at_s - 1, at_s)
        if before is not None and samples[-1].at_s >= at_s + _SEEN_S:
            found.append(Departure(before[1], _off(samples, at_s)))
    return found


def best_effort_promises(seen: Sequence[Departure]) -> list[Promise]:
    """The best launch counts, as a machine may be busy with other things."""
    lives = max((one.before for one in seen), default=0.0)
    offs = [one.off_s for one in seen if one.off_s is not None]
    off = min(offs, default=None)
    words = "no launch was seen" if not seen else "it always had something"
    measured = words if off is None else f"it was off after {off * 1000:.0f} ms"
    return [
        Promise(
            "best-effort lives",
            f"a best-effort container has more than {_LIVES:g} % of a card whose owner rests",
            lives > _LIVES, f"it had {lives:.0f} %",
        ),
        Promise(
            "best-effort leaves",
            f"it is off its cores within {OFF_S * 1000:g} ms of the owner's launch",
            off is not None and off <= OFF_S, measured, late=off is not None and off > OFF_S,
            brief=f"best-effort had {lives:.0f} %, off after {(off or 0) * 1000:.0f} ms",
        ),
    ]  # fmt: skip


def _off(samples: Sequence[CounterPair], launched: float) -> float | None:
    """Seconds from the launch until the container had nothing over a while."""
    for sample in samples:
        if launched <= sample.at_s <= launched + _SEEN_S - _WINDOW_S:
            had = card_time(samples, sample.at_s, sample.at_s + _WINDOW_S)
            if had is not None and had[1] <= _NOTHING:
                return sample.at_s - launched
    return None
