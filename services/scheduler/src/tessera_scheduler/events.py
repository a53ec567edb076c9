"""The scheduler's events on the bus: cards granted, released, refused, and what becomes of plans.

They are no truth, and nothing waits for them. A pod that waits has one event for each reason, not
one for each attempt.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from tessera_core.explain.refusals import WaitingPodMessages
from tessera_core.scheduling.filter import FilterAnswer
from tessera_runtime.bus.outbox import Outbox
from tessera_runtime.plans.plan_publisher import PlanPublisher
from tessera_runtime.plans.plan_store import PlanObject
from tessera_runtime.tracing import tracing
from tessera_scheduler.leadership.leader import Leadership
from tessera_schema.annotation_keys import TRACE_KEY
from tessera_schema.grants import Grant
from tessera_schema.messages.allocation_events import (
    AllocationEvent,
    AllocationGranted,
    AllocationRefused,
    AllocationReleased,
    encode_event,
    subject,
)
from tessera_schema.reasons import Reason
from tessera_schema.verdicts import Verdict

REMEMBERED: Final = 20_000


class RefusedPod(NamedTuple):
    """What a pod was answered last."""

    verdict: Verdict
    reason: Reason
    namespace: str
    created: str
    """RFC 3339; empty where it is not known."""


class AllocationEvents:
    """Publishes what happens to pods that ask for cards."""

    def __init__(
        self,
        outbox: Outbox,
        cluster: str,
        refusals: WaitingPodMessages,
        leadership: Leadership,
    ) -> None:
        """Only the holder of the Lease publishes what a watch shows, which all replicas see."""
        self._outbox = outbox
        self._refusals = refusals
        self._cluster = cluster
        self._leadership = leadership
        self._refused: dict[str, RefusedPod] = {}

    @property
    def waiting(self) -> int:
        """How many pods were refused last time, and are not gone."""
        return len(self._refused)

    def refused(self) -> Collection[RefusedPod]:
        """Those pods; none on a replica that does not lead."""
        return self._refused.values() if self._leadership.holds else ()

    def answered(self, answer: FilterAnswer, traceparent: str) -> None:
        """Publish a refusal that a filter call was answered, where it is another than before."""
        if answer.pod is None:
            return
        meta = answer.pod.metadata
        if answer.reason is None or answer.verdict not in (Verdict.WAITING, Verdict.REJECTED):
            self._refused.pop(meta.uid, None)
            return
        namespace = meta.namespace or "default"
        known = RefusedPod(answer.verdict, answer.reason, namespace, meta.creation_timestamp or "")
        if self._refused.pop(meta.uid, None) != known:
            message = answer.message or self._refusals.sentence(answer.pod, answer.reason)
            self._publish(
                AllocationRefused(
                    namespace=namespace, uid=meta.uid, reason=answer.reason, message=message
                ),
                traceparent,
            )  # fmt: skip
        self._refused[meta.uid] = known
        if len(self._refused) > REMEMBERED:
            del self._refused[next(iter(self._refused))]

    def granted(self, grant: Grant) -> None:
        """Publish that a pod is bound with its cards."""
        self._refused.pop(grant.uid, None)
        self._publish(AllocationGranted(grant=grant), tracing.current_traceparent())

    def released(self, grant: Grant) -> None:
        """Publish that a bound pod's cards are free again."""
        if self._leadership.holds:
            self._publish(
                AllocationReleased(namespace=grant.namespace, uid=grant.uid, node=grant.node), ""
            )

    def forget(self, uid: str) -> None:
        """Forget a pod that has ended."""
        self._refused.pop(uid, None)

    def _publish(self, event: AllocationEvent, traceparent: str) -> None:
        where = subject(self._cluster, event)
        kind = f"dev.tessera.allocation.{where.rpartition('.')[2]}"
        self._outbox.publish(where, kind, encode_event(event), traceparent)


class SchedulerPlanEvents:
    """Publishes what becomes of the scheduler's own plans."""

    def __init__(self, outbox: Outbox, cluster: str, leadership: Leadership) -> None:
        """All replicas watch plans; only the one that leads publishes."""
        self._publisher = PlanPublisher(outbox, cluster)
        self._leadership = leadership

    def entered(self, plan: PlanObject) -> None:
        """Publish that the plan has entered its present phase."""
        if self._leadership.leads:
            self._publisher.publish_phase(plan)


def trace_of(annotations: dict[str, str]) -> str:
    """The trace that the pod's admission opened; empty when there is none."""
    return annotations.get(TRACE_KEY, "")
