"""What the agent reports of containers: messages on the bus, events on pods, counts, log lines.

Reporting never waits and never fails. What is wrong with a pod is reported once, then only counted
for a while, because kubelet asks about a refused container again and again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Final, TypeVar

from msgspec.structs import replace

from tessera_core.node.container_admission import RefusalReason
from tessera_core.node.usage_digests import NodeUsageDigests
from tessera_kubelet.nri.types import PodSandbox
from tessera_runtime import logs
from tessera_runtime.bus.outbox import Outbox
from tessera_runtime.kube.binding import PodKey
from tessera_runtime.kube.events import EventRecorder, of_pod
from tessera_runtime.metrics import CounterMetricFamily, Metric, MetricsRegistry
from tessera_schema import subjects
from tessera_schema.messages import allocation_events as events
from tessera_schema.messages import event_catalogue
from tessera_schema.messages.device_reports import (
    CardHeld,
    DeviceState,
    NodeUsage,
    Occupied,
    encode,
)

_log: Final = logs.named("tessera.agent.containers")
E = TypeVar("E", events.AllocationPrepared, events.AllocationRunning)
_REMEMBERED: Final = 4096
_AGAIN_S: Final = 600.0
"""Seconds until the same event of the same container is recorded again."""


class ContainerAlert(StrEnum):
    """What a person should look at besides refusals; the reason of its event."""

    UNLIMITED = "StartedWithoutAgent"
    """A container that holds shares was created without the agent: nothing limits it."""
    UNGRANTED = "CardsWithoutGrant"
    """A container that holds nothing was created without the agent, and sees cards."""
    AMBIGUOUS = "AllocationAmbiguous"
    """Kubelet asks for one of several containers, and nothing says for which."""
    UNCLAIMED = "AllocationUnclaimed"
    """Kubelet asks for a container, and none fits."""
    MISMATCH = "AllocatedToAnother"
    """Kubelet counts for another container what this one was given."""
    NOT_ALIGNED = "NumaNotAligned"
    """Kubelet aligned the container with another NUMA node than that of its cards."""
    OTHER_CARDS = "OtherCardsGiven"
    """The vendor's plugin gave a container other cards than its pod was granted."""
    NOT_ENDED = "BestEffortNotEnded"
    """An owner waits for memory, and a best-effort container could not be ended for it."""
    NOT_ENFORCED = "LimitsNotEnforced"
    """Its hook, or the driver, shows that its limits do not hold."""


class ContainerEnd(StrEnum):
    """Why the agent ended a container; the reason of its event."""

    RECLAIMED = "MemoryReclaimed"
    """It is best-effort, and an owner waited for memory of its card."""


