"""Cards for the first gang in line that has no room: what it will get once pods have ended stays
reserved, so that a stream of small pods does not keep it waiting for ever.

Where it is known when pods end, the cards are those that suffice first. Where it is not, nothing is
reserved until the gang has waited for `starve_s`; then those are that are thought to come free
first, and they stay reserved as they drain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tessera_core.fleet.closed_cards import takes_nobody
from tessera_core.gang_scheduling.attempt import WAITING, KnownBundle
from tessera_core.gang_scheduling.queues import SchedulingQueues
from tessera_core.gang_scheduling.registry import GangBundle
from tessera_core.gang_scheduling.turns import in_order
from tessera_core.gangs.gang import GangMember
from tessera_core.gangs.quorum import minimum_members
from tessera_core.ledger.ledger import Ledger
from tessera_core.shadows.expected_ends import PodLifetime, all_last_s, lasts_s
from tessera_core.shadows.overdue_owners import OverdueOwners
from tessera_core.shadows.search import SeatsLaterSearch
from tessera_core.shadows.shadow import Shadow
from tessera_core.slices import Slices
from tessera_schema.kube import Pod

STARVE_S: Final = 600.0
"""Seconds that a gang waits until cards are reserved of which nobody knows when they come free."""
EVERY_S: Final = 1.0
"""Seconds between two looks at the line."""
AGAIN_S: Final = 30.0
"""Seconds until cards are searched again for a gang that no end of others helps; twice as long each
time."""
MOST_AGAIN_S: Final = 120.0
MOST_GANGS: Final = 16
"""Gangs of the line for which cards are searched: one after another, until some are found."""

SearchLater = Callable[[GangBundle, Sequence[GangMember]], SeatsLaterSearch | str]
"""Begins the search of places in time for these members together; or why they have none at all."""


class LineHead:
    """Follows the line, and reserves cards in the ledger for one gang of it."""

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
        self.shadow: Shadow | None = None
        """What the gang will get."""
        self._ledger = ledger
        self._later = later
        self._running = running
        self._printed = printed
        self._starve_s = starve_s
        self._head: KnownBundle | None = None
        self._there: frozenset[str] = frozenset()
        """Uids of pods that were on its cards when they were chosen."""
        self._search: tuple[KnownBundle, Slices[Shadow | None]] | None = None
        self._hopeless: dict[str, tuple[float, float]] = {}
        """Bundle's key -> when cards are searched for it again, and after how many seconds."""
        self._overdue = OverdueOwners()
        self._next = 0.0
        self._opened = False

    # -- who may use the cards

    def lets_pod_pass(self, pod: Pod, now: float) -> bool:
        """Whether a pod that goes alone may use the cards: it has a higher priority, or has ended
        before they are needed; the word of an owner whose pods were late counts for nothing."""
        shadow = self.shadow
        if shadow is None:
            return False
        before = (pod.spec.priority or 0) > shadow.priority
        lasts = None if self._overdue.any_of((pod,), now) else lasts_s(pod)
        return before or shadow.lets_pass(lasts, now)

    def bars(self, known: KnownBundle, queues: SchedulingQueues | None, now: float) -> str:
        """Why the members of a bundle may not use the cards; empty where they may: the cards are
        for it, it comes before, or it has ended by then."""
        shadow, head = self.shadow, self._head
        if shadow is None or head is None or known is head:
            return ""
        pods = [each.pod for each in known.bundle.waiting]
        before = in_order((known, head), queues, now)[0] is known
        lasts = None if self._overdue.any_of(pods, now) else all_last_s(pods)
        if before or shadow.lets_pass(lasts, now):
            return ""
        return shadow.note(head.bundle.name_for(known.bundle))

    def about(self, known: KnownBundle) -> str:
        """What a bundle that waits has to know of it; empty for nothing."""
        shadow = self.shadow
        if shadow is None or known is not self._head:
            return ""
        count = sum(map(len, shadow.cards.values()))
        said = "1 card is" if count == 1 else f"{count} cards are"
        when = (
            f"it is expected to start at {shadow.until}" if shadow.at is not None
            else "nobody says when the pods on them end"
        )  # fmt: skip
        return f"; {said} reserved for it, {when}"

    def expected_starts(self) -> dict[str, float]:
        """Gang's id -> when it is expected to start, where that is known."""
        shadow, head = self.shadow, self._head
        if shadow is None or shadow.at is None or head is None:
            return {}
        return dict.fromkeys(head.attempt.ids, shadow.at)

    # -- the line

    def step(
        self,
        bundles: Iterable[KnownBundle],
        queues: SchedulingQueues | None,
        now: float,
        steps: int,
    ) -> bool:
        """Go on for so many fits; whether there is more to do. `bundles` are all that there are."""
        there = {id(known): known for known in bundles}
        self._forget_others(there)
        if self._search is None and now >= self._next:
            self._next = now + EVERY_S
            self._search = self._begin(there.values(), queues, now)
        if self._search is None:
            return False
        known, search = self._search
        try:
            for _ in range(steps):
                next(search)
        except StopIteration as end:
            self._search = None
            self._take(known, end.value, now)
        return True

    def _forget_others(self, there: dict[int, KnownBundle]) -> None:
        """Bundles that wait no more, or are gone."""
        if self._head is not None and not _waits(self._head, there):
            self.drop()
        if self._search is not None and not _waits(self._search[0], there):
            self._search = None
        if len(self._hopeless) > len(there):
            keys = {known.bundle.key for known in there.values()}
            self._hopeless = {key: at for key, at in self._hopeless.items() if key in keys}

    def short_of_room(self) -> None:
        """A gang has just found no room: where nothing is reserved, the line is looked at now."""
        if self._head is None:
            self._next = 0.0

    def has_opened(self) -> bool:
        """Whether cards that were reserved are open since this was asked last, so that pods have to
        be tried again."""
        opened, self._opened = self._opened, False
        return opened

    def drop(self) -> None:
        """Nothing is reserved any more."""
        self._opened |= self.shadow is not None
        self.shadow, self._head = None, None
        self._next = 0.0
        self._ledger.set_reserved({}, "")

    def reset(self) -> None:
        """Forget the line."""
        self._overdue.forget()
        self._search, self._hopeless = None, {}
        self.drop()

    def _begin(
        self, bundles: Iterable[KnownBundle], queues: SchedulingQueues | None, now: float
    ) -> tuple[KnownBundle, Slices[Shadow | None]] | None:
        """The search for the first bundle that needs one; None where its cards are reserved, or
        nothing can be."""
        short = [
            known for known in bundles
            if known.attempt.phase in WAITING and known.attempt.searched_at >= 0
            and known.bundle.requests_cards and not known.bundle.lacks
        ]  # fmt: skip
        for known in in_order(short, queues, now)[:MOST_GANGS]:
            members = _least(known.bundle)
            if known is self._head and self._stands(members, now):
                return None
            if self._hopeless.get(known.bundle.key, (0.0, 0.0))[0] > now or not members:
                continue
            capped = "" if queues is None else queues.problem(known.bundle, members)
            search = capped or self._later(known.bundle, members)
            if not isinstance(search, str):
                return known, self._shadow_of(known, search, now)
        return None

    def _shadow_of(
        self, known: KnownBundle, search: SeatsLaterSearch, now: float
    ) -> Slices[Shadow | None]:
        running = yield from self._running()
        self._overdue.observe(running, now)
        found = yield from search.earliest(running, now)
        at = None if found is None else found.at
        if found is None and now >= known.attempt.waits_since + self._starve_s:
            found = yield from search.earliest(running, now, thought=True)
        if found is None:
            return None
        return Shadow(
            of=f"gang {known.bundle.name}", key=known.bundle.key, seats=found.seats, at=at,
            priority=known.bundle.priority,
            until="" if at is None else self._printed(at),
        )  # fmt: skip

    def _take(self, known: KnownBundle, found: Shadow | None, now: float) -> None:
        self._next = 0.0  # the line is looked at again at once
        if found is None:
            key, left_s = known.bundle.key, known.attempt.waits_since + self._starve_s - now
            again_s = min(2 * self._hopeless.get(key, (0.0, AGAIN_S / 2))[1], MOST_AGAIN_S)
            wait_s = min(again_s, left_s) if left_s > 0 else again_s
            self._hopeless[key] = now + wait_s, again_s
            if known is self._head:
                self.drop()
            return
        self._opened |= self.shadow is not None
        self.shadow, self._head = found, known
        self._hopeless.pop(known.bundle.key, None)
        self._there = frozenset(self._pods_on(found))
        self._ledger.set_reserved(found.cards, found.hinders())

    # -- whether the cards are still the right ones

    def _stands(self, members: Sequence[GangMember], now: float) -> bool:
        shadow = self.shadow
        if shadow is None or shadow.seats.keys() != {m.pod.metadata.uid for m in members}:
            return False
        if not all(map(self._usable, shadow.cards.items())):
            return False
        if shadow.at is not None:
            return now < shadow.at
        return self._there.issuperset(self._pods_on(shadow))

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

    def _pods_on(self, shadow: Shadow) -> Iterable[str]:
        """Uids of pods that hold parts of its cards."""
        return (
            entry.grant.uid
            for node, ids in shadow.cards.items()
            for entry in self._ledger.on(node)
            if not ids.isdisjoint(entry.charges)
        )


def _waits(known: KnownBundle, there: dict[int, KnownBundle]) -> bool:
    return id(known) in there and known.attempt.phase in WAITING


def _least(bundle: GangBundle) -> list[GangMember]:
    """The members that have to start together at least."""
    chosen = [member for members in bundle.gangs for member in minimum_members(members)]
    return [member for member in chosen if not member.pod.spec.node_name]
