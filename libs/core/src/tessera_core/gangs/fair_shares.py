"""What each queue is entitled to of a total, and which queue is served next.

`divide` is one function for all systems, for one dimension and one level of a tree:

1. Everybody gets its floor: its guarantee, or as much of what it deserves as it asks for. Floors
   above the total are scaled down, those of what is deserved first.
2. The rest goes to queues that ask for more, by weight, up to their caps and to what the guarantees
   of the others leave; those of a higher band before the others.
3. What comes in whole units is rounded by the largest remainder, then older queues first.

Sums are of fractions, so that the order of queues changes nothing. With the values that the systems
write it gives their answers: Volcano's proportion and capacity, Koordinator's runtime quota, KAI's
division.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import floor

from msgspec import Struct

from tessera_core.gangs.queues import QueueAmounts, QueueDimension

Divided = Mapping[str, Fraction]
"""Queue's name -> amount."""


class QueueClaim(Struct, frozen=True, kw_only=True):
    """What one queue asks for, and has a right to, of one dimension. Amounts are 0 or more."""

    name: str
    request: float
    """What its pods use and what they wait for."""
    guarantee: float = 0
    deserved: float = 0
    cap: float | None = None
    """None = no bound."""
    weight: float = 1
    """0 = nothing beyond the floor."""
    band: int = 0
    created: str = ""
    """Older ones come first where units cannot be divided; empty where names decide."""

    @property
    def wanted(self) -> Fraction:
        """What it asks for, as far as its cap allows."""
        wanted = Fraction(self.request)
        return wanted if self.cap is None else min(wanted, Fraction(self.cap))


def divide(
    total: float, claims: Iterable[QueueClaim], *, whole: bool = True
) -> dict[str, Fraction]:
    """The amount that each queue is entitled to; together at most `total`. With `whole` they are
    whole numbers, if the claims are."""
    order = sorted(claims, key=lambda claim: (claim.created, claim.name))
    left = Fraction(total)
    got = _floors(left, order)
    left -= sum(got.values())
    guaranteed = sum(Fraction(claim.guarantee) for claim in order)
    limits = {
        claim.name: min(claim.wanted, Fraction(total) - guaranteed + Fraction(claim.guarantee))
        for claim in order
    }
    for band in sorted({claim.band for claim in order}, reverse=True):
        left = _by_weight(left, [claim for claim in order if claim.band == band], got, limits)
    return _rounded(got, order, limits) if whole else got


def _floors(total: Fraction, claims: Sequence[QueueClaim]) -> dict[str, Fraction]:
    """Everybody's floor, scaled down where they are more than there is."""
    kept = {claim.name: Fraction(claim.guarantee) for claim in claims}
    own = {
        claim.name: max(min(Fraction(claim.deserved), claim.wanted) - kept[claim.name], Fraction(0))
        for claim in claims
    }
    kept = _scaled(kept, total)
    own = _scaled(own, total - sum(kept.values()))
    return {name: kept[name] + own[name] for name in kept}


def _scaled(amounts: Mapping[str, Fraction], total: Fraction) -> dict[str, Fraction]:
    together = sum(amounts.values(), Fraction(0))
    part = min(total / together, Fraction(1)) if together else Fraction(1)
    return {name: amount * part for name, amount in amounts.items()}


def _by_weight(
    left: Fraction, claims: Sequence[QueueClaim], got: dict[str, Fraction], limits: Divided
) -> Fraction:
    """Give what is left to these queues, each up to its limit; what remains then."""
    unmet = [c for c in claims if c.weight > 0 and got[c.name] < limits[c.name]]
    while left > 0 and unmet:
        unit = left / sum(Fraction(claim.weight) for claim in unmet)
        full = [c for c in unmet if got[c.name] + unit * Fraction(c.weight) >= limits[c.name]]
        for claim in full or unmet:
            more = limits[claim.name] - got[claim.name]
            more = more if full else unit * Fraction(claim.weight)
            got[claim.name] += more
            left -= more
        unmet = [claim for claim in unmet if claim not in full] if full else []
    return left


def _rounded(
    got: Mapping[str, Fraction], order: Sequence[QueueClaim], limits: Divided
) -> dict[str, Fraction]:
    """Whole units, of which as many are given as before."""
    down = {name: Fraction(floor(amount)) for name, amount in got.items()}
    units = floor(sum(got.values(), Fraction(0)) - sum(down.values(), Fraction(0)))
    rest = sorted(order, key=lambda claim: down[claim.name] - got[claim.name])
    for claim in rest:
        open_to_more = max(limits[claim.name], got[claim.name]) >= down[claim.name] + 1
        if units > 0 and got[claim.name] > down[claim.name] and open_to_more:
            down[claim.name] += 1
            units -= 1
    return down


class QueueShare(Struct, frozen=True, order=True):
    """How far a queue is beyond what it deserves: the least is served first."""

    beyond: float
    """The largest part of the cluster that it uses beyond what it deserves, by weight."""
    within: float
    """The largest part of what it deserves that it uses; decides among queues that are within."""
    lost: float = 0.0
    """The part of its weight that what it used in the past takes from it; decides among equals."""


def share_of(
    used: QueueAmounts, deserved: QueueAmounts, totals: QueueAmounts, weight: float = 1
) -> tuple[QueueShare, QueueDimension | None]:
    """A queue's share of the cluster, and the dimension that decides it; None for a queue that is
    within what it deserves."""
    beyond, within, decides = 0.0, 0.0, None
    for dimension, total in totals.items():
        amount, own = used.get(dimension, 0), deserved.get(dimension)
        if not total or (own is None and dimension in _COUNTED_IF_NAMED):
            continue
        part = max(amount - (own or 0), 0) / total / (weight or 1)
        if part > beyond:
            beyond, decides = part, dimension
        if own:
            within = max(within, amount / own)
    return QueueShare(beyond, within), decides


_COUNTED_IF_NAMED = frozenset({
    QueueDimension("", "cpu"), QueueDimension("", "memory"), QueueDimension("", "pods"),
})  # fmt: skip
"""A queue that does not say what it deserves of these is not measured by them."""
