"""Cards for gangs in line that have no room: what they will get once pods have ended stays
reserved, so that a stream of small pods does not keep them waiting for ever.

For each card model and tree of queues the first gang that waits for it has a shadow
(`tessera_core.shadows.card_claims`). Where it is known when pods end, its cards are those that
suffice first. Where it is not, nothing is reserved until the gang has waited for `starve_s`; then
those are that are thought to come free first, and they stay reserved as they drain.

The line is gone through every second, in slices. A shadow that is still right is left as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from tessera_core.fleet.card_mask import CardMask
from tessera_core.gang_scheduling.attempt import WAITING, KnownBundle
from tessera_core.gang_scheduling.queues import SchedulingQueues
from tessera_core.gang_scheduling.registry import GangBundle
from tessera_core.gang_scheduling.reserved_in_line import GangShadow, ReservedInLine
from tessera_core.gang_scheduling.turns import in_order
from tessera_core.gangs.gang import GangMember
from tessera_core.gangs.quorum import minimum_members
from tessera_core.ledger.ledger import Ledger
from tessera_core.shadows.card_claims import (
    MOST_SHADOWS,
    CardClaims,
    UsableCards,
)
from tessera_core.shadows.expected_ends import PodLifetime
from tessera_core.shadows.overdue_owners import OverdueOwners
from tessera_core.shadows.search import SeatsLaterSearch
from tessera_core.shadows.shadow import Shadow
from tessera_core.slices import Slices

STARVE_S: Final = 600.0
"""Seconds that a gang waits until cards are reserved of which nobody knows when they come free."""
EVERY_S: Final = 1.0
"""Seconds between two rounds through the line."""
AGAIN_S: Final = 30.0
"""Seconds until cards are searched again for a gang that no end of others helps; twice as long each
time."""
MOST_AGAIN_S: Final = 120.0
MOST_VAIN: Final = 16
"""Gangs of a tree that could use the same cards, and that no end of others helps: for those behind
them no cards are searched."""
_BUNDLES_OF_A_SLICE: Final = 16
_LIFETIMES_OF_A_SLICE: Final = 512

SearchLater = Callable[[GangBundle, Sequence[GangMember]], SeatsLaterSearch | str]
"""Begins the search of places in time for these members together; or why they have none at all."""


class _Vain(Struct, frozen=True):
    """A gang that no end of others helps."""

    again: float
    """When cards are searched for it again."""
    after_s: float
    """After how many seconds that is."""
    narrowed: bool
    """Whether it could use more cards than those that nobody had claimed."""


class _Round:
    """One round through the line."""

    def __init__(self, queues: SchedulingQueues | None, now: float, claims: CardClaims) -> None:
        self.queues, self.now = queues, now
        self.claims = claims
        self.shadows: list[GangShadow] = []
        """Of those that came so far, as their claims."""
        self.vain: Counter[tuple[Hashable, CardMask]] = Counter()
        self.behind: dict[str, str] = {}
        """Key of a bundle without a shadow -> whose cards it may not use."""
        self.hopeless: set[Hashable] = set()
        """Tree and kind of gangs that no known end helps."""
        self.running: list[PodLifetime] | None = None


class _CouldUse(Struct, frozen=True):
    """The cards that a bundle could use."""

    bundle: GangBundle
    at: float
    """When that was found."""
    kind: Hashable
    """Of its members (`SeatsLaterSearch.kind`)."""
    cards: CardMask


class LineShadows:
    """Follows the line, and has cards reserved for gangs of it."""

    def __init__(
        self,
        ledger: Ledger,
        later: SearchLater,
        running: Callable[[], Slices[list[PodLifetime]]],
        printed: Callable[[float], str],
        starve_s: float = STARVE_S,
    ) -> None:
        """`running` gives the pods that have cards, and when they started; `printed` a time as
        messages have it."""
        self._overdue = OverdueOwners()
        self.reserved = ReservedInLine(ledger, self._overdue)
        """The shadows that there are."""
        self._ledger = ledger
        self._later = later
        self._running = running
        self._printed = printed
        self._starve_s = starve_s
        self._round: Slices[None] | None = None
        self._there: set[int] = set()
        """Bundles that wait, by identity."""
        self._usable = UsableCards(ledger.fleet)
        self._usable_by: dict[str, _CouldUse] = {}
        """By key of the bundle."""
        self._vain: dict[str, _Vain] = {}
        """By key of the bundle."""
        self._behind: dict[str, str] = {}
        self._next = 0.0

    def about(self, known: KnownBundle) -> str:
        """What a bundle that waits has to know: of its shadow, or of those of others; empty for
        nothing."""
        return self.reserved.about(known) or self._behind.get(known.bundle.key, "")

    def step(
        self,
        bundles: Iterable[KnownBundle],
        queues: SchedulingQueues | None,
        now: float,
        steps: int,
    ) -> bool:
        """Go on for so many fits; whether there is more to do. `bundles` are all that there are."""
        waiting = [known for known in bundles if known.attempt.phase in WAITING]
        self._there = {id(known) for known in waiting}
        if self.reserved.retain(waiting):
            self._line_moved()
        if self._round is None and now >= self._next:
            self._next = now + EVERY_S
            self._round = self._begin(waiting, _Round(queues, now, CardClaims(self._ledger.fleet)))
        if self._round is None:
            return False
        try:
            for _ in range(steps):
                next(self._round)
        except StopIteration:
            self._round = None
        return True

    def short_of_room(self, known: KnownBundle) -> None:
        """A gang has just found no room: if no round has met it as it is, one begins now."""
        seen = self._usable_by.get(known.bundle.key)
        if seen is None or seen.bundle is not known.bundle:
            self._next = 0.0

    def reset(self) -> None:
        """Forget the line."""
        self._overdue.forget()
        self._round, self._usable_by, self._vain, self._behind = None, {}, {}, {}
        self._next = 0.0
        self.reserved.retain(())

    def _line_moved(self) -> None:
        """Cards that were claimed are claimed no more: there may be some for those behind."""
        self._vain = {key: each for key, each in self._vain.items() if not each.narrowed}
        self._next = 0.0

    # -- a round

    def _begin(self, waiting: Iterable[KnownBundle], round_: _Round) -> Slices[None] | None:
        """None where no gang is short of room."""
        short = [
            known for known in waiting
            if known.attempt.searched_at >= 0 and known.bundle.requests_cards
            and not known.bundle.lacks
        ]  # fmt: skip
        if short:
            return self._go_through(in_order(short, round_.queues, round_.now), round_)
        self.reserved.retain(())
        return None

    def _go_through(self, line: Sequence[KnownBundle], round_: _Round) -> Slices[None]:
        for number, known in enumerate(line, 1):
            yield from self._visit(known, round_)
            if not number % _BUNDLES_OF_A_SLICE:
                yield
        keys = {known.bundle.key for known in line}
        self._vain = {key: each for key, each in self._vain.items() if key in keys}
        self._usable_by = {key: each for key, each in self._usable_by.items() if key in keys}
        self._behind = round_.behind
        if self.reserved.retain(each.known for each in round_.shadows):
            self._line_moved()
        while round_.running:  # 50,000 at once take 50 ms
            del round_.running[-_LIFETIMES_OF_A_SLICE:]
            yield

    def _visit(self, known: KnownBundle, round_: _Round) -> Slices[None]:
        members, now = _least(known.bundle), round_.now
        usable = yield from self._could_use(known.bundle, members, now)
        if usable is None:
            return
        place = None if round_.queues is None else round_.queues.place(known.bundle)
        tree = None if place is None else place[0]
        mine = self.reserved.of(known)
        if mine is None or not self._stands(mine, members, tree, round_):
            mine = yield from self._new_shadow(known, members, tree, usable, round_)
        if mine is None:
            round_.behind[known.bundle.key] = self._note(known, usable.cards, round_)
            return
        round_.claims.add(tree, usable.cards, mine.shadow.cards)
        round_.shadows.append(mine)
        yield

    def _note(self, known: KnownBundle, usable: CardMask, round_: _Round) -> str:
        """Whose cards a bundle without a shadow could use and may not; empty for nobody's."""
        met = [round_.shadows[at] for at in round_.claims.met(usable)]
        lasts = self.reserved.lasts_s(known, round_.now) if met else None
        barring = [each for each in met if not each.shadow.lets_pass(lasts, round_.now)]
        if not barring:
            return ""
        first, more = barring[0], len(barring) - 1
        note = first.shadow.note(first.known.bundle.name_for(known.bundle))
        return f"; {note}" + (f", and others for {more} more" if more else "")

    def _could_use(
        self, bundle: GangBundle, members: Sequence[GangMember], now: float
    ) -> Slices[_CouldUse | None]:
        """None for members that have no places at all."""
        known = self._usable_by.get(bundle.key)
        fresh = known is not None and self._usable.is_fresh(known.at, known.cards, now)
        if known is not None and known.bundle is bundle and fresh:
            return known
        search = self._later(bundle, members) if members else ""
        if isinstance(search, str):
            return None
        kind = yield from search.kind()
        cards = yield from self._usable.of(kind, search, now)
        found = self._usable_by[bundle.key] = _CouldUse(bundle, now, kind, cards)
        return found

    def _stands(
        self, mine: GangShadow, members: Sequence[GangMember], tree: Hashable, round_: _Round
    ) -> bool:
        stands = self.reserved.stands(mine, members, round_.now)
        return stands and not round_.claims.take(tree, mine.shadow.cards)

    def _new_shadow(
        self,
        known: KnownBundle,
        members: Sequence[GangMember],
        tree: Hashable,
        usable: _CouldUse,
        round_: _Round,
    ) -> Slices[GangShadow | None]:
        """A shadow of cards that nobody has claimed; None where there is none."""
        key, now, group = known.bundle.key, round_.now, (tree, usable.cards)
        if len(round_.shadows) >= MOST_SHADOWS or not round_.claims.leaves(*group):
            return None
        vain = self._vain.get(key)
        if (vain is not None and now < vain.again) or round_.vain[group] >= MOST_VAIN:
            round_.vain[group] += 1
            return None
        queues = round_.queues
        capped = "" if queues is None else queues.problem(known.bundle, members)
        search = capped or self._later(known.bundle, members)
        if isinstance(search, str):
            return None
        shadow = yield from self._search(known, search, tree, usable, round_)
        if id(known) not in self._there:
            return None
        if shadow is None:
            round_.vain[group] += 1
            self._vain[key] = self._in_vain(known, now, narrowed=round_.claims.narrows(*group))
            return None
        self._vain.pop(key, None)
        if shadow.at is not None and shadow.at <= now:
            known.attempt.hurry(now)  # it starts before the cards are needed by others
        return self.reserved.put(known, shadow, now)

    def _search(
        self,
        known: KnownBundle,
        search: SeatsLaterSearch,
        tree: Hashable,
        usable: _CouldUse,
        round_: _Round,
    ) -> Slices[Shadow | None]:
        if round_.running is None:
            round_.running = yield from self._running()
            yield from self._overdue.observe(round_.running, round_.now)
        now, closed = round_.now, partial(round_.claims.closed, tree)
        earliest = partial(search.earliest, round_.running, now, usable=usable.cards, closed=closed)
        kind = tree, usable.kind
        found = None if kind in round_.hopeless else (yield from earliest())
        at = None if found is None else found.at
        if found is None:
            round_.hopeless.add(kind)
            if now >= known.attempt.waits_since + self._starve_s:
                found = yield from earliest(thought=True)
        if found is None:
            return None
        return Shadow(
            of=f"gang {known.bundle.name}", key=known.bundle.key, seats=found.seats, at=at,
            priority=known.bundle.priority,
            until="" if at is None else self._printed(at),
        )  # fmt: skip

    def _in_vain(self, known: KnownBundle, now: float, *, narrowed: bool) -> _Vain:
        before = self._vain.get(known.bundle.key)
        again_s = AGAIN_S if before is None else min(2 * before.after_s, MOST_AGAIN_S)
        left_s = known.attempt.waits_since + self._starve_s - now
        wait_s = min(again_s, left_s) if left_s > 0 else again_s
        return _Vain(now + wait_s, again_s, narrowed)


def _least(bundle: GangBundle) -> list[GangMember]:
    """The members that have to start together at least."""
    chosen = [member for members in bundle.gangs for member in minimum_members(members)]
    return [member for member in chosen if not member.pod.spec.node_name]
