"""What one pod more costs the others on a card: the GPU time that they are then expected to want
and not to get.

    O(M, V) = E[max(X - C, 0)],  X normal with mean M and variance V
            = s phi(z) + (M - C) Phi(z),  s = sqrt(V), z = (M - C) / s
    price of a pod that wants m, v = O(M + m, V + v) - O(M, V)

M and V are the sums over all pods that hold a part of the card; C is what can be used of a card
that several share. Means are in percent of the card, so prices are in hundredths of a card. A price
is never negative, and never more than the pod wants, and grows with M.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from tessera_core.usage.expected_use import ExpectedWant
from tessera_schema.messages.hints import PRICED_PERCENTS

SWITCH_PERCENT: Final = 2.0
"""What a further pod at work costs the card for switching, percent: a guess, as in
docs/measurements.md, Rebalancing."""
SWITCH_MOST_PERCENT: Final = 10.0
_BUSY_PERCENT: Final = 1.0
"""Mean from which a pod counts as at work."""
_DEVIATION: Final = 0.6
"""Standard deviation of what a pod that is to come wants, in parts of its mean: that of pods of
which nothing is known (`ExpectedUseRules`)."""
_WHOLE: Final = 100.0
_EQUAL: Final = 4096
"""Prices of which equal ones are one object."""


def overload(mean: float, variance: float, capacity: float = _WHOLE) -> float:
    """GPU time wanted beyond the capacity, in the mean; percent of the card."""
    over = mean - capacity
    if variance <= 0:
        return max(over, 0.0)
    deviation = math.sqrt(variance)
    z = over / deviation
    density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    below = math.erfc(-z / math.sqrt(2)) / 2
    return max(deviation * density + over * below, over, 0.0)


def capacity(wants: Sequence[ExpectedWant]) -> float:
    """What can be used of a card that these share, percent."""
    busy = sum(want.mean >= _BUSY_PERCENT for want in wants)
    return _WHOLE - min(max(busy - 1, 0) * SWITCH_PERCENT, SWITCH_MOST_PERCENT)


def card_prices(wants: Sequence[ExpectedWant]) -> tuple[int, ...]:
    """What a pod more would cost those that hold parts of the card, in hundredths of a card: a pod
    that wants the first of `PRICED_PERCENTS`, and so on."""
    mean, variance = sum(w.mean for w in wants), sum(w.variance for w in wants)
    room = capacity(wants)
    before = overload(mean, variance, room)
    prices = (
        overload(mean + more, variance + (_DEVIATION * more) ** 2, room) - before
        for more in PRICED_PERCENTS
    )
    # variance alone can make it a hair more than what the pod wants
    return _one(
        tuple(
            min(max(round(price), 0), more)
            for price, more in zip(prices, PRICED_PERCENTS, strict=True)
        )
    )


@lru_cache(_EQUAL)
def _one(prices: tuple[int, ...]) -> tuple[int, ...]:
    """Equal prices are one object."""
    return prices
