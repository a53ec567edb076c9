"""Takes gangs from their first pod to their start (`tessera_core.machines.gang`).

Correctness needs the ledger and the bind barrier alone:

- Cards are taken for all members that start together, in one transaction, or for none.
- No member's bind call goes on before each of them has arrived, or has a node already.

The coordinator does no I/O and has no clock. Its caller follows pods and PodGroups into the
registry, calls `step` often, and does what `effects` says. It keeps nothing that has to outlast it:
pods that have a node are the record, and whatever else is lost is reserved again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tessera_core.gang_scheduling.answers import (
    GangEffects,
    GoesAlone,
    GoesTo,
    MemberAnswer,
    WaitsForGang,
)
from tessera_core.gang_scheduling.attempt import GangAttempt, GangTimings, KnownBundle
from tessera_core.gang_scheduling.gate_openings import gates_to_open
from tessera_core.gang_scheduling.line_shadows import LineShadows
from tessera_core.gang_scheduling.queues import SchedulingQueues
from tessera_core.gang_scheduling.registry import GangBundle, GangRegistry
from tessera_core.gang_scheduling.reservations import MemberReservations
from tessera_core.gang_scheduling.search import BundleSearch, RoomFor, versions
from tessera_core.gang_scheduling.surplus import SurplusTurns
from tessera_core.gang_scheduling.turns import next_in_line, patience_of
from tessera_core.gang_scheduling.view import GangView, no_queue, view_gangs
from tessera_core.gangs.gang import GangMember
from tessera_core.gangs.reservation import GangReservation, GangReserved
from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.gang import (
    AllArrived,
    BarrierMissed,
    GangPhase,
    MemberArrived,
    MembersGone,
    MembersReserved,
    MinimumBound,
    MinimumLost,
)

_ALONE: Final = GoesAlone()


class GangCoordinator:
    """Decides for all gangs of a cluster."""

    def __init__(
        self,
        registry: GangRegistry,
        ledger: Ledger,
        room_for: RoomFor,
        timings: GangTimings = GangTimings(),  # noqa: B008  (frozen)
        room_version: Callable[[], int] | None = None,
        queues: SchedulingQueues | None = None,
        shadows: LineShadows | None = None,
    ) -> None:
        """`room_for` begins a search of places for members that start together. `room_version`
        changes whenever another search may find room that the last one did not; None = the
        ledger's generation. `queues` decide about turns and caps; None = there are none.
        `shadows` reserve cards for gangs in line that have no room; None = nobody does."""
        self._registry = registry
        self._ledger = ledger
        self._find_room = room_for
        self._queues = queues
        self._shadows = shadows
        self._reservations = MemberReservations(registry, ledger)
        self._timings = timings
        self._version = versions(room_version or (lambda: ledger.generation), queues)
        self._surplus = SurplusTurns(ledger, queues, self._version)
        self._known: dict[str, KnownBundle] = {}
        """By id of each gang of the bundle."""
        self._search: BundleSearch | None = None
        self._released: list[str] = []
        self._failed: dict[str, str] = {}
        self._gates_due: dict[int, KnownBundle] = {}
        """Bundles that have moved on since gates were opened last, by identity."""
        self._requeue = False
        self._unknown: set[str] = set()
        """Uids of pods that name a gang and were refused before a watch showed them."""

    # -- what kube-scheduler asks

    def answer(self, uid: str, now: float) -> MemberAnswer:
        """Where a member goes, for a filter call. A pod that names a gang and that no watch has
        shown yet waits until one does."""
        wrong = self._registry.wrong(uid)
        if wrong:
            return WaitsForGang(wrong)
        known = self._current(self._registry.gang_of(uid), now)
        if known is None:
            self._unknown.add(uid)
            return WaitsForGang("its gang is read: this pod is not known yet")
        behind = self._surplus.why_not(uid, known, self._known.values(), now)
        answer = WaitsForGang(behind) if behind else self._answer(uid, known)
        if isinstance(answer, WaitsForGang):
            known.attempt.refused = True
        return answer

    def arrive(self, uid: str, now: float) -> str | None:
        """kube-scheduler calls bind for a member: empty when it goes on, why not, or None when it
        waits for `effects` to release it or to fail it."""
        known = self._current(self._registry.gang_of(uid), now)
        if known is None:
            return "its gang is not known yet: filter it again"
        answer, attempt = self._answer(uid, known), known.attempt
        if isinstance(answer, WaitsForGang):
            return f"{answer.message}: filter it again"
        if isinstance(answer, GoesAlone) or not attempt.holds:
            return ""
        if not attempt.arrived:
            attempt.first_arrived(now, patience_of(known.bundle))
        attempt.arrived.add(uid)
        attempt.move(MemberArrived(), now)
        self._gates_due[id(known)] = known
        self._commit_if_complete(known, now)
        return None

    def leave(self, uid: str, now: float) -> None:
        """The bind call of a member has ended without a Binding: it has not arrived."""
        if (known := self._known.get(self._registry.gang_of(uid))) is not None:
            known.attempt.arrived.discard(uid)
            self._reservations.restore(known.attempt, uid, now)

    # -- time, and what watches show

    def step(self, now: float, steps: int, *, broken_only: bool = False) -> bool:
        """Take in what has changed, give up what is too old, and search for so many fits; whether
        there is more to search. `broken_only` leaves all gangs for later that are not broken."""
        for gang_id in tuple(self._registry.changed):
            self._current(gang_id, now)
        for known in self.bundles():
            self._check_time(known, now)
        if self._unknown:
            seen = {uid for uid in self._unknown if self._registry.gang_of(uid)}
            self._requeue |= bool(seen)
            self._unknown -= seen
        more = self._advance_search(now, steps, broken_only=broken_only)
        if self._search is None:
            self._requeue |= self._surplus.released(self.bundles(), now)
        return more

    def effects(self) -> GangEffects:
        """What is to be done since it was read last."""
        due = self._gates_due.values()
        made = GangEffects(
            released=tuple(self._released), failed=self._failed, requeue=self._requeue,
            opened=tuple(pod for each in due for pod in gates_to_open(each.bundle, each.attempt)),
        )  # fmt: skip
        self._released, self._failed, self._requeue, self._gates_due = [], {}, False, {}
        return made

    def reset(self, why: str) -> None:
        """This replica does not lead: all that is reserved and not sent is given up, and every bind
        call that waits fails."""
        for known in self.bundles():
            self._give_up(known.attempt, why)
        self._known, self._search, self._gates_due, self._unknown = {}, None, {}, set()
        self._surplus.reset()
        self._registry.touch_all()
        if self._shadows is not None:
            self._shadows.reset()

    def phase(self, gang_id: str, now: float) -> GangPhase:
        """Where the gang is."""
        known = self._current(gang_id, now)
        return GangPhase.OVER if known is None else known.attempt.phase

    def reasons(self) -> dict[str, str]:
        """Gang's id -> why it waits, of all that have pods; empty for one that does not."""
        return {id_: self._why(known) for known in self.bundles() for id_ in known.attempt.ids}

    def view(self) -> dict[str, GangView]:
        """Gang's id -> how it stands, of all that have pods, as the last step left them."""
        queue_of = no_queue if self._queues is None else self._queues.key
        return view_gangs(self.bundles(), self.reasons(), queue_of)

    def bundles(self) -> list[KnownBundle]:
        """All bundles that have pods, as they were read last: to read."""
        return list({id(known): known for known in self._known.values()}.values())

    def why(self, gang_id: str, now: float) -> str:
        """Why the gang waits; empty for one that does not."""
        known = self._current(gang_id, now)
        return "" if known is None else self._why(known)

    # -- answers

    def _answer(self, uid: str, known: KnownBundle) -> MemberAnswer:
        attempt, bundle = known.attempt, known.bundle
        if uid in bundle.refused:
            return WaitsForGang(bundle.refused[uid])
        if not bundle.together or attempt.phase is GangPhase.STARTED:
            return _ALONE
        seat = attempt.seats.get(uid)
        if seat is None or seat.grant is None:
            return WaitsForGang(self._why(known))
        return GoesTo(seat.node)

    def _why(self, known: KnownBundle) -> str:
        return known.why("" if self._shadows is None else self._shadows.about(known))

    # -- bundles

    def _current(self, gang_id: str, now: float) -> KnownBundle | None:
        """The bundle as it is now; None where there is none."""
        known = self._known.get(gang_id)
        about = {gang_id} if known is None else known.attempt.ids
        if not gang_id or self._registry.changed.isdisjoint(about):
            return known
        started = None if known is None else known.attempt.has_started
        bundle = self._registry.bundle(gang_id, started=started)
        self._registry.changed -= bundle.ids
        if known is None or known.attempt.ids != bundle.ids:
            known = self._rejoined(bundle, now)
        elif known.bundle.terms != bundle.terms:
            known.attempt.searched_at = -1
        known.bundle = bundle
        if self._queues is not None:
            self._queues.put_bundle(bundle)
        self._observe(known, now)
        return self._known.get(gang_id)

    def _rejoined(self, bundle: GangBundle, now: float) -> KnownBundle:
        """A bundle that is new, or that others have joined or left: what its gangs hold is given
        up."""
        attempt = GangAttempt(bundle.ids, self._timings, now)
        for gang_id in bundle.ids:
            before = self._known.pop(gang_id, None)
            if before is not None:
                attempt.started |= before.attempt.started
                attempt.refused |= before.attempt.refused
                attempt.since = before.attempt.since
                attempt.waits_since = before.attempt.waits_since
                self._give_up(before.attempt, f"gang {before.bundle.name} has got another bundle")
                for left in before.attempt.ids - bundle.ids:
                    self._known.pop(left, None)
                    self._registry.changed.add(left)
        return KnownBundle(bundle, attempt)

    def _observe(self, known: KnownBundle, now: float) -> None:
        """Move on by what pods and objects say."""
        attempt, bundle = known.attempt, known.bundle
        if not bundle.populated:
            self._end(known, now)
            return
        self._known |= dict.fromkeys(bundle.ids, known)
        self._gates_due[id(known)] = known
        if attempt.holds:
            lost = self._reservations.defeated(bundle, attempt)
            if lost:
                self._miss(known, lost, now)
        if attempt.holds:
            self._commit_if_complete(known, now)
        if attempt.phase is GangPhase.COMMITTED:
            self._settle(known, now)
        if not attempt.holds and attempt.phase is not GangPhase.COMMITTED:
            self._classify(known, now)
        alone = not bundle.together or attempt.phase is GangPhase.STARTED
        if alone and attempt.refused:
            self._requeue, attempt.refused = True, False

    def _classify(self, known: KnownBundle, now: float) -> None:
        """The phase of a bundle that holds nothing, and of which no Binding is on its way."""
        attempt, bundle = known.attempt, known.bundle
        attempt.follow_pods(bundle, now)
        self._gates_due[id(known)] = known
        if attempt.phase is not GangPhase.STARTED:
            # those that went one by one until the gang fell below its minimum
            self._reservations.give_up(member.pod.metadata.uid for member in bundle.waiting)

    def _end(self, known: KnownBundle, now: float) -> None:
        attempt = known.attempt
        self._give_up(attempt, "its gang has no pods any more")
        if attempt.holds:
            attempt.move(BarrierMissed(), now)
        attempt.move(MembersGone(), now)
        for gang_id in attempt.ids:
            if self._known.get(gang_id) is known:
                del self._known[gang_id]

    # -- reservations

    def _check_time(self, known: KnownBundle, now: float) -> None:
        attempt = known.attempt
        if attempt.phase is GangPhase.COMMITTED:
            self._settle(known, now)
            if attempt.phase is not GangPhase.COMMITTED:
                self._classify(known, now)
        if not attempt.holds:
            return
        lost = self._reservations.renew(known.bundle, attempt, now)
        if lost or now >= attempt.until:
            self._miss(known, lost or "time is up", now)

    def _miss(self, known: KnownBundle, why: str, now: float) -> None:
        attempt = known.attempt
        said = f"{self._reservations.arrivals(attempt)}: {why}"
        self._give_up(attempt, f"gang {known.bundle.name} does not start now: {said}")
        attempt.missed(said, now)
        attempt.move(BarrierMissed(), now)
        self._classify(known, now)

    def _give_up(self, attempt: GangAttempt, why: str) -> None:
        """Free what was never sent, and fail the bind calls that wait."""
        if attempt.holds:
            self._failed |= dict.fromkeys(attempt.arrived, why)
            self._reservations.give_up(attempt.seats)

    def _commit_if_complete(self, known: KnownBundle, now: float) -> None:
        attempt = known.attempt
        if not self._reservations.complete(attempt):
            return
        lost = self._reservations.renew(known.bundle, attempt, now)
        if lost:
            self._miss(known, lost, now)
            return
        self._released += sorted(attempt.arrived)
        attempt.arrived = set()
        attempt.move(AllArrived(), now)

    def _settle(self, known: KnownBundle, now: float) -> None:
        """Whether a bundle that is committed has started, or cannot any more."""
        attempt, bundle = known.attempt, known.bundle
        attempt.unstarted &= not self._reservations.written(attempt)  # a list may show fewer
        under_way = any(map(self._reservations.is_under_way, attempt.seats))
        if under_way and bundle.needed:
            return
        if bundle.needed == 0 or (
            bundle.arriving and all(map(self._reservations.is_bound, attempt.seats))
        ):
            attempt.move(MinimumBound(), now)
        else:
            attempt.move(MinimumLost(), now)

    # -- whose turn it is

    def _advance_search(self, now: float, steps: int, *, broken_only: bool) -> bool:
        version = self._version()
        if self._search is None:
            phases = (GangPhase.BROKEN,) if broken_only else (GangPhase.BROKEN, GangPhase.QUEUED)
            first = next_in_line(self.bundles(), self._queues, version, now, phases)
            if first is None:
                return not broken_only and self._follow_shadows(now, steps)
            line = self._shadows and self._shadows.reserved
            self._search = BundleSearch(
                first.bundle, self._room_for, version,
                line.opened_for(first, self._queues, now) if line else frozenset(),
                least=self._surplus.holds_back(first, self.bundles(), now),
            )  # fmt: skip
        search = self._search
        known = self._known.get(search.bundle.key)
        if known is None or known.bundle is not search.bundle or not known.attempt.waits:
            self._search = None
            return True
        found = search.advance(steps, now)
        if found is not None:
            self._search = None
            self._use(known, found, search.version, now)
        return True

    def _follow_shadows(self, now: float, steps: int) -> bool:
        if self._shadows is None:
            return False
        more = self._shadows.step(self.bundles(), self._queues, now, steps)
        self._requeue |= self._shadows.reserved.has_opened()
        return more

    def _use(self, known: KnownBundle, found: GangReserved | str, version: int, now: float) -> None:
        over = self._over_with(known.bundle, found)
        if over or isinstance(found, str):
            known.attempt.no_room(over or str(found), version, now)
            if self._shadows is not None:
                self._shadows.short_of_room(known)
            return
        known.attempt.reserved(found.seats, now)
        known.attempt.move(MembersReserved(), now)
        self._gates_due[id(known)] = known
        self._requeue = True

    def _room_for(self, bundle: GangBundle, members: Sequence[GangMember]) -> GangReservation | str:
        problem = "" if self._queues is None else self._queues.problem(bundle, members)
        return problem or self._find_room(bundle, members)

    def _over_with(self, bundle: GangBundle, found: GangReserved | str) -> str:
        """Which cap is exceeded now that the ledger holds the members, though it was not when their
        search began. They are given up in the same step: nobody saw them."""
        if self._queues is None or isinstance(found, str):
            return ""
        over = self._queues.exceeded(bundle)
        if over:
            self._reservations.give_up(found.seats)
        return over
