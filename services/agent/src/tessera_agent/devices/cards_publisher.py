"""Publishes the node's cards: in the node's annotation, as state on the message bus, and as
Kubernetes Events about what went wrong or is well again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from tessera_agent.devices.cards import CardsState
from tessera_agent.devices.node_annotation import CardsAnnotationWriter
from tessera_core.dialect_kit.monitoring import MonitoringSpec
from tessera_runtime import logs
from tessera_runtime.kube.events import ObjectRef
from tessera_schema.messages.device_reports import DeviceState

_log: Final = logs.named("tessera.agent.cards")


class StateOutlet(Protocol):
    """Takes the state for the message bus."""

    def publish(self, state: DeviceState) -> None:
        """Publish the state. Never blocks, never raises."""


class EventOutlet(Protocol):
    """Takes Kubernetes Events."""

    def record(self, about: ObjectRef, reason: str, message: str, *, warning: bool = False) -> None:
        """Record an event about an object. Never blocks, never raises."""


class CardsPublisher:
    """Publishes one vendor's cards of one node. Never blocks, never raises."""

    def __init__(
        self, spec: MonitoringSpec, node: str, annotation: CardsAnnotationWriter,
        states: StateOutlet, events: EventOutlet, *, again_s: float,
    ) -> None:  # fmt: skip
        """`again_s`: seconds until an unchanged state is published again."""
        self._spec = spec
        self._node = ObjectRef("Node", node, uid=node)
        self.annotation = annotation
        self._states = states
        self._events = events
        self._again_s = again_s
        self._published_at = float("-inf")
        self.state = DeviceState(node=node, vendor=spec.vendor)
        """As last concluded; published once it is complete."""

    def publish(self, latest: CardsState, now: float, *, final: bool) -> None:
        """Publish what changed. `now` is the loop's time; what is not `final` is not published."""
        complete = final and latest.complete and bool(latest.cards or not self._spec.counted)
        if complete:
            self.annotation.want(latest.cards)
        problem = self.annotation.problem
        state = DeviceState(
            node=self._node.name, vendor=self._spec.vendor, cards=latest.cards,
            driver=latest.driver, problems=(*latest.problems, *((problem,) if problem else ())),
        )  # fmt: skip
        new = tuple(p for p in state.problems if p not in self.state.problems)
        self.report(latest.back, warning=False)
        self.report(new, warning=True)
        if complete and (state != self.state or now >= self._published_at + self._again_s):
            self._states.publish(state)
            self._published_at = now
        self.state = state

    def report(self, sentences: Sequence[str], *, warning: bool) -> None:
        """Record each sentence as an event of the node."""
        for sentence in sentences:
            _log.warning("cards", vendor=self._spec.vendor, what=sentence)
            self._events.record(self._node, "Cards", sentence, warning=warning)
