"""What is promised of cards, and what is on them, by the API server's objects alone: sums of what
grants and plans say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tessera_core.fleet.charges import Charge, charges
from tessera_core.preemption.eviction_budgets import preemptor_of
from tessera_runtime.plans.plan_store import PlanObject, read_plan
from tessera_schema.kube import Pod
from tessera_schema.plans import PLANS, PlanPhase, PlanSeat
from tests.machine.evictions.eviction_simulation import PREEMPTION, EvictionSimulation
from tests.machine.evictions.jobs import waits
from tests.machine.truth import Place, fits


class PromisedRooms:
    """Of one cluster."""

    def __init__(self, world: EvictionSimulation) -> None:
        self._world = world
        self._truth = world.cluster.truth
        self._over: set[str] = set()
        """Names of plans whose preemptor had its cards, or was gone, at some time."""

    def plans(self) -> list[PlanObject]:
        """All that are written."""
        listed = self._world.cluster.call("GET", PLANS) or {"items": []}
        return [read_plan(msgspec.json.encode(item)) for item in listed["items"]]

    @staticmethod
    def leaving(plans: Iterable[PlanObject]) -> set[str]:
        """Uids of the victims of those of these plans that have started."""
        started = (plan for plan in plans if plan.status.phase is PlanPhase.STARTED)
        return {step.pod.uid for plan in started for step in plan.spec.steps}

    def standing(self, plans: Iterable[PlanObject]) -> list[PlanObject]:
        """Those of these plans whose promises hold: evictions have begun, and the pod or gang
        waits since."""
        return [plan for plan in plans if self._stands(plan)]

    def _stands(self, plan: PlanObject) -> bool:
        status, now = plan.status, self._world.cluster.clock.time()
        begun = status.steps_begun > 0 and status.phase in (PlanPhase.STARTED, PlanPhase.DONE)
        if not begun or plan.spec.promise is None or plan.name in self._over:
            return False
        if now >= plan.former.started + PREEMPTION.promise_s or not self._waits(plan):
            self._over.add(plan.name)
        return plan.name not in self._over

    def _waits(self, plan: PlanObject) -> bool:
        uid, gang = preemptor_of(plan.spec), plan.spec.for_gang
        if not gang:
            pod = self._truth.pods.get(uid)
            return pod is not None and waits(pod)
        job = self._world.jobs[gang.rpartition("/")[2]]
        there = [
            pod for pod in self._truth.pods.values() if pod.metadata.name in job.names
        ]  # fmt: skip
        return sum(bool(pod.spec.node_name) for pod in there) < job.least <= len(there)

    def _waits_for(self, seat: PlanSeat) -> bool:
        """Whether the pod that a seat is for has no node yet."""
        pod = self._truth.pods.get(seat.pod.uid)
        return pod is not None and waits(pod)

    def beyond(
        self, plan: PlanObject, others: Iterable[PlanObject], places: set[Place]
    ) -> set[Place]:
        """Those of the places where the plan's seats do not fit any more next to what these other
        plans promise and to pods that stay, of no higher order than the plan."""
        plans = (plan, *others)
        leaving = self.leaving(self.plans()) | {step.pod.uid for step in plan.spec.steps}
        on: dict[Place, Charge] = {}
        for pod, bound in self._truth.living():
            if not (pod.metadata.uid in leaving or self._is_higher(pod, plan)):
                for card, charge in charges(bound.grant.shares).items():
                    _add(on, (bound.grant.node, card), charge)
        for seat in (seat for each in plans for seat in seats(each) if self._waits_for(seat)):
            for card, charge in charges(seat.shares).items():
                _add(on, (seat.pod.node, card), charge)
        cards = self._world.cluster.cards
        return {
            (node, card) for node, card in places & on.keys()
            if not fits(on[node, card], cards[node][card])
        }  # fmt: skip

    def _is_higher(self, pod: Pod, plan: PlanObject) -> bool:
        leaves = pod.metadata.deletion_timestamp is not None
        return leaves or (pod.spec.priority or 0) > priority_of(plan)


def seats(plan: PlanObject) -> Iterator[PlanSeat]:
    """What the plan promises."""
    yield from () if plan.spec.promise is None else plan.spec.promise.seats


def places_of(plan: PlanObject) -> set[Place]:
    """The cards that it is on."""
    return {(seat.pod.node, share.card) for seat in seats(plan) for share in seat.shares}


def priority_of(plan: PlanObject) -> int:
    """Up to which nobody gets what is promised."""
    return 0 if plan.spec.promise is None else plan.spec.promise.priority


def _add(total: dict[Place, Charge], at: Place, more: Charge) -> None:
    total[at] = total.get(at, Charge()).plus(more)
