"""Writes loans and holds into limits files, and reads from there which are in force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from tessera_agent.containers.holdings import Holding
from tessera_agent.containers.hook_files import ContainerFiles
from tessera_agent.containers.loan_renewal import LoanRenewal
from tessera_core.hook.limits_file import CardLimit, Flag, HookLimits, Mode
from tessera_runtime import logs

_log: Final = logs.named("tessera.agent.lending")
_SECOND: Final = 1_000_000_000
_NEVER: Final = 1 << 63
_LEFT: Final = 0.3
"""Part of a loan's time: one that has no more left is renewed."""
_STANDS: Final = 2.2
"""Of a loan's time, for which whatever is written renews it, from the decision about it on; another
one comes sooner."""


class WantedLoans(NamedTuple):
    """What one container is to have."""

    files: ContainerFiles
    loans: Mapping[str, int]
    """Card -> permille; 0 = none."""
    hold: bool


class CurrentLoans:
    """Which containers are lent to or held, and when that is to be renewed."""

    def __init__(self, loan_s: float) -> None:
        self._left_ns = round(loan_s * _SECOND * _LEFT)
        self._to: list[Holding] = []
        self._first_end_ns = 0
        self.to_best_effort = False
        """Whether a best-effort container has a loan."""

    def take(self, running: Iterable[Holding]) -> None:
        """Take in what the files of these have now."""
        self._to = [held for held in running if has_loan_or_hold(held)]
        self._first_end_ns = min((_end_ns(limits_of(held)) for held in self._to), default=_NEVER)
        self.to_best_effort = any(
            card.lent_permille and card.is_rest
            for held in self._to for card in limits_of(held).cards
        )  # fmt: skip

    def ending(self, wall_ns: int) -> list[Holding]:
        """Those whose loan, or hold, is to be renewed. It may have been by now."""
        soon_ns = wall_ns + self._left_ns
        if soon_ns < self._first_end_ns:
            return []
        self.take(self._to)
        return [held for held in self._to if _end_ns(limits_of(held)) <= soon_ns]


class LoanWriter:
    """Writes what differs, and what has to be renewed."""

    def __init__(self, loan_s: float) -> None:
        """A loan, or a hold, ends by itself `loan_s` seconds after it was written."""
        self._loan_ns = round(loan_s * _SECOND)
        self._left_ns = round(loan_s * _SECOND * _LEFT)
        self._stands_ns = round(loan_s * _SECOND * _STANDS)
        self.changes: Counter[str] = Counter(dict.fromkeys(("lent", "taken-back", "failed"), 0))

    def write(self, wanted: Iterable[WantedLoans], wall_ns: int) -> None:
        """Write loans and holds, those that end first."""
        stuck: set[str] = set()
        later = []
        for one in wanted:
            files, loans, _ = one
            until_ns = wall_ns + self._stands_ns if any(loans.values()) else 0
            files.renewal = LoanRenewal(until_ns, self._loan_ns)
            if not self._is_to_write(one, wall_ns):
                continue
            less = {c: n for c, n in loans.items() if n <= _lent(files.limits, c, wall_ns)}
            if not self._write(one._replace(loans=less), wall_ns):
                stuck |= {c for c in loans if _lent(files.limits, c, wall_ns)}
            if len(less) < len(loans):
                later.append(one)
        for one in later:
            more = {c: n for c, n in one.loans.items() if c not in stuck}
            self._write(one._replace(loans=more), wall_ns)

    def _is_to_write(self, wanted: WantedLoans, wall_ns: int) -> bool:
        """Whether the file says otherwise, or what it says has to be renewed."""
        limits, loans, renew_ns = wanted.files.limits, wanted.loans, wall_ns + self._left_ns
        if wanted.hold != limits.holds_launches or (
            wanted.hold and limits.hold_until_ns <= renew_ns
        ):
            return True
        for card in limits.cards:
            loan = loans.get(card.uuid)
            if loan is not None and (
                loan != card.lent_permille or (loan and card.lent_until_ns <= renew_ns)
            ):
                return True
        return False

    def _write(self, wanted: WantedLoans, wall_ns: int) -> bool:
        """Whether the file has them now."""
        if not self._is_to_write(wanted, wall_ns):
            return True
        files, loans, hold = wanted
        before, until_ns = files.limits, wall_ns + self._loan_ns

        def changed(limits: HookLimits) -> HookLimits:
            cards = tuple(
                [_with_loan(card, loans.get(card.uuid), until_ns) for card in limits.cards]
            )
            if hold or limits.holds_launches:
                limits = _with_hold(limits, until_ns if hold else None)
            return replace(limits, cards=cards)

        try:
            self._count(before, files.change(changed), wall_ns)
        except (OSError, ValueError) as e:
            self.changes["failed"] += 1
            _log.warning("loans not written", container=before.container, why=str(e))
            return False
        return True

    def _count(self, before: HookLimits, after: HookLimits, wall_ns: int) -> None:
        for card in after.cards:
            was = _lent(before, card.uuid, wall_ns)
            self.changes["lent"] += card.lent_permille > was
            self.changes["taken-back"] += card.lent_permille < was


def has_loan_or_hold(held: Holding) -> bool:
    """Whether its limits file has a loan or a hold."""
    limits = limits_of(held)
    return limits.holds_launches or any(card.lent_permille for card in limits.cards)


def _end_ns(limits: HookLimits) -> int:
    """When the first of its loans and its hold ends by itself."""
    ends = [card.lent_until_ns for card in limits.cards if card.lent_permille]
    if limits.holds_launches:
        ends.append(limits.hold_until_ns)
    return min(ends, default=_NEVER)


def limits_of(held: Holding) -> HookLimits:
    """As its file has them."""
    return held.files.limits if held.files else held.limits


def lent_permille(limit: CardLimit, wall_ns: int) -> int:
    """The loan in force."""
    if not limit.lent_permille:
        return 0
    elastic = limit.mode is Mode.ELASTIC and wall_ns < limit.lent_until_ns
    return limit.lent_permille if elastic else 0


def waits(limits: HookLimits, wall_ns: int) -> bool:
    """Whether the container's launches wait now."""
    endless = limits.hold_until_ns == 0
    return limits.holds_launches and (endless or wall_ns < limits.hold_until_ns)


def _lent(limits: HookLimits, card: str, wall_ns: int) -> int:
    for limit in limits.cards:
        if limit.uuid == card:
            return lent_permille(limit, wall_ns)
    return 0


def _with_hold(limits: HookLimits, until_ns: int | None) -> HookLimits:
    """None = it is not held."""
    if until_ns is None:
        return replace(limits, flags=limits.flags & ~Flag.HOLD_LAUNCHES, hold_until_ns=0)
    return replace(limits, flags=limits.flags | Flag.HOLD_LAUNCHES, hold_until_ns=until_ns)


def _with_loan(limit: CardLimit, loan: int | None, until_ns: int) -> CardLimit:
    if loan is None:
        return limit
    if not loan:
        return replace(limit, lent_permille=0, lent_until_ns=0)
    return replace(limit, mode=Mode.ELASTIC, lent_permille=loan, lent_until_ns=until_ns)
