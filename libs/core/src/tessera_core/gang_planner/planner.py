"""Plans whole gangs: all members that start together, or none.

`tessera_core.planner` plans pods one by one; this plans those that `tessera_core.gangs.catalog`
found to be of a gang, a bundle of gangs at a time, and says of one that gets no place whether it
waits or can never start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from msgspec import Struct

from tessera_core.admission.admit import AdmittedPod
from tessera_core.gang_planner.answers import (
    GangNotPlaced,
    GangOutcome,
    barred,
    in_no_gang,
    not_placed,
    waits,
    without_group_warning,
)
from tessera_core.gang_planner.growth import GangGrowth
from tessera_core.gang_planner.hindrances import Admissions, Hindrances
from tessera_core.gangs.catalog import GangCatalog
from tessera_core.gangs.gang import Gang, GangMember, GangMembers
from tessera_core.gangs.queue_lending import QueueLending
from tessera_core.gangs.queue_turns import QueueTurn, cluster_totals
from tessera_core.gangs.queue_usage import ClusterQueues, amounts_of, sum_of
from tessera_core.gangs.queues import QueueAmounts, QueueOrigin
from tessera_core.gangs.quorum import minimum_members
from tessera_core.gangs.reservation import GangReserved, Seats, reserve_gang
from tessera_core.gangs.scratch import MemberRequest, MemberSeat
from tessera_core.planner import Planner
from tessera_core.quota.allowance import minimum_usage
from tessera_schema.kube import Node, Pod
from tessera_schema.verdicts import PlanOutcome, Verdict


class ShortOfRoom(Struct, frozen=True):
    """Members that start together and find no places; others would have to go for them."""

    gangs: tuple[str, ...]
    """Ids of the bundle's gangs."""
    members: tuple[MemberRequest, ...]
    domains: Sequence[Set[str]] | None
    """Groups of nodes of which one has to take all; None = any nodes."""
    over: bool
    """Whether the cap of a queue keeps them out, whatever room there is."""


