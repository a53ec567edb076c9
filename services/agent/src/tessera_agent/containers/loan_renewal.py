"""Loans that are renewed by whatever is written to a limits file, so that it is seldom written for
them alone: what the driver measured is written there as often."""

from __future__ import annotations

from operator import is_
from typing import Final, NamedTuple

from msgspec.structs import replace

from tessera_core.hook.limits_file import HookLimits


class LoanRenewal(NamedTuple):
    """How long loans of one container go on."""

    until_ns: int
    """Wall clock: nothing is renewed after this, when the decision about them is too old."""
    lasts_ns: int
    """From each write on."""

    def of(self, limits: HookLimits, now_ns: int) -> HookLimits:
        """The limits with all loans in force renewed; the same object where there is none. `now_ns`
        is of the wall clock."""
        if now_ns >= self.until_ns:
            return limits
        until_ns = now_ns + self.lasts_ns
        cards = [
            replace(card, lent_until_ns=until_ns)
            if card.lent_permille and now_ns < card.lent_until_ns < until_ns else card
            for card in limits.cards
        ]  # fmt: skip
        if all(map(is_, cards, limits.cards)):
            return limits
        return replace(limits, cards=tuple(cards))


NO_RENEWAL: Final = LoanRenewal(0, 0)
