"""What is told when a quota's phase changes: news on the bus, Kubernetes Events for people.

The status on the object is what lasts; whoever missed the news finds it there.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from tessera_core.quota.objects import VERSION
from tessera_quota.pods import QuotaPodSummary
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
    """Tells; never waits, never fails."""

    def __init__(self, outbox: Outbox, events: EventRecorder, cluster: str) -> None:
        """Nothing was told yet."""
        self._outbox = outbox
        self._events = events
        self._cluster = cluster
        self._idle: dict[str, float] = {}

    def changed(
        self, sight: AcceleratorQuotaSummary, status: QuotaStatus, change: PhaseChange
    ) -> None:
        """The quota has entered another phase."""
        _log.info("quota", quota=sight.key, phase=status.phase, told=status.message)
        match change:
            case PhaseChange.EXCEEDED:
                then = f"; its cores are lowered at {status.throttles_at}"
                self._send(_exceeded(sight, status))
                text = status.message + (then if status.throttles_at else "")
                self._event(sight, "QuotaExceeded", text, warning=True)
            case PhaseChange.THROTTLED:
                self._send(_throttled(sight, status))
                text = f"{status.message}; cores are lowered to {status.cores_percent:g} percent"
                self._event(sight, "QuotaThrottled", text, warning=True)
            case PhaseChange.RESTORED:
                self._send(_restored(sight))
                self._event(sight, "QuotaRestored", "no more is used than may be", warning=False)
            case PhaseChange.NOTHING:
                return

    def again(self, sight: AcceleratorQuotaSummary, status: QuotaStatus) -> None:
        """A throttle is still in force."""
        self._send(_throttled(sight, status))

    def gone(self, sight: AcceleratorQuotaSummary) -> None:
        """A quota that was exceeded is no more."""
        _log.info("quota gone", quota=sight.key)
        self._send(_restored(sight))

    def idle(self, pod: QuotaPodSummary, since: float) -> None:
        """A pod's cards rest since then; told once."""
        if self._idle.get(pod.uid) == since:
            return
        self._idle[pod.uid] = since
        about = of_pod(PodKey(pod.namespace, pod.name, pod.uid))
        text = f"holds cards and has used no GPU time since {timestamps.format_time(since)}"
        self._events.record(about, "IdleGrant", text)

    def keep(self, uids: Set[str]) -> None:
        """Forget all other pods."""
        for uid in self._idle.keys() - uids:
            del self._idle[uid]

    def _event(
        self, sight: AcceleratorQuotaSummary, reason: str, text: str, *, warning: bool
    ) -> None:
        about = ObjectRef(
            QUOTA_KIND, sight.of.name, sight.of.namespace, sight.of.uid, f"{GROUP}/{VERSION}"
        )
        self._events.record(about, reason, text, warning=warning)

    def _send(self, event: QuotaEvent) -> None:
        self._outbox.publish(
            quota_subject(self._cluster, event), _TYPES[type(event)], encode_quota(event)
        )


def _group(sight: AcceleratorQuotaSummary) -> tuple[str, ...]:
    return sight.limit.group if sight.limit is not None else (sight.of.namespace,)


def _exceeded(sight: AcceleratorQuotaSummary, status: QuotaStatus) -> QuotaExceeded:
    return QuotaExceeded(
        namespace=sight.of.namespace,
        quota=sight.of.name,
        message=status.message,
        namespaces=_group(sight),
        throttles_at=status.throttles_at,
    )


def _throttled(sight: AcceleratorQuotaSummary, status: QuotaStatus) -> QuotaThrottled:
    return QuotaThrottled(
        namespace=sight.of.namespace, quota=sight.of.name, message=status.message,
        cores_percent=status.cores_percent, namespaces=_group(sight),
        vendor=sight.limit.vendor if sight.limit is not None else "",
    )  # fmt: skip


def _restored(sight: AcceleratorQuotaSummary) -> QuotaRestored:
    return QuotaRestored(
        namespace=sight.of.namespace, quota=sight.of.name, namespaces=_group(sight)
    )