class GangPlanner:
    """Plans gangs with a planner's cluster; what it places holds its cards from then on."""

    def __init__(
        self,
        planner: Planner,
        catalog: GangCatalog,
        queues: ClusterQueues,
        *,
        nodes: Sequence[Node] = (),
        bound: Iterable[Pod] = (),
    ) -> None:
        """`queues` are not used yet: what the `bound` pods use of them is counted now."""
        self.catalog = catalog
        self.outcomes: dict[str, GangOutcome] = {}
        """Gang's id -> the answer, in the order in which they were planned."""
        self.short_of_room: dict[str, ShortOfRoom] = {}
        """Gang's id -> the members for which there is no room now."""
        self.queues = queues
        """With what is used of them by now."""
        self._totals = cluster_totals(planner.ledger.fleet, nodes)
        self._planner = planner
        self._hindrances = Hindrances(planner, catalog, queues, nodes)
        for pod in bound:
            self._count(pod)
        self.growth = GangGrowth(
            catalog, queues, self._totals, queues.deserved(self._totals, self._waiting())
        )
        """Members beyond the minimum of a gang that wait until others have their own."""
        self._started: dict[str, tuple[GangMembers, dict[str, PlanOutcome], Seats]] = {}
        """Gang's id -> its members, what they were answered by uid, and who has places together."""
        self.turns = self._turns()
        """The queues whose gangs wait, by kind, the next one first, before anything is planned."""

    def plan(self, pod: Pod, now_ns: int) -> Mapping[str, PlanOutcome] | None:
        """The answers, by uid, for all waiting pods that start together with this one; None for a
        pod that goes alone. Those that wait for their turn (`growth`) are answered by `grow`."""
        uid = pod.metadata.uid
        if self.growth.holds(uid):
            return {}
        if uid in self.catalog.refused:
            return {uid: in_no_gang(pod, self.catalog.refused[uid])}
        gang_id = self.catalog.of_pod.get(uid)
        members = None if gang_id is None else self.catalog.gangs[gang_id]
        if members is None or not _is_gang(members.gang) or self._planner.left_to_others(pod):
            return None
        if pod.name in members.barred:
            return {uid: barred(pod, f"gang {members.gang.key}: {members.barred[pod.name]}")}
        return self._plan(members.gang, now_ns)

    def warnings(self) -> Iterator[str]:
        """What the gangs' objects say that is not as it was meant."""
        for members in self.catalog.gangs.values():
            yield from members.gang.warnings
            if members.gang.together and not (members.waiting or members.bound or members.barred):
                yield f"{members.gang.source}: {members.gang.min}: no pod of it is there to plan"
            queue = self.queues.of_gang(members.gang)
            if queue is not None and members.gang.queue not in ("", "default"):
                origin, name = queue
                if members.waiting and not self.queues.known(origin):
                    yield (
                        f"{members.gang.queue_field}: {name}: no {origin.kind} was read, so its "
                        "state and its caps are not known: show them too"
                    )

    def lending(self, single: Iterable[Pod]) -> QueueLending:
        """What queues lend each other, with what is used of them by then. `single` are waiting pods
        of no gang."""
        waiting = self._waiting()
        for pod in single:
            queue = None if pod.metadata.uid in self.catalog.of_pod else self.queues.of_pod(pod)
            if queue is not None:
                of_kind = waiting.setdefault(queue[0], {})
                of_kind[queue[1]] = sum_of((of_kind.get(queue[1], {}), self._requested(pod)))
        deserved = self.queues.deserved(self._totals, waiting)
        return QueueLending(queues=self.queues, deserved=deserved, totals=self._totals)

    def _turns(self) -> tuple[QueueTurn, ...]:
        waiting = self._waiting()
        found = (self.queues.turns(kind, self._totals, asked) for kind, asked in waiting.items())
        return tuple(turn for of_kind in found for turn in of_kind)

    def _waiting(self) -> dict[QueueOrigin, dict[str, QueueAmounts]]:
        """What gangs wait for, by kind and queue."""
        waiting: dict[QueueOrigin, dict[str, QueueAmounts]] = {}
        for members in self.catalog.gangs.values():
            queue = self.queues.of_gang(members.gang)
            if queue is None or not members.waiting or not self.queues.known(queue[0]):
                continue
            asked = [self._requested(member.pod) for member in members.waiting]
            of_kind = waiting.setdefault(queue[0], {})
            of_kind[queue[1]] = sum_of((of_kind.get(queue[1], {}), *asked))
        return waiting

    def _requested(self, pod: Pod) -> QueueAmounts:
        """What a pod that waits will use of its queue at least."""
        admission = self._planner.admitted(pod)
        if not isinstance(admission, AdmittedPod):
            return amounts_of(pod, {})
        return amounts_of(pod, minimum_usage(admission.request))

    # -- a bundle

    def _plan(self, gang: Gang, now_ns: int) -> dict[str, PlanOutcome]:
        bundle = [each for each in self.catalog.bundle(gang) if not isinstance(each, str)]
        admitted: Admissions = {
            member.pod.metadata.uid: self._planner.examine(member.pod)
            for members in bundle
            for member in members.waiting
        }
        found = self._hindrances.before_placement(gang, admitted)
        if found is not None:
            return self._none(bundle, admitted, found)
        least = [member for members in bundle for member in minimum_members(members)]
        held = self.growth.holds_back(bundle, self.outcomes)
        everyone = least if held else [each for members in bundle for each in members.waiting]
        reserved = self._reserved(bundle, everyone, least, admitted, now_ns)
        if isinstance(reserved, GangNotPlaced):
            if reserved.verdict is Verdict.WAITING:
                self._keep_short_of_room(bundle, least, admitted)
            return self._none(bundle, admitted, reserved)
        return self._placed(bundle, admitted, reserved, now_ns, held=held)

    def grow(self, pod: Pod, now_ns: int) -> PlanOutcome:
        """The answer for a member beyond the minimum whose turn it is."""
        gang_id = self.catalog.of_pod[pod.metadata.uid]
        members, outcomes, seats = self._started[gang_id]
        admitted: Admissions = {pod.metadata.uid: self._planner.examine(pod)}
        outcome = self._alone(members, pod, admitted, outcomes, now_ns)
        if outcome.verdict is Verdict.PLACED:
            self._count(pod)
        outcomes[pod.metadata.uid] = outcome = without_group_warning(outcome)
        self.outcomes[gang_id] = _outcome_of(members, outcomes, seats)
        return outcome

    def _reserved(
        self,
        bundle: Sequence[GangMembers],
        everyone: Sequence[GangMember],
        least: Sequence[GangMember],
        admitted: Admissions,
        now_ns: int,
    ) -> Seats | GangNotPlaced:
        """Places for all members if there are, else for the minimum; none for a gang whose minimum
        runs already: its members go one by one."""
        found: GangNotPlaced | None = None
        for together in (everyone, least) if len(least) < len(everyone) else (everyone,):
            if not least:
                break
            members = [_request_of(member.pod, admitted) for member in together]
            found = self._hindrances.over(bundle, members)
            if found is not None:
                continue
            answer = reserve_gang(
                self._planner.ledger, self._planner.filters, members, now_ns / 1e9,
                domains=self._hindrances.domains(bundle[0]),
            )  # fmt: skip
            if isinstance(answer, GangReserved):
                return answer.seats
            found = waits(answer)
            if len(together) == len(least):
                found = self._hindrances.never(bundle, members) or found
        return {} if found is None else found

    def _keep_short_of_room(
        self, bundle: Sequence[GangMembers], least: Sequence[GangMember], admitted: Admissions
    ) -> None:
        requests = tuple(_request_of(member.pod, admitted) for member in least)
        short = ShortOfRoom(
            tuple(members.gang.id for members in bundle), requests,
            self._hindrances.domains(bundle[0]),
            self._hindrances.over(bundle, requests) is not None,
        )  # fmt: skip
        self.short_of_room |= dict.fromkeys(short.gangs, short)

    def _count(self, pod: Pod) -> None:
        """The pod uses its part of its queue."""
        gang_id = self.catalog.of_pod.get(pod.metadata.uid)
        queue = (
            self.queues.of_pod(pod)
            if gang_id is None
            else self.queues.of_gang(self.catalog.gangs[gang_id].gang)
        )
        if queue is not None and self.queues.known(queue[0]):
            entry = self._planner.ledger.entry(pod.metadata.uid)
            self.queues.use(*queue, amounts_of(pod, {} if entry is None else entry.uses))

    # -- answers

    def _placed(
        self,
        bundle: Sequence[GangMembers],
        admitted: Admissions,
        seats: Seats,
        now_ns: int,
        *,
        held: bool,
    ) -> dict[str, PlanOutcome]:
        """Those that have places together, then the others one by one; where they are `held`, these
        wait for their turn."""
        outcomes: dict[str, PlanOutcome] = {}
        pairs = [(members, member.pod) for members in bundle for member in members.waiting]
        pairs.sort(key=lambda pair: pair[1].metadata.uid not in seats)
        for members, pod in pairs:
            uid = pod.metadata.uid
            seat = seats.get(uid)
            if seat is None and held:
                self.growth.hold(pod, bundle)
                continue
            if seat is None:
                outcome = self._alone(members, pod, admitted, outcomes, now_ns)
            else:
                outcome = self._together(members.gang, pod, admitted[uid], seat, now_ns)
            if outcome.verdict is Verdict.PLACED:
                self._count(pod)
            outcomes[uid] = without_group_warning(outcome)
        for members in bundle:
            self._started[members.gang.id] = members, dict(outcomes), seats
            self.outcomes[members.gang.id] = _outcome_of(members, outcomes, seats)
        return outcomes

    def _together(
        self,
        gang: Gang,
        pod: Pod,
        admission: AdmittedPod | PlanOutcome,
        seat: MemberSeat,
        now_ns: int,
    ) -> PlanOutcome:
        message = f"placed on {seat.node} with gang {gang.key}"
        if seat.grant is None or isinstance(admission, PlanOutcome):
            self._planner.filters.take(pod, seat.node)
            message = f"asks for no accelerator; {message}"
            return PlanOutcome(pod=pod, verdict=Verdict.PLACED, node=seat.node, message=message)
        return self._planner.placed(pod, admission, seat.grant, message, now_ns)

    def _alone(
        self,
        members: GangMembers,
        pod: Pod,
        admitted: Admissions,
        outcomes: Mapping[str, PlanOutcome],
        now_ns: int,
    ) -> PlanOutcome:
        """A member beyond the minimum; where the gang has to lie together, next to those that are
        placed, by `outcomes`."""
        admission, member = admitted[pod.metadata.uid], _request_of(pod, admitted)
        over = self._hindrances.over((members,), (member,))
        if over is not None:
            return not_placed(pod, admission, Verdict.WAITING, over.message)
        if members.gang.domain is None:
            return self._planner.plan(pod, now_ns)
        uids = (each.pod.metadata.uid for each in members.waiting)
        placed = {outcomes[uid].node for uid in uids if uid in outcomes} - {""}
        domains = self._hindrances.domains(members, placed)
        answer = reserve_gang(
            self._planner.ledger, self._planner.filters, [member], now_ns / 1e9, domains=domains
        )
        if isinstance(answer, GangReserved):
            seat = answer.seats[pod.metadata.uid]
            return self._together(members.gang, pod, admission, seat, now_ns)
        message = f"gang {members.gang.key}: no room next to its other members"
        return not_placed(pod, admission, Verdict.WAITING, message)

    def _none(
        self, bundle: Sequence[GangMembers], admitted: Admissions, found: GangNotPlaced
    ) -> dict[str, PlanOutcome]:
        can = "can never start" if found.verdict is Verdict.REJECTED else "waits"
        outcomes: dict[str, PlanOutcome] = {}
        for members in bundle:
            gang = members.gang
            message = f"gang {gang.key} {can}: {found.message}"
            self.outcomes[gang.id] = GangOutcome(
                gang=gang, verdict=found.verdict, members=len(members.waiting),
                message=found.message, remedy=found.remedy,
            )  # fmt: skip
            for member in members.waiting:
                uid = member.pod.metadata.uid
                outcomes[uid] = not_placed(member.pod, admitted[uid], found.verdict, message)
        return outcomes


def _is_gang(gang: Gang) -> bool:
    """Whether its pods are not planned one by one: they start together, or nobody can say."""
    return gang.together or bool(gang.problem)


def _outcome_of(
    members: GangMembers, outcomes: Mapping[str, PlanOutcome], seats: Seats
) -> GangOutcome:
    waiting = [member.pod.metadata.uid for member in members.waiting]
    answered = (outcomes[uid].verdict for uid in waiting if uid in outcomes)
    placed = Counter(answered)[Verdict.PLACED]
    together = sum(uid in seats for uid in waiting)
    parts = [f"{together} of {len(waiting)} members together"] if together else []
    if placed > together:
        parts.append(f"{placed - together} one by one")
    rest = len(waiting) - placed
    if rest:
        parts.append(f"{rest} {'waits' if rest == 1 else 'wait'}: the minimum runs without")
    return GangOutcome(
        gang=members.gang, verdict=Verdict.PLACED, members=len(waiting), placed=placed,
        message=", ".join(parts),
    )  # fmt: skip


def _request_of(pod: Pod, admitted: Admissions) -> MemberRequest:
    found = admitted[pod.metadata.uid]
    return MemberRequest(pod, found.request if isinstance(found, AdmittedPod) else None)
