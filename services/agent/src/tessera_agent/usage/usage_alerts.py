"""What a measurement of a container shows: limits that do not hold, and its first use of a card."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tessera_agent.api.pods import NodePods
from tessera_agent.containers.holdings import ContainerRegistry, Holding
from tessera_agent.containers.hook_files import ContainerKey
from tessera_agent.events import ContainerAlert, EventPublisher
from tessera_runtime import logs
from tessera_runtime.tracing import tracing
from tessera_schema.messages.device_reports import ContainerUse

_log: Final = logs.named("tessera.agent.measuring")


class UsageAlerts:
    """Reports gaps in limits once each, and the first use of a card in the pod's trace."""

    def __init__(
        self, holdings: ContainerRegistry, pods: NodePods, publisher: EventPublisher
    ) -> None:
        self._holdings = holdings
        self._pods = pods
        self._publisher = publisher
        self._gaps: dict[ContainerKey, tuple[str, ...]] = {}
        self._used: set[str] = set()
        """Ids of containers that have used a card."""

    def check(self, uses: Iterable[ContainerUse]) -> None:
        """Report what is new in these measurements, and forget containers that are gone."""
        for use in uses:
            self._check(use)
        self._used &= {held.id for held in self._holdings}
        self._gaps = {key: gaps for key, gaps in self._gaps.items() if self._holdings.get(key)}

    def _check(self, use: ContainerUse) -> None:
        key = ContainerKey(uid=use.uid, container=use.container)
        held = self._holdings.get(key)
        if held is None:
            return
        if use.gaps and use.gaps != self._gaps.get(key):
            self._publisher.alert(
                held.pod, key.container, ContainerAlert.NOT_ENFORCED,
                f"limits may not hold: {', '.join(use.gaps)} (docs/agent.md says what these mean)",
            )  # fmt: skip
        self._gaps[key] = use.gaps
        if held.id not in self._used and any(card.last_active for card in use.cards):
            self._first_use(held, use)

    def _first_use(self, held: Holding, use: ContainerUse) -> None:
        self._used.add(held.id)
        if held.since == float("-inf"):
            return  # it ran before this agent did
        pod = held.pod
        with tracing.span(
            "tessera.agent.first_usage",
            parent=self._pods.traceparent(pod),
            pod=f"{pod.namespace}/{pod.name}", container=held.key.container,
            cards=",".join(card.card for card in use.cards),
        ):  # fmt: skip
            _log.info("first use", pod=f"{pod.namespace}/{pod.name}", container=use.container)
