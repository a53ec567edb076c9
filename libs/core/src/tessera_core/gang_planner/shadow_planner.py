"""Plans pods and gangs behind those that have no room now: what the first one for each card model
and tree of queues will get stays reserved (`tessera_core.shadows.card_claims`), and others pass
only where they do not delay it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.admission.admit import AdmittedPod
from tessera_core.fleet.shadow_cards import ShadowCards
from tessera_core.gang_planner.planner import GangPlanner
from tessera_core.gangs.queue_usage import QueueOfKind
from tessera_core.gangs.reservation import GangReservation, GangUnschedulable, Seats
from tessera_core.gangs.scratch import MemberRequest, ScratchCluster
from tessera_core.planner import Planner
from tessera_core.shadows.card_claims import MOST_SHADOWS, CardClaims, UsableCards
from tessera_core.shadows.expected_ends import PodLifetime, all_last_s, lasts_s
from tessera_core.shadows.search import SeatsLaterSearch
from tessera_core.shadows.shadow import Shadow, cards_of
from tessera_core.slices import at_once
from tessera_schema.kube import Pod
from tessera_schema.verdicts import PlanOutcome, Verdict


class _Waits(Struct, frozen=True):
    """Who has no room now."""

    of: str
    key: str
    tree: Hashable
    members: tuple[MemberRequest, ...]
    domains: Sequence[Set[str]] | None = None

    @property
    def shape(self) -> Hashable:
        return self.tree, tuple(sorted(member.shape for member in self.members))

    @property
    def priority(self) -> int:
        return max(member.pod.spec.priority or 0 for member in self.members)


class ShadowPlanner:
    """Plans with a planner's cluster. A shadow is made for one that waits for room and gets it once
    pods have ended of which it is known when they do, of cards that no one before it has
    claimed."""

    def __init__(
        self,
        planner: Planner,
        gangs: GangPlanner,
        running: Iterable[PodLifetime],
        now: float,
        printed: Callable[[float], str],
    ) -> None:
        """`gangs` plan with the same planner. `now` is in seconds, as the times of `running`;
        `printed` gives a time as messages have it."""
        self.shadows: list[Shadow] = []
        """In the order in which they were made."""
        self._planner = planner
        self._gangs = gangs
        self._now = now
        self._printed = printed
        self._running = list(running)
        self._claims = CardClaims(planner.ledger.fleet)
        self._usable = UsableCards(planner.ledger.fleet)
        self._hopeless: set[Hashable] = set()
        """Shapes of which it is known that no end helps them."""

    def plan(self, pod: Pod, now_ns: int) -> dict[str, PlanOutcome]:
        """The answers, by uid, for the pod and for those that start together with it."""
        with self._opened(self._passed(self._together(pod))):
            found = self._gangs.plan(pod, now_ns)
            alone = {pod.metadata.uid: self._planner.plan(pod, now_ns)} if found is None else {}
            outcomes = {**(found or {}), **alone}
            self._runs(*outcomes.values())
        own = outcomes.get(pod.metadata.uid)
        waits = None if own is None else self._waits(own)
        note = "" if waits is None else self._note(waits)
        return outcomes if not note else self._noted(outcomes, note)

    def grow(self, now_ns: int) -> PlanOutcome | None:
        """The answer for the next member beyond the minimum of its gang, once no other gang waits
        for its own; None where no such pod waits for its turn."""
        pod = self._gangs.growth.take_next()
        if pod is None:
            return None
        with self._opened(self._passed([pod])):
            outcome = self._gangs.grow(pod, now_ns)
        self._runs(outcome)
        return outcome

    def _runs(self, *outcomes: PlanOutcome) -> None:
        placed = [each.pod for each in outcomes if each.verdict is Verdict.PLACED]
        self._running += [PodLifetime(each, self._now, lasts_s(each)) for each in placed]

    def _together(self, pod: Pod) -> list[Pod]:
        gang = self._gangs.catalog.of_pod.get(pod.metadata.uid)
        if gang is None:
            return [pod]
        bundle = self._gangs.catalog.bundle(self._gangs.catalog.gangs[gang].gang)
        found = (each.waiting for each in bundle if not isinstance(each, str))
        return [member.pod for waiting in found for member in waiting] or [pod]

    def _passed(self, pods: Sequence[Pod]) -> frozenset[str]:
        """Keys of the shadows whose cards pods that start together may use."""
        priority, lasts = max(pod.spec.priority or 0 for pod in pods), all_last_s(pods)
        return frozenset(
            each.key for each in self.shadows
            if priority > each.priority or each.lets_pass(lasts, self._now)
        )  # fmt: skip

    def opened_for(self, pod: Pod) -> AbstractContextManager[None]:
        """Meanwhile the cards are open that are for the pod, or that it passes."""
        together = self._together(pod)
        uids = {each.metadata.uid for each in together}
        mine = {each.key for each in self.shadows if not uids.isdisjoint(each.seats)}
        return self._opened(self._passed(together) | mine)

    @contextmanager
    def _opened(self, keys: Set[str]) -> Iterator[None]:
        ledger = self._planner.ledger
        before = ledger.fleet.reserved
        ledger.set_reserved(tuple(each for each in before if each.key not in keys))
        try:
            yield
        finally:
            ledger.set_reserved(before)

    def _waits(self, outcome: PlanOutcome) -> _Waits | None:
        """Who waits for room; None for one that waits for something else, or does not wait."""
        pod = outcome.pod
        if outcome.verdict is not Verdict.WAITING:
            return None
        gang_id = self._gangs.catalog.of_pod.get(pod.metadata.uid)
        gang = None if gang_id is None else self._gangs.catalog.gangs[gang_id].gang
        if gang_id is not None and gang is not None and (gang.together or gang.problem):
            short = self._gangs.short_of_room.get(gang_id)
            if short is None or short.over:
                return None
            name = ", ".join(self._gangs.catalog.gangs[each].gang.key for each in short.gangs)
            place = self._gangs.queues.of_gang(self._gangs.catalog.gangs[short.gangs[0]].gang)
            key, tree = min(short.gangs), self._tree(place)
            return _Waits(f"gang {name}", key, tree, short.members, short.domains)
        admission = self._planner.admitted(pod)
        if not isinstance(admission, AdmittedPod) or not admission.request.containers:
            return None
        tree = self._tree(self._gangs.queues.of_pod(pod))
        members = (MemberRequest(pod, admission.request),)
        return _Waits(f"pod {pod.name}", pod.metadata.uid, tree, members)

    def _tree(self, place: QueueOfKind | None) -> Hashable:
        """The tree of a queue; None for one that nobody described."""
        return place[0] if place is not None and self._gangs.queues.known(place[0]) else None

    def _note(self, waits: _Waits) -> str:
        """Whose shadow it waits for, and what is reserved for it; empty for nothing."""
        return "; ".join(filter(None, (self._delayed(waits), self._made(waits))))

    def _delayed(self, waits: _Waits) -> str:
        """Which of the others it would delay if it had room now."""
        passed = self._passed([member.pod for member in waits.members])
        others = [each for each in self.shadows if each.key not in passed]
        if not others:
            return ""
        seats = self._seats_now(waits)
        cards = {} if seats is None else cards_of(seats)
        delayed = (
            each.hinders() for each in others
            if any(not ids.isdisjoint(each.cards.get(node, ())) for node, ids in cards.items())
        )  # fmt: skip
        return "; ".join(delayed)

    def _seats_now(self, waits: _Waits) -> Seats | None:
        """Places that it would have but for the shadows."""
        ledger, filters = self._planner.ledger, self._planner.filters
        scratch = ScratchCluster(ledger, filters, opened=None)
        search = GangReservation(
            ledger, filters, waits.members, domains=waits.domains, scratch=scratch
        )
        found = at_once(search.seats_in_slices())
        return None if isinstance(found, GangUnschedulable) else found

    def _made(self, waits: _Waits) -> str:
        """What is reserved for it from now on; empty for nothing."""
        if waits.shape in self._hopeless or len(self.shadows) >= MOST_SHADOWS:
            return ""
        planner, claims = self._planner, self._claims
        search = SeatsLaterSearch(planner.ledger, planner.filters, waits.members, waits.domains)
        usable = at_once(self._usable.of(at_once(search.kind()), search, self._now))
        if not claims.leaves(waits.tree, usable):
            return ""
        closed = partial(claims.closed, waits.tree)
        found = at_once(search.earliest(self._running, self._now, usable=usable, closed=closed))
        if found is None or found.at <= self._now:  # it waits for something else than pods to end
            self._hopeless.add(waits.shape)
            return ""
        shadow = Shadow(
            of=waits.of, key=waits.key, priority=waits.priority, seats=found.seats, at=found.at,
            until=self._printed(found.at),
        )  # fmt: skip
        claims.add(waits.tree, usable, shadow.cards)
        self.shadows.append(shadow)
        reserved = (ShadowCards(e.key, e.cards, e.hinders()) for e in self.shadows)
        planner.ledger.set_reserved(tuple(reserved))
        count = sum(map(len, shadow.cards.values()))
        said = "1 card is" if count == 1 else f"{count} cards are"
        return f"fits in {found.at - self._now:.0f} s: {said} reserved for it until then"

    def _noted(self, outcomes: dict[str, PlanOutcome], note: str) -> dict[str, PlanOutcome]:
        said = {
            uid: replace(each, message=f"{each.message}; {note}")
            if each.verdict is Verdict.WAITING else each
            for uid, each in outcomes.items()
        }  # fmt: skip
        of_pod = self._gangs.catalog.of_pod
        for gang in {of_pod[uid] for uid in outcomes if uid in of_pod}:
            outcome = self._gangs.outcomes.get(gang)
            if outcome is not None:
                message = f"{outcome.message}; {note}"
                self._gangs.outcomes[gang] = replace(outcome, message=message)
        return said