class EventPublisher:
    """Publishes container events to the bus and as Kubernetes Events. Never blocks, never raises.
    Call it on the loop."""

    def __init__(
        self, outbox: Outbox, recorder: EventRecorder, metrics: MetricsRegistry,
        digests: NodeUsageDigests, *, cluster: str, node: str,
    ) -> None:  # fmt: skip
        self._outbox = outbox
        self._digests = digests
        self._recorder = recorder
        self._metrics = metrics
        self._cluster = cluster
        self._node = node
        self._recorded_at: dict[tuple[str, str], float] = {}
        self._refusals: Counter[str] = Counter(dict.fromkeys(RefusalReason, 0))
        self._alerts: Counter[str] = Counter(
            dict.fromkeys((*(w for w in RefusalReason if w.needs_alert), *ContainerAlert), 0)
        )
        self.prepared_count = 0
        """Containers that were given shares."""
        self.prepare_seconds: Final = metrics.histogram(
            "prepare_seconds", "From the question about a container with a grant to its answer"
        )
        metrics.collect(self._collect)

    def prepared(self, pod: PodSandbox, container: str, traceparent: str) -> None:
        """A container was given its cards."""
        self.prepared_count += 1
        event = self._about(events.AllocationPrepared, pod, container)
        self._publish(event, event_catalogue.ALLOCATION_PREPARED, traceparent)

    def running(self, pod: PodSandbox, container: str, traceparent: str) -> None:
        """A container that holds shares has started."""
        event = self._about(events.AllocationRunning, pod, container)
        self._publish(event, event_catalogue.ALLOCATION_RUNNING, traceparent)

    def refused(self, pod: PodSandbox, container: str, why: RefusalReason, message: str) -> None:
        """A container was not created."""
        self._refusals[why] += 1
        if why.needs_alert:
            self._alerts[why] += 1
        self._record(pod, container, why, message)

    def alert(self, pod: PodSandbox, container: str, alert: ContainerAlert, message: str) -> None:
        """Something is wrong with a container that runs."""
        self._alerts[alert] += 1
        self._record(pod, container, alert, message)

    def ended(self, pod: PodSandbox, container: str, why: ContainerEnd, message: str) -> None:
        """A container has to end; the caller has seen to it."""
        self._record(pod, container, why, message)

    def unclaimed(self, message: str) -> None:
        """Something is wrong with a pod that cannot be named; kubelet's answer says what."""
        self._alerts[ContainerAlert.UNCLAIMED] += 1
        _log.warning(str(ContainerAlert.UNCLAIMED), told=message)

    def usage(self, usage: NodeUsage) -> None:
        """Usage was measured: digests that are due are published."""
        self._publish_usage(self._digests.add(usage))

    def last_usage(self) -> None:
        """Nothing is measured any more: what was, and is not published yet, is published."""
        self._publish_usage(self._digests.rest())

    def _publish_usage(self, digests: Iterable[NodeUsage]) -> None:
        subject = subjects.usage(self._cluster, self._node)
        for digest in digests:
            self._outbox.publish(subject, event_catalogue.USAGE_MEASURED, encode(digest))

    def _about(self, kind: type[E], pod: PodSandbox, container: str) -> E:
        return kind(
            namespace=pod.namespace, uid=pod.uid, name=pod.name, node=self._node,
            container=container,
        )  # fmt: skip

    def _publish(self, event: events.AllocationEvent, type_: str, traceparent: str) -> None:
        subject = events.subject(self._cluster, event)
        self._outbox.publish(subject, type_, events.encode_event(event), traceparent)

    def _record(self, pod: PodSandbox, container: str, reason: StrEnum, message: str) -> None:
        key, now = (f"{pod.uid}/{container}", str(reason)), asyncio.get_running_loop().time()
        last = self._recorded_at.pop(key, None)
        if last is not None and now - last < _AGAIN_S:
            self._recorded_at[key] = last
            return
        self._recorded_at[key] = now
        if len(self._recorded_at) > _REMEMBERED:
            del self._recorded_at[next(iter(self._recorded_at))]
        name = f"{pod.namespace}/{pod.name}"
        _log.warning(str(reason), pod=name, uid=pod.uid, container=container, told=message)
        about = of_pod(PodKey(pod.namespace, pod.name, pod.uid))
        text = f"container {container}: {message}"
        self._recorder.record(about, str(reason), text, warning=True)

    def _collect(self) -> Iterable[Metric]:
        full = self._metrics.full
        prepared = CounterMetricFamily(full("prepared"), "Containers given shares.")
        prepared.add_metric((), self.prepared_count)
        refusals = CounterMetricFamily(full("refusals"), "Containers refused.", labels=("why",))
        alerts = CounterMetricFamily(full("alarms"), "What to look at.", labels=("what",))
        for family, counts in ((refusals, self._refusals), (alerts, self._alerts)):
            for name, count in counts.items():
                family.add_metric((str(name),), count)
        yield from (prepared, refusals, alerts)


class DeviceStatePublisher:
    """Publishes the cards' state with what containers hold of them, and which of those outlived
    their pods.

    A change of what is held is published with the next state; the audit that reads it has time.
    """

    def __init__(
        self, outbox: Outbox, node: str, vendor: str, held: Callable[[], tuple[CardHeld, ...]]
    ) -> None:
        self._outbox = outbox
        self._held = held
        self._key = f"{subjects.token(node)}.{vendor}"
        self._state: DeviceState | None = None
        self._occupied: tuple[Occupied, ...] = ()

    def publish(self, state: DeviceState) -> None:
        """Publish the cards' state; `held` and `occupied` are filled in here."""
        self._state = state
        self._send(state)

    def occupy(self, occupied: Sequence[Occupied]) -> None:
        """Set what containers hold whose pods are gone; a change is published at once."""
        if tuple(occupied) == self._occupied:
            return
        self._occupied = tuple(occupied)
        _log.info("shares held without a pod", pods=[o.name for o in self._occupied])
        if self._state is not None:
            self._send(self._state)

    def _send(self, state: DeviceState) -> None:
        message = encode(replace(state, occupied=self._occupied, held=self._held()))
        self._outbox.publish_state(
            subjects.DEVICES_BUCKET, self._key, event_catalogue.DEVICE_STATE, message
        )
