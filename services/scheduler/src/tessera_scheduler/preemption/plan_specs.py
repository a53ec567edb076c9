"""What the plans of preemption say."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

from tessera_core.preemption.eviction_budgets import preemptor_of
from tessera_core.preemption.messages import sentence
from tessera_core.preemption.potential_victims import SYSTEM_PRIORITY
from tessera_core.preemption.preemption import Preemption
from tessera_scheduler.preemption.pending_preemptors import PendingPreemptor
from tessera_schema.plans import (
    PlanKind,
    PlanPromise,
    PlanSeat,
    PlanSpec,
    PlanStep,
    PodOfPlan,
)

_BY: Final = "TESSERA_PREEMPTION_MODE"


def plan_spec(waiting: PendingPreemptor, found: Preemption) -> PlanSpec:
    """The plan of what was found. Victims on the nodes where the pods are to be come first."""
    nodes = [seat.node for seat in found.seats.values()]
    stops = {victim.uid: unit.gang for unit in found.units for victim in unit.pods}
    victims = sorted(found.victims, key=lambda each: each.pod.spec.node_name not in nodes)
    key, gang = waiting.key, waiting.gang
    pod = PodOfPlan(namespace=key.namespace, name=key.name, uid=key.uid, node=nodes[0])
    who = f"gang {gang.partition('/')[2]}" if gang else f"{key.namespace}/{key.name}"
    return PlanSpec(
        kind=PlanKind.RECLAIM if found.lenders else PlanKind.PREEMPT,
        reason=f"{who}: {sentence(found)}",
        cost=round(found.cost.card_s, 1),
        steps=tuple(
            PlanStep(
                pod=PodOfPlan(
                    namespace=each.pod.metadata.namespace, name=each.pod.metadata.name,
                    uid=each.uid, node=each.pod.spec.node_name, owner=each.owner,
                    gang=stops.get(each.uid, ""),
                )
            )
            for each in victims
        ),
        for_pod=None if gang else pod, for_gang=gang,
        promise=PlanPromise(
            # queues go by their shares: one that gave back does not take it again by priority
            priority=SYSTEM_PRIORITY - 1 if found.lenders else waiting.priority,
            seats=tuple(_seats(found)),
        ),
        decision="approved", decided_by=_BY,
    )  # fmt: skip


def _seats(found: Preemption) -> Iterator[PlanSeat]:
    """What each pod gets that asks for cards."""
    for seat in found.seats.values():
        if seat.grant is not None:
            grant = seat.grant
            pod = PodOfPlan(
                namespace=grant.namespace, name=grant.name, uid=grant.uid, node=seat.node
            )
            yield PlanSeat(pod=pod, shares=grant.shares)


def plan_name(spec: PlanSpec, now: float) -> str:
    """Another name for each time that the same pods go for the same pod or gang."""
    about = [step.pod.uid for step in spec.steps]
    text = "/".join([*about, preemptor_of(spec), f"{now:.0f}"])
    return f"{spec.kind.lower()}-{blake2b(text.encode(), digest_size=5).hexdigest()}"
