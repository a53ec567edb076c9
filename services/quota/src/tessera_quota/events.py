"""What is published when a quota's phase changes: messages on the bus, Kubernetes Events for
people.

The status on the object is what lasts: a reader that missed the message finds it there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tessera_core.quota.objects import VERSION
from tessera_quota.idle_grants import IdlePod
from tessera_quota.quota_objects import AcceleratorQuotaSummary
from tessera_quota.quota_state import PhaseChange
from tessera_runtime import logs
from tessera_runtime.bus.outbox import Outbox
from tessera_runtime.kube import timestamps
from tessera_runtime.kube.binding import PodKey
from tessera_runtime.kube.events import EventRecorder, ObjectRef, of_pod
from tessera_schema.annotation_keys import GROUP, QUOTA_KIND
from tessera_schema.messages import event_catalogue
from tessera_schema.quotas import (
    QuotaEvent,
    QuotaExceeded,
    QuotaRestored,
    QuotaStatus,
    QuotaThrottled,
    encode_quota,
    quota_subject,
)

_log: Final = logs.named("tessera.quota")
_TYPES: Final[dict[type[QuotaEvent], str]] = {
    QuotaExceeded: event_catalogue.QUOTA_EXCEEDED,
    QuotaThrottled: event_catalogue.QUOTA_THROTTLED,
    QuotaRestored: event_catalogue.QUOTA_RESTORED,
}


class QuotaEvents:
    """Publishes quota events. Never waits, never raises."""

    def __init__(self, outbox: Outbox, events: EventRecorder, cluster: str) -> None:
        """`cluster` is the third token of the subjects."""
        self._outbox = outbox
        self._events = events
        self._cluster = cluster
        self._idle: dict[str, float] = {}

    def publish_change(
        self, quota: AcceleratorQuotaSummary, status: QuotaStatus, change: PhaseChange
    ) -> None:
        """Publish that the quota has entered another phase."""
        _log.info("quota", quota=quota.key, phase=status.phase, told=status.message)
        match change:
            case PhaseChange.EXCEEDED:
                then = f"; its cores are lowered at {status.throttles_at}"
                self._send(_exceeded(quota, status))
                text = status.message + (then if status.throttles_at else "")
                self._event(quota, "QuotaExceeded", text, warning=True)
            case PhaseChange.THROTTLED:
                self._send(_throttled(quota, status))
                text = f"{status.message}; cores are lowered to {status.cores_percent:g} percent"
                self._event(quota, "QuotaThrottled", text, warning=True)
            case PhaseChange.RESTORED:
                self._send(_restored(quota))
                self._event(quota, "QuotaRestored", "no more is used than may be", warning=False)
            case PhaseChange.NOTHING:
                return

    def publish_throttle(self, quota: AcceleratorQuotaSummary, status: QuotaStatus) -> None:
        """Publish that a throttle is in force; no Kubernetes Event repeats it."""
        self._send(_throttled(quota, status))

    def publish_removal(self, quota: AcceleratorQuotaSummary) -> None:
        """Publish that a quota which was exceeded was deleted."""
        _log.info("quota gone", quota=quota.key)
        self._send(_restored(quota))

    def publish_idle(self, idle: IdlePod) -> None:
        """Record once that a pod's cards are idle."""
        pod, since, _ = idle
        if self._idle.get(pod.uid) == since:
            return
        self._idle[pod.uid] = since
        about = of_pod(PodKey(pod.namespace, pod.name, pod.uid))
        text = f"holds cards and has used no GPU time since {timestamps.format_time(since)}"
        self._events.record(about, "IdleGrant", text)

    def forget_idle(self, is_measured: Callable[[str], bool]) -> None:
        """Forget the pods of which nothing is measured any more."""
        for uid in [uid for uid in self._idle if not is_measured(uid)]:
            del self._idle[uid]

    def _event(
        self, quota: AcceleratorQuotaSummary, reason: str, text: str, *, warning: bool
    ) -> None:
        about = ObjectRef(
            QUOTA_KIND, quota.of.name, quota.of.namespace, quota.of.uid, f"{GROUP}/{VERSION}"
        )
        self._events.record(about, reason, text, warning=warning)

    def _send(self, event: QuotaEvent) -> None:
        self._outbox.publish(
            quota_subject(self._cluster, event), _TYPES[type(event)], encode_quota(event)
        )


def _group(quota: AcceleratorQuotaSummary) -> tuple[str, ...]:
    return quota.limit.group if quota.limit is not None else (quota.of.namespace,)


def _exceeded(quota: AcceleratorQuotaSummary, status: QuotaStatus) -> QuotaExceeded:
    return QuotaExceeded(
        namespace=quota.of.namespace,
        quota=quota.of.name,
        message=status.message,
        namespaces=_group(quota),
        throttles_at=status.throttles_at,
    )


def _throttled(quota: AcceleratorQuotaSummary, status: QuotaStatus) -> QuotaThrottled:
    return QuotaThrottled(
        namespace=quota.of.namespace, quota=quota.of.name, message=status.message,
        cores_percent=status.cores_percent, namespaces=_group(quota),
        vendor=quota.limit.vendor if quota.limit is not None else "",
    )  # fmt: skip


def _restored(quota: AcceleratorQuotaSummary) -> QuotaRestored:
    return QuotaRestored(
        namespace=quota.of.namespace, quota=quota.of.name, namespaces=_group(quota)
    )
