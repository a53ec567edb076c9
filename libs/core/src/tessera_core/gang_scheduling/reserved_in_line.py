"""The shadows of gangs in line as they stand: which cards are reserved for which gang, and who may
use them before.

Cards of two shadows are different ones, and a gang may use those of every gang that comes behind
it. So the first in line is held up by nobody, and no two gangs wait for each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from msgspec import Struct

from tessera_core.fleet.closed_cards import takes_nobody
from tessera_core.fleet.shadow_cards import ShadowCards
from tessera_core.gang_scheduling.attempt import KnownBundle
from tessera_core.gang_scheduling.queues import SchedulingQueues
from tessera_core.gang_scheduling.turns import in_order
from tessera_core.gangs.gang import GangMember
from tessera_core.ledger.ledger import Ledger
from tessera_core.shadows.expected_ends import all_last_s, lasts_s
from tessera_core.shadows.overdue_owners import OverdueOwners
from tessera_core.shadows.shadow import Shadow
from tessera_schema.kube import Pod

NEWCOMERS_S: Final = 60.0
"""Seconds after which cards are searched again for a gang to whose cards others have come: they
were before it, and may be there for longer than those that were expected to end."""


class GangShadow(Struct, frozen=True):
    """The shadow of a bundle that waits."""

    known: KnownBundle
    shadow: Shadow
    there: frozenset[str]
    """Uids of pods that were on its cards when they were chosen."""
    since: float
    """When that was."""


class ReservedInLine:
    """Reserves cards in the ledger, and says who may use them."""

    def __init__(self, ledger: Ledger, overdue: OverdueOwners) -> None:
        """Nothing is reserved. The word of `overdue` owners counts for nothing."""
        self._ledger = ledger
        self._overdue = overdue
        self._shadows: dict[str, GangShadow] = {}
        """By key of the bundle."""
        self._opened = False

    # -- who may use the cards

    def passes(self, pod: Pod, now: float) -> frozenset[str]:
        """Keys of the shadows whose cards a pod that goes alone may use: it has a higher priority,
        or has ended before they are needed."""
        if not self._shadows:
            return frozenset()
        lasts = None if self._overdue.any_of((pod,), now) else lasts_s(pod)
        priority = pod.spec.priority or 0
        return frozenset(
            key for key, each in self._shadows.items()
            if priority > each.shadow.priority or each.shadow.lets_pass(lasts, now)
        )  # fmt: skip

    def opened_for(
        self, known: KnownBundle, queues: SchedulingQueues | None, now: float
    ) -> frozenset[str]:
        """The same for the members of a bundle: its own cards, those of bundles that come behind
        it, and those of which all members have ended before they are needed."""
        if not self._shadows:
            return frozenset()
        line = {id(each): each for each in (known, *(one.known for one in self._shadows.values()))}
        order = [id(each) for each in in_order(line.values(), queues, now)]
        before, lasts = set(order[: order.index(id(known))]), self.lasts_s(known, now)
        return frozenset(
            key for key, each in self._shadows.items()
            if id(each.known) not in before or each.shadow.lets_pass(lasts, now)
        )  # fmt: skip

    def lasts_s(self, known: KnownBundle, now: float) -> float | None:
        """Seconds from the bundle's start until all its members have ended, where that is known and
        believed."""
        pods = [each.pod for each in known.bundle.waiting]
        return None if self._overdue.any_of(pods, now) else all_last_s(pods)

    def key_of(self, uid: str) -> str:
        """Key of the shadow that a member is in; empty for one that is in none."""
        return next((k for k, each in self._shadows.items() if uid in each.shadow.seats), "")

    def about(self, known: KnownBundle) -> str:
        """What a bundle that waits has to know of its shadow; empty where it has none."""
        mine = self.of(known)
        if mine is None:
            return ""
        count = sum(map(len, mine.shadow.cards.values()))
        said = "1 card is" if count == 1 else f"{count} cards are"
        when = (
            f"it is expected to start at {mine.shadow.until}" if mine.shadow.at is not None
            else "nobody says when the pods on them end"
        )  # fmt: skip
        return f"; {said} reserved for it, {when}"

    def expected_starts(self) -> dict[str, float]:
        """Gang's id -> when it is expected to start, where that is known."""
        return {
            gang_id: each.shadow.at
            for each in self._shadows.values() if each.shadow.at is not None
            for gang_id in each.known.attempt.ids
        }  # fmt: skip

    # -- the shadows

    def all(self) -> tuple[GangShadow, ...]:
        """Those that there are."""
        return tuple(self._shadows.values())

    def of(self, known: KnownBundle) -> GangShadow | None:
        """That of a bundle; None for one that has none."""
        mine = self._shadows.get(known.bundle.key)
        return mine if mine is not None and mine.known is known else None

    def put(self, known: KnownBundle, shadow: Shadow, now: float) -> GangShadow:
        """Its cards are reserved for the bundle. Shadows that have some of them are dropped: they
        are those of bundles behind it."""
        mine = GangShadow(known, shadow, frozenset(self._pods_on(shadow)), now)
        others = {
            key: each for key, each in self._shadows.items()
            if key != known.bundle.key and not _overlap(each.shadow, shadow)
        }  # fmt: skip
        self._set({**others, known.bundle.key: mine})
        return mine

    def retain(self, known: Iterable[KnownBundle]) -> bool:
        """Only those of these bundles stay; whether one was dropped."""
        these = {id(each) for each in known}
        left = {key: each for key, each in self._shadows.items() if id(each.known) in these}
        dropped = len(left) < len(self._shadows)
        if dropped:
            self._set(left)
        return dropped

    def has_opened(self) -> bool:
        """Whether cards that were reserved are open since this was asked last, so that pods have to
        be tried again."""
        opened, self._opened = self._opened, False
        return opened

    def _set(self, shadows: dict[str, GangShadow]) -> None:
        before, after = _cards(self._shadows.values()), _cards(shadows.values())
        self._opened |= not before <= after
        self._shadows = shadows
        reserved = (
            ShadowCards(key, shadows[key].shadow.cards, shadows[key].shadow.hinders())
            for key in sorted(shadows)
        )
        self._ledger.set_reserved(tuple(reserved))

    # -- whether the cards are still the right ones

    def stands(self, mine: GangShadow, members: Collection[GangMember], now: float) -> bool:
        """Whether it is that of these members, its cards can be used, its time has not come, and no
        other pods have come to the cards. Where the time is known those that have come may end in
        time: they count after `NEWCOMERS_S`."""
        shadow = mine.shadow
        if shadow.seats.keys() != {member.pod.metadata.uid for member in members}:
            return False
        if not all(map(self._usable, shadow.cards.items())):
            return False
        if shadow.at is not None and now < min(shadow.at, mine.since + NEWCOMERS_S):
            return True
        expected = shadow.at is None or now < shadow.at
        return expected and mine.there.issuperset(self._pods_on(shadow))

    def _usable(self, on: tuple[str, frozenset[str]]) -> bool:
        fleet, (node, ids) = self._ledger.fleet, on
        row = fleet.rows.get(node)
        if row is None or fleet.blocked[row]:
            return False
        places = [fleet.locate(node, each) for each in ids]
        return all(
            place is not None and not takes_nobody(int(fleet.cards.blocked[place]))
            for place in places
        )

    def _pods_on(self, shadow: Shadow) -> Iterator[str]:
        """Uids of pods that hold parts of its cards."""
        return (
            entry.grant.uid
            for node, ids in shadow.cards.items()
            for entry in self._ledger.on(node)
            if not ids.isdisjoint(entry.charges)
        )


def _cards(shadows: Iterable[GangShadow]) -> set[tuple[str, str]]:
    return {
        (node, card)
        for each in shadows
        for node, ids in each.shadow.cards.items()
        for card in ids
    }  # fmt: skip


def _overlap(one: Shadow, other: Shadow) -> bool:
    cards = other.cards
    return any(not ids.isdisjoint(cards.get(node, ())) for node, ids in one.cards.items())
