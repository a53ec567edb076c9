"""Which pods would have to go for those that wait: an answer for each, as if it were the only one.

Nothing of it is carried out, and nothing is planned on top of it: the plan stays the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from tessera_cli.place.preemption.objects import PreemptionObjects
from tessera_core.admission.admit import AdmittedPod
from tessera_core.gang_planner.planner import GangPlanner
from tessera_core.gangs.queue_lending import QueueLending
from tessera_core.gangs.scratch import MemberRequest
from tessera_core.planner import Planner
from tessera_core.preemption.eviction_trials import Preemptor
from tessera_core.preemption.preemption import (
    NoPreemption,
    Preemption,
    PreemptionPlanner,
    PreemptionView,
)
from tessera_core.preemption.victim_units import priority_of
from tessera_schema.kube import Pod
from tessera_schema.verdicts import PlanOutcome, Verdict

_NEVER: Final = "Never"
PreemptionAnswer = Preemption | NoPreemption


class Preemptions:
    """Answers for waiting pods and gangs, at their turn."""

    def __init__(
        self,
        planner: Planner,
        gangs: GangPlanner,
        objects: PreemptionObjects,
        bound: Iterable[Pod],
        now_ns: int,
        *,
        lending: QueueLending | None,
    ) -> None:
        """The planner's ledger is used as it is when an answer is given. With `lending` queues give
        back what they borrow."""
        self._planner = planner
        self._gangs = gangs
        self._objects = objects
        self._view = PreemptionView(
            ledger=planner.ledger,
            filters=planner.filters,
            bound={pod.metadata.uid: objects.victim(pod) for pod in bound},
            catalog=objects.with_priorities(gangs.catalog),
            queues=gangs.queues,
            budgets=objects.budgets,
            lending=lending,
        )
        self._preemption = PreemptionPlanner(self._view, now_ns / 1e9)
        self._known: dict[tuple[object, ...], PreemptionAnswer] = {}
        self._of_gangs: dict[str, PreemptionAnswer] = {}

    def of_pod(self, outcome: PlanOutcome) -> PreemptionAnswer | None:
        """Who would have to go for a pod of no gang; None for one that does not wait for room."""
        pod = self._objects.with_priority(outcome.pod)
        admission = self._planner.admitted(pod)
        if outcome.verdict is not Verdict.WAITING or not isinstance(admission, AdmittedPod):
            return None
        member = MemberRequest(pod, admission.request)
        preemptor = Preemptor(
            members=(member,), priority=priority_of(pod, self._view.catalog),
            queue=self._view.queue_of(pod),
        )  # fmt: skip
        policy, generation = pod.spec.preemption_policy, self._planner.ledger.generation
        shape = (generation, member.shape, preemptor.priority, preemptor.queue, policy)
        if shape not in self._known:
            self._known[shape] = self._answer(preemptor)
        return _seated(self._known[shape], pod)

    def of_gang(self, gang_id: str) -> PreemptionAnswer | None:
        """The same for the members of a gang, or of a bundle of gangs, that start together."""
        short = self._gangs.short_of_room.get(gang_id)
        if short is None:
            return None
        if gang_id not in self._of_gangs:
            pods = [self._objects.with_priority(each.pod) for each in short.members]
            members = (
                MemberRequest(pod, each.request)
                for pod, each in zip(pods, short.members, strict=True)
            )
            answer = self._answer(
                Preemptor(
                    members=tuple(members),
                    priority=max(priority_of(pod, self._view.catalog) for pod in pods),
                    queue=self._view.queue_of(pods[0]),
                    domains=short.domains,
                )
            )
            self._of_gangs |= dict.fromkeys(short.gangs, answer)
        return self._of_gangs[gang_id]

    def warnings(self, outcome: PlanOutcome) -> Iterator[str]:
        """What its manifest lacks for an answer."""
        unknown = self._objects.unknown_class(outcome.pod)
        if unknown:
            yield unknown

    def _answer(self, preemptor: Preemptor) -> PreemptionAnswer:
        never = [m.pod for m in preemptor.members if m.pod.spec.preemption_policy == _NEVER]
        if never:
            return NoPreemption(
                f"spec.preemptionPolicy of {never[0].name} is {_NEVER}: no pod is evicted for it"
            )
        return self._preemption.preempt(preemptor)


def _seated(found: PreemptionAnswer, pod: Pod) -> PreemptionAnswer:
    """The answer for another pod of the same shape."""
    if isinstance(found, NoPreemption):
        return found
    meta, seat = pod.metadata, next(iter(found.seats.values()))
    if seat.grant is not None:
        seat = replace(seat, grant=replace(seat.grant, uid=meta.uid, name=meta.name))
    return replace(found, seats={meta.uid: seat})
