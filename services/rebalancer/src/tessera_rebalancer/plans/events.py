"""What is published about plans: messages on the bus, Kubernetes Events on the pods concerned.

The RebalancePlan itself is what lasts: a reader that missed the message finds it there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tessera_runtime import logs
from tessera_runtime.bus.outbox import Outbox
from tessera_runtime.kube.binding import PodKey
from tessera_runtime.kube.events import EventRecorder, of_pod
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
    PodOfPlan,
    encode_plan,
    plan_subject,
)

_log: Final = logs.named("tessera.rebalancer.plans")
_TYPES: Final[dict[type[PlanEvent], str]] = {
    PlanProposed: event_catalogue.PLAN_PROPOSED,
    PlanStarted: event_catalogue.PLAN_STARTED,
    PlanDone: event_catalogue.PLAN_DONE,
    PlanDeclined: event_catalogue.PLAN_DECLINED,
    PlanFailed: event_catalogue.PLAN_FAILED,
}


class PlanEvents:
    """Publishes plan events. Never waits, never raises."""

    def __init__(self, outbox: Outbox, events: EventRecorder, cluster: str) -> None:
        """`cluster` is the third token of the subjects."""
        self._outbox = outbox
        self._events = events
        self._cluster = cluster

    def publish_phase(self, plan: PlanObject) -> None:
        """Publish that the plan has entered its present phase."""
        status, spec = plan.status, plan.spec
        common: dict[str, Any] = {
            "plan": plan.name, "kind": spec.kind, "for_pod": spec.for_pod, "cost": spec.cost,
            "pods": tuple(step.pod for step in spec.steps), "gain": spec.gain,
            "message": status.message or spec.reason,
        }  # fmt: skip
        _log.info("plan", plan=plan.name, phase=status.phase, told=common["message"])
        match status.phase:
            case PlanPhase.PROPOSED:
                self._send(PlanProposed(**common, dry_run=spec.dry_run))
                self._record(plan, "RebalanceProposed", spec.reason)
            case PlanPhase.STARTED:
                self._send(PlanStarted(**common, decided_by=spec.decided_by))
                by = f" (approved by {spec.decided_by})" if spec.decided_by else ""
                self._record(plan, "RebalanceStarted", f"{spec.reason}{by}")
            case PlanPhase.DONE:
                self._send(PlanDone(**common))
                self._record(plan, "RebalanceDone", status.message or "all steps were done")
            case PlanPhase.DECLINED:
                self._send(PlanDeclined(**common))
                self._record(plan, "RebalanceDeclined", status.message)
            case PlanPhase.FAILED:
                self._send(PlanFailed(**common))
                self._record(plan, "RebalanceFailed", status.message, warning=True)

    def _record(self, plan: PlanObject, reason: str, text: str, *, warning: bool = False) -> None:
        for pod in _pods_of(plan):
            about = of_pod(PodKey(pod.namespace, pod.name, pod.uid))
            self._events.record(about, reason, f"plan {plan.name}: {text}", warning=warning)

    def _send(self, event: PlanEvent) -> None:
        self._outbox.publish(
            plan_subject(self._cluster, event), _TYPES[type(event)], encode_plan(event)
        )


def _pods_of(plan: PlanObject) -> Iterator[PodOfPlan]:
    """The pods of a plan, each once."""
    pods = {step.pod.uid: step.pod for step in plan.spec.steps}
    if plan.spec.for_pod is not None:
        pods[plan.spec.for_pod.uid] = plan.spec.for_pod
    yield from pods.values()
