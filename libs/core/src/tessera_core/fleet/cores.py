"""Cores as the ledger counts them: whole thousandths of a percent of a card.

What is asked, granted, limited and published says percent, and may be a fraction (33.3). Sums of
such fractions depend on their order and leave rests: an empty card would be a little used. So a
percentage becomes a whole number once, where it enters the ledger, and is one until it is shown.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tessera_schema.requests import Request

MILLI: Final = 1_000
"""Units of a percent."""
WHOLE_CARD: Final = 100 * MILLI
MOST_PERCENT: Final = 10**15
"""Percent. Limits may be written as large as one likes; sums of so many units stay far from 64
bits."""


@lru_cache(1024)  # the few amounts that pods ask for, several times for each pod
def milli(percent: float) -> int:
    """Percent in the ledger's units: the nearest whole number, and at least 1 of what is more than
    nothing, for no cores at all means no limit of cores."""
    if percent <= 0:
        return 0
    return max(round(min(percent, MOST_PERCENT) * MILLI), 1)


def percent(units: int) -> float:
    """The ledger's units in percent, as they are written and shown; whole ones as whole numbers."""
    return units / MILLI if units % MILLI else units // MILLI


def least_milli(request: Request) -> int:
    """The cores that a share has at least, on whatever card. Of `equal_parts` none are known before
    a card is."""
    return 0 if request.equal_parts is not None else milli(request.cores_percent)
