"""What a scheduler remembers of one bundle of gangs: phase, reservations, who has arrived."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from tessera_core.gang_scheduling.registry import GangBundle
from tessera_core.gangs.reservation import Seats
from tessera_core.gangs.scratch import MemberSeat
from tessera_core.machines.gang import (
    Event,
    GangPhase,
    MinimumBound,
    MinimumLost,
    QuorumLost,
    QuorumReached,
    advance,
)

HOLDING: Final = frozenset({GangPhase.RESERVED, GangPhase.BINDING})
"""Phases in which the ledger holds cards for members of which none has a Binding yet."""
WAITING: Final = frozenset({GangPhase.QUEUED, GangPhase.BROKEN})
"""Phases in which its turn, and room, move it on."""
BACKOFF_S: Final = 2.0
"""Seconds until a gang that missed its barrier is reserved again; twice as long each time."""
MOST_BACKOFF_S: Final = 300.0
MOST_MISSES: Final = 3
"""Misses after which a gang comes behind its equals."""
AGAIN_S: Final = 1.0
"""Seconds until room is searched again for a gang that does not fit; twice as long each time."""
MOST_AGAIN_S: Final = 16.0
PASS_S: Final = 4.0
"""Seconds after a search that found too little room for which what comes behind may use room that
comes free meanwhile: where pods end all the time, it would wait for ever else."""


class GangTimings(Struct, frozen=True, kw_only=True):
    """How long a start may take, in seconds."""

    reservation_s: float = 120.0
    """Until the first bind call of a gang that holds cards."""
    barrier_s: float = 60.0
    """From the first bind call of a gang to its last."""


class GangAttempt:
    """The way of one bundle. It changes nothing but itself."""

    def __init__(self, ids: frozenset[str], timings: GangTimings, now: float) -> None:
        """`ids` are those of the bundle's gangs; it gathers from `now` on."""
        self.ids = ids
        self.phase = GangPhase.GATHERING
        self.since = now
        """When it came to its phase."""
        self.waits_since = 0.0
        """When it began to wait for its turn; a missed barrier does not change it."""
        self.started = False
        """Whether it has started since this scheduler follows it."""
        self.unstarted = False
        """Whether this scheduler has seen it without any pod that has a node, and it has not
        started since."""
        self.incomplete = False
        """Whether some of its pods have got a node and it has certainly not started."""
        self.dissolving = False
        """Whether the pods of it that have a node are leaving: the others are not reserved."""
        self.seats: dict[str, MemberSeat] = {}
        """Pod's uid -> where it goes; empty while nothing is reserved."""
        self.arrived: set[str] = set()
        """Uids of pods whose bind call waits."""
        self.misses = 0
        self.not_before = 0.0
        """No search before this moment."""
        self.until = 0.0
        """When what is reserved is given up."""
        self.why = ""
        """Why it waits, after the last search or miss."""
        self.searched_at = -1
        """The version of the room there was at the last search that found too little."""
        self.passed_until = float("-inf")
        """Until when what comes behind may use whatever room there is."""
        self.refused = False
        """Whether kube-scheduler was refused a member, so that it has to try again."""
        self._timings = timings
        self._again_s = AGAIN_S

    @property
    def has_started(self) -> bool | None:
        """Whether it has; None where a former scheduler may have started it."""
        return self.started or (False if self.unstarted else None)

    @property
    def holds(self) -> bool:
        """Whether cards are reserved, and no Binding may be sent yet."""
        return self.phase in HOLDING

    @property
    def waits(self) -> bool:
        """Whether cards for its members may be reserved."""
        return self.phase in WAITING and not self.dissolving

    @property
    def under_way(self) -> bool:
        """Whether members have cards and no node yet."""
        return self.holds or self.phase is GangPhase.COMMITTED

    def move(self, event: Event, now: float) -> None:
        """Go on by the table. Raises IllegalTransition."""
        before, self.phase = self.phase, advance(self.phase, event)
        if self.phase is not before:
            self.since = now
        if self.phase in WAITING and before not in (*WAITING, *HOLDING):
            self.waits_since = now
        if self.phase is GangPhase.BROKEN:
            self.incomplete |= self.unstarted or (
                before is GangPhase.COMMITTED and not self.started
            )
        elif not self.under_way:
            self.incomplete = self.dissolving = False
        if self.phase is GangPhase.STARTED:
            self.started, self.unstarted, self.misses, self.why = True, False, 0, ""
            self._drop()
        elif self.phase in (GangPhase.GATHERING, GangPhase.BROKEN):
            self._drop()

    def become(self, phase: GangPhase, event: Event, now: float) -> None:
        """Go on to that phase unless it is there. Raises IllegalTransition."""
        if self.phase is not phase:
            self.move(event, now)

    def follow_pods(self, bundle: GangBundle, now: float) -> None:
        """Go on by what pods and objects say, where nothing is held and no Binding is on its
        way."""
        bound = any(each.bound for each in bundle.gangs)
        self.unstarted |= not bound
        if any(each.gang.problem for each in bundle.gangs):
            self.become(GangPhase.GATHERING, QuorumLost(), now)
        elif bundle.needed == 0:
            self.become(GangPhase.STARTED, MinimumBound(), now)
        elif bound and not bundle.arriving:
            self.become(GangPhase.BROKEN, MinimumLost(), now)
        elif bundle.waiting or not bound:
            if self.phase in (GangPhase.STARTED, GangPhase.BROKEN):
                self.move(QuorumLost(), now)
                self.started = False
            if bundle.lacks:
                self.become(GangPhase.GATHERING, QuorumLost(), now)
            else:
                self.become(GangPhase.QUEUED, QuorumReached(), now)

    def reserved(self, seats: Seats, now: float) -> None:
        """The ledger holds these; the event follows."""
        self.seats, self.arrived = dict(seats), set()
        self.until, self.why = now + self._timings.reservation_s, ""
        self._again_s, self.searched_at = AGAIN_S, -1

    def first_arrived(self, now: float, patience_s: float | None) -> None:
        """The barrier's time runs from now on; a gang with less patience has less."""
        longest = self._timings.barrier_s
        self.until = now + (longest if patience_s is None else min(longest, patience_s))

    def missed(self, why: str, now: float) -> None:
        """What was reserved is given up; the event follows."""
        self.misses += 1
        self.not_before = now + min(BACKOFF_S * 2 ** min(self.misses - 1, 10), MOST_BACKOFF_S)
        self.why, self.passed_until = why, self.not_before
        self._drop()

    def no_room(self, why: str, version: int, now: float) -> None:
        """The search that began at this version of the room found too little."""
        self.why, self.searched_at, self.passed_until = why, version, now + PASS_S
        self.not_before = now + self._again_s
        self._again_s = min(2 * self._again_s, MOST_AGAIN_S)

    def may_search(self, version: int, now: float) -> bool:
        """Whether a search may find what the last one did not."""
        return self.waits and now >= self.not_before and version != self.searched_at

    def lets_pass(self, version: int, now: float) -> bool:
        """Whether what comes behind may use the room that there is: it was searched in vain for
        this bundle, or the bundle cannot use it now."""
        return not self.waits or version == self.searched_at or now < self.passed_until

    def hurry(self, now: float) -> None:
        """Others are held back until room has been searched again: it is searched now."""
        self.not_before = min(self.not_before, now)

    def absent(self) -> Iterator[str]:
        """Uids of members with cards whose bind call has not come."""
        return (
            uid for uid, seat in self.seats.items()
            if seat.grant is not None and uid not in self.arrived
        )  # fmt: skip

    def _drop(self) -> None:
        self.seats, self.arrived = {}, set()


class KnownBundle(Struct):
    """A bundle as it was read last, and the way that it goes."""

    bundle: GangBundle
    attempt: GangAttempt

    def why(self, about: str) -> str:
        """Why its members wait; empty where they do not. `about` is added where it waits itself."""
        attempt, name = self.attempt, f"gang {self.bundle.name}"
        match attempt.phase:
            case GangPhase.RESERVED | GangPhase.BINDING | GangPhase.COMMITTED:
                return f"{name} starts: {len(attempt.seats)} other members go first"
            case GangPhase.STARTED | GangPhase.OVER:
                return ""
            case GangPhase.GATHERING | GangPhase.QUEUED | GangPhase.BROKEN:
                why = self.bundle.lacks or attempt.why or "it is its turn next"
                return f"{name} waits: {why}{about}"
