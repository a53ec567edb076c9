"""Messages on the bus about what becomes of plans; docs/events.md has them.

The RebalancePlan itself is what lasts: a reader that missed the message finds it there.
"""

from __future__ import annotations

from typing import Any, Final

from tessera_runtime.bus.outbox import Outbox
from tessera_runtime.plans.plan_store import PlanObject
from tessera_schema.messages import event_catalogue
from tessera_schema.plans import (
    PlanDeclined,
    PlanDone,
    PlanEvent,
    PlanFailed,
    PlanPhase,
    PlanProposed,
    PlanStarted,
    encode_plan,
    plan_subject,
)

_TYPES: Final[dict[type[PlanEvent], str]] = {
    PlanProposed: event_catalogue.PLAN_PROPOSED,
    PlanStarted: event_catalogue.PLAN_STARTED,
    PlanDone: event_catalogue.PLAN_DONE,
    PlanDeclined: event_catalogue.PLAN_DECLINED,
    PlanFailed: event_catalogue.PLAN_FAILED,
}


class PlanPublisher:
    """Publishes them. Never waits, never raises."""

    def __init__(self, outbox: Outbox, cluster: str) -> None:
        """`cluster` is the third token of the subjects."""
        self._outbox = outbox
        self._cluster = cluster

    def publish_phase(self, plan: PlanObject) -> None:
        """Publish that the plan has entered its present phase."""
        event = phase_event(plan)
        subject = plan_subject(self._cluster, event)
        self._outbox.publish(subject, _TYPES[type(event)], encode_plan(event))


def phase_event(plan: PlanObject) -> PlanEvent:
    """What is said of a plan in its present phase."""
    status, spec = plan.status, plan.spec
    common: dict[str, Any] = {
        "plan": plan.name, "kind": spec.kind, "for_pod": spec.for_pod, "for_gang": spec.for_gang,
        "cost": spec.cost, "gain": spec.gain, "pods": tuple(step.pod for step in spec.steps),
        "message": status.message or spec.reason,
    }  # fmt: skip
    match status.phase:
        case PlanPhase.PROPOSED:
            return PlanProposed(**common, dry_run=spec.dry_run)
        case PlanPhase.STARTED:
            return PlanStarted(**common, decided_by=spec.decided_by)
        case PlanPhase.DONE:
            return PlanDone(**common)
        case PlanPhase.DECLINED:
            return PlanDeclined(**common)
        case PlanPhase.FAILED:
            return PlanFailed(**common)
