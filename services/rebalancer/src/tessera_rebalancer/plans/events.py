"""What is published about plans: messages on the bus, Kubernetes Events on the pods concerned.

The RebalancePlan itself is what lasts: a reader that missed the message finds it there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tessera_runtime import logs
from tessera_runtime.bus.outbox import Outbox
from tessera_runtime.kube.binding import PodKey
from tessera_runtime.kube.events import EventRecorder, of_pod
from tessera_runtime.plans.plan_publisher import PlanPublisher
from tessera_runtime.plans.plan_store import PlanObject
from tessera_schema.plans import PlanPhase, PodOfPlan

_log: Final = logs.named("tessera.rebalancer.plans")


class PlanEvents:
    """Publishes plan events. Never waits, never raises."""

    def __init__(self, outbox: Outbox, events: EventRecorder, cluster: str) -> None:
        """`cluster` is the third token of the subjects."""
        self._publisher = PlanPublisher(outbox, cluster)
        self._events = events

    def publish_phase(self, plan: PlanObject) -> None:
        """Publish that the plan has entered its present phase."""
        status, spec = plan.status, plan.spec
        _log.info("plan", plan=plan.name, phase=status.phase, told=status.message or spec.reason)
        self._publisher.publish_phase(plan)
        match status.phase:
            case PlanPhase.PROPOSED:
                self._record(plan, "RebalanceProposed", spec.reason)
            case PlanPhase.STARTED:
                by = f" (approved by {spec.decided_by})" if spec.decided_by else ""
                self._record(plan, "RebalanceStarted", f"{spec.reason}{by}")
            case PlanPhase.DONE:
                self._record(plan, "RebalanceDone", status.message or "all steps were done")
            case PlanPhase.DECLINED:
                self._record(plan, "RebalanceDeclined", status.message)
            case PlanPhase.FAILED:
                self._record(plan, "RebalanceFailed", status.message, warning=True)

    def _record(self, plan: PlanObject, reason: str, text: str, *, warning: bool = False) -> None:
        for pod in _pods_of(plan):
            about = of_pod(PodKey(pod.namespace, pod.name, pod.uid))
            self._events.record(about, reason, f"plan {plan.name}: {text}", warning=warning)


def _pods_of(plan: PlanObject) -> Iterator[PodOfPlan]:
    """The pods of a plan, each once."""
    pods = {step.pod.uid: step.pod for step in plan.spec.steps}
    if plan.spec.for_pod is not None:
        pods[plan.spec.for_pod.uid] = plan.spec.for_pod
    yield from pods.values()
