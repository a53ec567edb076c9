"""Plans pods and gangs behind the first one that has no room now: what it will get stays reserved,
and others pass only where they do not delay it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, contextmanager

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.admission.admit import AdmittedPod
from tessera_core.gang_planner.planner import GangPlanner
from tessera_core.gangs.reservation import GangReservation, GangUnschedulable
from tessera_core.gangs.scratch import MemberRequest, ScratchCluster
from tessera_core.planner import Planner
from tessera_core.shadows.expected_ends import PodLifetime, all_last_s, lasts_s
from tessera_core.shadows.search import SeatsLaterSearch
from tessera_core.shadows.shadow import Shadow
from tessera_core.slices import at_once
from tessera_schema.kube import Pod
from tessera_schema.verdicts import PlanOutcome, Verdict


class _Waits(Struct, frozen=True):
    """Who has no room now."""

    of: str
    key: str
    members: tuple[MemberRequest, ...]
    domains: Sequence[Set[str]] | None = None

    @property
    def shape(self) -> tuple[bytes, ...]:
        return tuple(sorted(member.shape for member in self.members))

    @property
    def priority(self) -> int:
        return max(member.pod.spec.priority or 0 for member in self.members)


class ShadowPlanner:
    """Plans with a planner's cluster. One shadow is made: for the first that waits for room and
    gets it once pods have ended of which it is known when they do."""

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
        self.shadow: Shadow | None = None
        self._planner = planner
        self._gangs = gangs
        self._now = now
        self._printed = printed
        self._running = list(running)
        self._hopeless: set[tuple[bytes, ...]] = set()
        """Shapes of which it is known that no end helps them."""

    def plan(self, pod: Pod, now_ns: int) -> dict[str, PlanOutcome]:
        """The answers, by uid, for the pod and for those that start together with it."""
        together = self._together(pod)
        passes = self._passes(together)
        with self._opened(opened=passes):
            found = self._gangs.plan(pod, now_ns)
            alone = {pod.metadata.uid: self._planner.plan(pod, now_ns)} if found is None else {}
            outcomes = {**(found or {}), **alone}
            self._runs(*outcomes.values())
        own = outcomes.get(pod.metadata.uid)
        waits = None if own is None or passes else self._waits(own)
        note = "" if waits is None else self._note(waits)
        return outcomes if not note else self._noted(outcomes, note)

    def grow(self, now_ns: int) -> PlanOutcome | None:
        """The answer for the next member beyond the minimum of its gang, once no other gang waits
        for its own; None where no such pod waits for its turn."""
        pod = self._gangs.growth.take_next()
        if pod is None:
            return None
        with self._opened(opened=self._passes([pod])):
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

    def _passes(self, pods: Sequence[Pod]) -> bool:
        shadow = self.shadow
        if shadow is None:
            return False
        before = max(pod.spec.priority or 0 for pod in pods) > shadow.priority
        return before or shadow.lets_pass(all_last_s(pods), self._now)

    def opened_for(self, pod: Pod) -> AbstractContextManager[None]:
        """Meanwhile the cards are open, if they are for the pod or it passes."""
        together = self._together(pod)
        seats = {} if self.shadow is None else self.shadow.seats
        mine = any(each.metadata.uid in seats for each in together)
        return self._opened(opened=mine or self._passes(together))

    @contextmanager
    def _opened(self, *, opened: bool) -> Iterator[None]:
        ledger = self._planner.ledger
        before, note = ledger.fleet.reserved, ledger.fleet.reserved_note
        if opened:
            ledger.set_reserved({}, "")
        try:
            yield
        finally:
            ledger.set_reserved(before, note)

    def _waits(self, outcome: PlanOutcome) -> _Waits | None:
        """Who waits for room; None for one that waits for something else, or does not wait."""
        pod = outcome.pod
        if outcome.verdict is not Verdict.WAITING:
            return None
        gang = self._gangs.catalog.of_pod.get(pod.metadata.uid)
        if gang is not None and self._gangs.catalog.gangs[gang].gang.together:
            short = self._gangs.short_of_room.get(gang)
            if short is None or short.over:
                return None
            name = ", ".join(self._gangs.catalog.gangs[each].gang.key for each in short.gangs)
            return _Waits(f"gang {name}", min(short.gangs), short.members, short.domains)
        admission = self._planner.admitted(pod)
        if not isinstance(admission, AdmittedPod) or not admission.request.containers:
            return None
        return _Waits(f"pod {pod.name}", pod.metadata.uid, (MemberRequest(pod, admission.request),))

    def _note(self, waits: _Waits) -> str:
        if self.shadow is not None:
            return self.shadow.hinders() if self._fits_opened(waits) else ""
        if waits.shape in self._hopeless:
            return ""
        search = SeatsLaterSearch(
            self._planner.ledger, self._planner.filters, waits.members, waits.domains
        )
        found = at_once(search.earliest(self._running, self._now))
        if found is None:
            self._hopeless.add(waits.shape)
            return ""
        self.shadow = Shadow(
            of=waits.of, key=waits.key, priority=waits.priority, seats=found.seats, at=found.at,
            until=self._printed(found.at),
        )  # fmt: skip
        self._planner.ledger.set_reserved(self.shadow.cards, self.shadow.hinders())
        count = sum(map(len, self.shadow.cards.values()))
        said = "1 card is" if count == 1 else f"{count} cards are"
        return f"fits in {found.at - self._now:.0f} s: {said} reserved for it until then"

    def _fits_opened(self, waits: _Waits) -> bool:
        """Whether there would be room now but for the shadow."""
        ledger, filters = self._planner.ledger, self._planner.filters
        scratch = ScratchCluster(ledger, filters, opened=True)
        search = GangReservation(
            ledger, filters, waits.members, domains=waits.domains, scratch=scratch
        )
        return not isinstance(at_once(search.seats_in_slices()), GangUnschedulable)

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
