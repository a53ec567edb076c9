"""What is true of a bundle's reservations: whether they still lead to a start, and who is late."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tessera_core.gang_scheduling.attempt import GangAttempt
from tessera_core.gang_scheduling.registry import GangBundle, GangRegistry
from tessera_core.gangs.scratch import MemberSeat
from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import AllocationPhase
from tessera_core.machines.gang import GangPhase


class MemberReservations:
    """Reads the reservations of attempts in the ledger, and gives them up."""

    def __init__(self, registry: GangRegistry, ledger: Ledger) -> None:
        """Both are shared with the coordinator."""
        self._registry = registry
        self._ledger = ledger

    def defeated(self, bundle: GangBundle, attempt: GangAttempt) -> str:
        """Why what is reserved does not lead to a start any more, by what pods and objects say;
        empty while it does."""
        if bundle.lacks:
            return bundle.lacks
        waiting = {member.pod.metadata.uid: member for member in bundle.waiting}
        for uid, seat in attempt.seats.items():
            if uid not in waiting:
                return f"{self.name(uid)} cannot be placed any more"
            elsewhere = waiting[uid].pod.spec.node_name
            if seat.grant is not None and elsewhere:
                return f"{self.name(uid)} got node {elsewhere} from somebody else"
        if bundle.needed > len(attempt.seats):
            return f"{bundle.needed} members have to start together, {len(attempt.seats)} are ready"
        return ""

    def renew(self, bundle: GangBundle, attempt: GangAttempt, now: float) -> str:
        """Keep all reservations for now; or why not, where one is gone. A member that was not
        offered its node may have got cards on another one meanwhile: that is where it goes, unless
        all have to lie together."""
        together = any(members.gang.domain is not None for members in bundle.gangs)
        for uid, seat in attempt.seats.items():
            if seat.grant is None:
                continue
            entry = self._ledger.entry(uid)
            reserved = entry is not None and entry.phase is AllocationPhase.RESERVED
            if entry is None or not reserved:
                return f"{self.name(uid)} lost its cards on node {seat.node}"
            if entry.grant.node != seat.node:
                if together:
                    return f"{self.name(uid)} was not offered node {seat.node}"
                attempt.seats[uid] = MemberSeat(entry.grant.node, entry.grant)
            entry.since = now
        return ""

    def restore(self, attempt: GangAttempt, uid: str, now: float) -> None:
        """Reserve a member's cards where it had them, if others of its gang have been let through
        and the ledger holds none for it: else another pod would take them before it is tried
        again."""
        seat = attempt.seats.get(uid) if attempt.phase is GangPhase.COMMITTED else None
        if seat is not None and seat.grant is not None and self._ledger.entry(uid) is None:
            self._ledger.assume([seat.grant], now)  # refused: they are another pod's now

    def give_up(self, uids: Iterable[str]) -> None:
        """Free what was never sent of these pods."""
        for uid in uids:
            entry = self._ledger.entry(uid)
            if entry is not None and entry.phase is AllocationPhase.RESERVED:
                self._ledger.forget(uid)

    def complete(self, attempt: GangAttempt) -> bool:
        """Whether each member has arrived; one that asks for no cards has when it has a node."""
        if not attempt.arrived or any(True for _ in attempt.absent()):
            return False
        return not any(True for _ in self._without_node(attempt))

    def _without_node(self, attempt: GangAttempt) -> Iterator[str]:
        """Uids of members that ask for no cards and have no node yet."""
        without = (uid for uid, seat in attempt.seats.items() if seat.grant is None)
        return (uid for uid in without if not self.is_bound(uid))

    def written(self, attempt: GangAttempt) -> bool:
        """Whether the API server has the Binding of each member, shown by a watch or not."""
        return all(self._is_written(uid) or self.is_bound(uid) for uid in attempt.seats)

    def _is_written(self, uid: str) -> bool:
        entry = self._ledger.entry(uid)
        return entry is not None and entry.phase is AllocationPhase.BOUND

    def is_bound(self, uid: str) -> bool:
        """Whether a watch has shown the pod's node."""
        pod = self._registry.pod(uid)
        return pod is not None and bool(pod.spec.node_name)

    def is_under_way(self, uid: str) -> bool:
        """Whether the pod may get its node yet: the ledger holds its cards, and no watch has shown
        its node, or its end."""
        there = self._registry.pod(uid) is not None
        return there and not self.is_bound(uid) and self._ledger.entry(uid) is not None

    def arrivals(self, attempt: GangAttempt) -> str:
        """How many have arrived and who is late, as `3 of 4 members arrived, missing d`. A member
        without cards has arrived when it has a node."""
        late = [self.name(uid) for uid in attempt.absent()]
        late += [self.name(uid) for uid in self._without_node(attempt)]
        text = f"{len(attempt.seats) - len(late)} of {len(attempt.seats)} members arrived"
        if not late or not attempt.arrived:
            return text
        more = f" and {len(late) - 3} more" if len(late) > 3 else ""
        return f"{text}, missing {', '.join(late[:3])}{more}"

    def name(self, uid: str) -> str:
        """The pod's name, as messages print it."""
        pod = self._registry.pod(uid)
        return f"pod {uid}" if pod is None else pod.name
