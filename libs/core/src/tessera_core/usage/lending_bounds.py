"""How far agents may lend on a card: for each container the most cores that it may come to.

Agents decide ten times a second who is lent what; a bound is what they stay within, and changes
only when grants do, or when a card fills up with use of its holders' own. So it is worked out from
grants, and from what holders use of their own cores: what is lent does not count, or lending would
end itself and begin again for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from tessera_core.usage.lending_terms import GrantedShare
from tessera_core.usage.smoothed import SmoothContainer
from tessera_schema.messages.hints import LendingBound

Percent = Annotated[float, Meta(ge=0, le=100)]
_WHOLE = 100.0
HeldContainer = tuple[SmoothContainer, GrantedShare | None]
"""A container on a card, and what it was granted there; None = nothing that is known."""


class LendingRules(Struct, frozen=True, kw_only=True):
    """What holds where nobody else says how far lending goes."""

    on: bool = True
    """Off = nobody is lent anything."""
    most_cores_percent: Percent = _WHOLE
    """What a container may come to on one card, its own cores included: all that is idle."""
    stop_percent: Percent = 95.0
    """GPU time that holders use of their own cores, percent of the card, from which nothing is lent
    there: there is nothing to lend, and a container that waits waits for its own."""
    resume_percent: Percent = 85.0
    """Below which it is lent again."""


def is_full(on: Sequence[HeldContainer], rules: LendingRules, *, was: bool) -> bool:
    """Whether a card's holders need all of it themselves; `was` = they did until now."""
    used = 0.0
    for one, held in on:
        if held is None:
            used += min(one.cores_percent, _WHOLE)
        elif not held.best_effort:
            used += min(one.cores_percent, held.cores_percent or _WHOLE)
    return used >= (rules.resume_percent if was else rules.stop_percent)


def card_bounds(
    on: Sequence[HeldContainer], rules: LendingRules, *, full: bool = False
) -> tuple[LendingBound, ...]:
    """A bound for each container whose cores are limited on the card."""
    holders = [held for _, held in on if held is not None]
    # equal shares may be one object: nothing is kept from a container for one that is equal
    return tuple(
        LendingBound(
            uid=one.uid, container=one.container, card=one.card,
            most_cores_percent=_most(own, [h for h in holders if h is not own], rules, full=full),
        )
        for one, own in on
        if own is not None and (own.best_effort or 0 < own.cores_percent < _WHOLE)
    )  # fmt: skip


def _most(
    own: GrantedShare, others: list[GrantedShare], rules: LendingRules, *, full: bool
) -> float:
    """Cores of who goes before it, or takes no part, are never its to borrow."""
    if full or not (rules.on and own.lends):
        return own.cores_percent
    kept = sum(h.cores_percent for h in others if _goes_before(h, own) or not h.lends)
    said = None if own.best_effort else own.most_cores_percent
    highest = rules.most_cores_percent if said is None else said
    return max(own.cores_percent, min(highest, _WHOLE - kept))


def _goes_before(other: GrantedShare, own: GrantedShare) -> bool:
    if other.priority is None or own.priority is None or other.namespace != own.namespace:
        return False
    return not other.best_effort and other.priority < own.priority
