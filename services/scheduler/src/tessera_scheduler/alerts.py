"""What an operator should look at: reported once, as a log line and an event on the pod, and always
counted.

A pod that stays wrong is reported again only after a while; the number of pods remembered is
bounded, so that ten thousand forged pods cost ten thousand counts and no memory to speak of."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from tessera_runtime import logs
from tessera_runtime.kube.events import EventRecorder, ObjectRef
from tessera_runtime.metrics import Counter
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_scheduler.leadership.leader import Leadership

REMEMBERED: Final = 10_000
AGAIN_S: Final = 600.0
"""Seconds until the same is reported of the same pod again."""

_log = logs.named("tessera.scheduler.alarms")


class AlertReason(StrEnum):
    """What is wrong with a pod; the reason of its event, in Kubernetes' spelling."""

    FORGED = "ForgedGrant"
    """It carries a grant that Tessera's scheduler did not make for it, which does not count."""
    CHANGED = "GrantChanged"
    """It carries another grant than it was given. The one it was given counts, and is restored."""
    REMOVED = "GrantRemoved"
    """It has lost its grant, which counts, and is restored."""
    UNREADABLE = "GrantUnreadable"
    """Its grant is of another release: its node takes no more pods."""
    UNGRANTED = "CardsWithoutGrant"
    """It was bound by another scheduler, and asks for cards. It gets none."""
    NOT_STARTED = "StartsTooLong"
    """It is bound to a node where a device plugin allocates, and equal pods wait for it to start,
    or did."""
    AGENT_SILENT = "AgentSilent"
    """It is bound to a node whose agent does not renew its Lease, and has not started."""
    TAKEN_OVER = "GrantTakenOver"
    """It was placed by another system and could be read only in part."""


class Alert(Struct, frozen=True, kw_only=True):
    """One pod, and what is wrong with it."""

    wrong: AlertReason
    namespace: str
    name: str
    uid: str
    node: str
    text: str


class Alerts:
    """Reports alerts, each once in a while."""

    def __init__(
        self,
        counter: Counter,
        recorder: EventRecorder,
        leadership: Leadership,
        clock: MonotonicClock,
    ) -> None:
        """`counter` counts each alert by its reason. Only the replica that holds the Lease writes
        events."""
        self._counter = counter
        self._recorder = recorder
        self._leadership = leadership
        self._clock = clock
        self._reported: dict[tuple[str, AlertReason], float] = {}

    def forget(self) -> None:
        """Report everything again: the replica that reported it so far does not any more."""
        self._reported.clear()

    def raise_(self, alert: Alert) -> None:
        """Count it, and report it unless that was done lately."""
        self._counter.labels(alert.wrong).inc()
        key, now = (alert.uid, alert.wrong), self._clock.time()
        last = self._reported.get(key)
        if last is not None and now - last < AGAIN_S:
            return
        self._reported.pop(key, None)
        self._reported[key] = now
        if len(self._reported) > REMEMBERED:
            del self._reported[next(iter(self._reported))]
        _log.warning(
            str(alert.wrong), pod=f"{alert.namespace}/{alert.name}", uid=alert.uid,
            node=alert.node, told=alert.text,
        )  # fmt: skip
        if self._leadership.holds:
            pod = ObjectRef("Pod", alert.name, alert.namespace, alert.uid)
            self._recorder.record(pod, str(alert.wrong), f"the pod {alert.text}", warning=True)
