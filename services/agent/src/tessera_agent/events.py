"""What the agent tells of containers: news on the bus, events on pods, counts, log lines.

Telling never waits and never fails. What is wrong with a pod is told once, then counted for a
while, because kubelet asks about a refused container again and again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.node.container_admission import RefusalReason
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
_REMEMBERED: Final = 4096
_AGAIN_S: Final = 600.0
"""Seconds until the same is told of the same container again."""


class ContainerAlert(StrEnum):
    """What somebody should look at besides refusals; the reason of its event."""

    UNLIMITED = "StartedWithoutAgent"
    """A container that holds shares was created while no agent was asked: nothing limits it."""
    UNGRANTED = "CardsWithoutGrant"
    """A container that holds nothing was created while no agent was asked, and sees cards."""
    AMBIGUOUS = "AllocationAmbiguous"
    """Kubelet asks for one of several containers, and nothing tells for which."""
    UNCLAIMED = "AllocationUnclaimed"
    """Kubelet asks for a container, and there is none that it could be."""
    MISMATCH = "AllocatedToAnother"
    """Kubelet counts for another container what this one was given."""
    OTHER_CARDS = "OtherCardsGiven"
    """The vendor's plugin gave a container other cards than its pod was granted."""
    NOT_ENFORCED = "LimitsNotEnforced"
    """Its hook, or the driver, shows that its limits do not hold."""


class EventOutlets(Struct, frozen=True, kw_only=True):
    """Where it goes."""

    outbox: Outbox
    events: EventRecorder
    cluster: str
    node: str
    vendor: str
    now: Callable[[], float]
    """A clock that never jumps."""


class EventPublisher:
    """Tells."""

    def __init__(self, outlets: EventOutlets, metrics: MetricsRegistry) -> None:
        """Nothing was told."""
        self._to = outlets
        self._metrics = metrics
        self._told: dict[tuple[str, str], float] = {}
        self._refusals: Counter[str] = Counter(dict.fromkeys(RefusalReason, 0))
        self._alarms: Counter[str] = Counter(
            dict.fromkeys((*(w for w in RefusalReason if w.needs_alert), *ContainerAlert), 0)
        )
        self.prepared_count = 0
        """Containers that were given shares."""
        metrics.collect(self._collect)

    def prepared(self, pod: PodSandbox, container: str, traceparent: str) -> None:
        """A container was given its cards."""
        self.prepared_count += 1
        event = events.AllocationPrepared(
            namespace=pod.namespace, uid=pod.uid, name=pod.name, node=self._to.node,
            container=container,
        )  # fmt: skip
        self._tell(event, event_catalogue.ALLOCATION_PREPARED, traceparent)

    def running(self, pod: PodSandbox, container: str, traceparent: str) -> None:
        """A container that holds shares has started."""
        event = events.AllocationRunning(
            namespace=pod.namespace, uid=pod.uid, name=pod.name, node=self._to.node,
            container=container,
        )  # fmt: skip
        self._tell(event, event_catalogue.ALLOCATION_RUNNING, traceparent)

    def refused(self, pod: PodSandbox, container: str, why: RefusalReason, message: str) -> None:
        """A container was not created."""
        self._refusals[why] += 1
        if why.needs_alert:
            self._alarms[why] += 1
        self._event(pod, container, why, message)

    def alert(self, pod: PodSandbox, container: str, alarm: ContainerAlert, message: str) -> None:
        """Something is wrong with a container that runs."""
        self._alarms[alarm] += 1
        self._event(pod, container, alarm, message)

    def unclaimed(self, message: str) -> None:
        """Something is wrong with a pod that nobody can name; kubelet tells it why."""
        self._alarms[ContainerAlert.UNCLAIMED] += 1
        _log.warning(str(ContainerAlert.UNCLAIMED), told=message)

    def usage(self, usage: NodeUsage) -> None:
        """What was measured."""
        subject = subjects.usage(self._to.cluster, self._to.node)
        self._to.outbox.publish(subject, event_catalogue.USAGE_MEASURED, encode(usage))

    def _tell(self, event: events.AllocationEvent, type_: str, traceparent: str) -> None:
        subject = events.subject(self._to.cluster, event)
        self._to.outbox.publish(subject, type_, events.encode_event(event), traceparent)

    def _event(self, pod: PodSandbox, container: str, reason: StrEnum, message: str) -> None:
        key, now = (f"{pod.uid}/{container}", str(reason)), self._to.now()
        last = self._told.pop(key, None)
        if last is not None and now - last < _AGAIN_S:
            self._told[key] = last
            return
        self._told[key] = now
        if len(self._told) > _REMEMBERED:
            del self._told[next(iter(self._told))]
        name = f"{pod.namespace}/{pod.name}"
        _log.warning(str(reason), pod=name, uid=pod.uid, container=container, told=message)
        about = of_pod(PodKey(pod.namespace, pod.name, pod.uid))
        text = f"container {container}: {message}"
        self._to.events.record(about, str(reason), text, warning=True)

    def _collect(self) -> Iterable[Metric]:
        full = self._metrics.full
        prepared = CounterMetricFamily(full("prepared"), "Containers given shares.")
        prepared.add_metric((), self.prepared_count)
        refusals = CounterMetricFamily(full("refusals"), "Containers refused.", labels=("why",))
        alarms = CounterMetricFamily(full("alarms"), "What to look at.", labels=("what",))
        for family, counts in ((refusals, self._refusals), (alarms, self._alarms)):
            for name, count in counts.items():
                family.add_metric((str(name),), count)
        yield from (prepared, refusals, alarms)


class DeviceStatePublisher:
    """The cards' state with what containers hold of them, and which of those outlived their pods.

    A change of what is held is told with the next state; the audit that it is for takes its time.
    """

    def __init__(
        self, outbox: Outbox, node: str, vendor: str, held: Callable[[], tuple[CardHeld, ...]]
    ) -> None:
        """Nothing is told before there is a state."""
        self._outbox = outbox
        self._held = held
        self._key = f"{subjects.token(node)}.{vendor}"
        self._state: DeviceState | None = None
        self._occupied: tuple[Occupied, ...] = ()

    def publish(self, state: DeviceState) -> None:
        """The cards, as `devices` sees them."""
        self._state = state
        self._send(state)

    def occupy(self, occupied: Sequence[Occupied]) -> None:
        """What such containers hold; told at once when it changes."""
        if tuple(occupied) == self._occupied:
            return
        self._occupied = tuple(occupied)
        _log.info("shares held without a pod", pods=[o.name for o in self._occupied])
        if self._state is not None:
            self._send(self._state)

    def _send(self, state: DeviceState) -> None:
        told = encode(replace(state, occupied=self._occupied, held=self._held()))
        self._outbox.publish_state(
            subjects.DEVICES_BUCKET, self._key, event_catalogue.DEVICE_STATE, told
        )
