"""Who lends cores to which pod on one card, as far as its measured shares show it.

An agent decides loans ten times a second and publishes none of them. What it publishes is the limit
that each container has at the moment, loans included: what that is above the container's own cores
is borrowed. It comes from cores that nobody was granted, and from those that owners do not use; the
latter is divided here among the owners by what each leaves idle, which is an estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from tessera_core.occupancy.rows import ShareRow

_LEAST: Final = 0.5
"""Percent of a card: less is rounding."""


def with_loans(shares: Sequence[ShareRow], card_percent: float) -> tuple[ShareRow, ...]:
    """The shares of one card with what each borrows and lends; `card_percent` are its cores."""
    borrowed = [_borrowed(share) for share in shares]
    total = sum(borrowed)
    if total < _LEAST:
        return tuple(shares)
    idle = [0.0 if own else _idle(share) for share, own in zip(shares, borrowed, strict=True)]
    free = max(card_percent - sum(share.cores_percent for share in shares), 0)
    from_owners = min(max(total - free, 0), sum(idle))
    lent = [from_owners * part / (sum(idle) or 1) for part in idle]
    lenders = _pods(shares, lent)
    borrowers = _pods(shares, borrowed)
    return tuple(
        _of(share, borrows, lends, lenders if borrows else borrowers)
        for share, borrows, lends in zip(shares, borrowed, lent, strict=True)
    )


def _of(share: ShareRow, borrows: float, lends: float, partners: tuple[str, ...]) -> ShareRow:
    if borrows < _LEAST and lends < _LEAST:
        return share
    return replace(
        share, borrows_percent=round(borrows, 1), lends_percent=round(lends, 1), partners=partners
    )


def _borrowed(share: ShareRow) -> float:
    measured = share.measured
    if measured is None or not share.cores_percent or share.exclusive:
        return 0
    above = measured.limit_percent - share.cores_percent
    return above if measured.limit_percent and above >= _LEAST else 0


def _idle(share: ShareRow) -> float:
    if share.measured is None:
        return 0
    return max(share.cores_percent - share.measured.cores_percent, 0)


def _pods(shares: Sequence[ShareRow], amounts: Sequence[float]) -> tuple[str, ...]:
    """Those with an amount, the largest first."""
    found = [(amount, share.pod) for share, amount in zip(shares, amounts, strict=True)]
    return tuple(pod for amount, pod in sorted(found, reverse=True) if amount >= _LEAST)
