"""A cluster as it was read, in the objects that checks compare."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from tessera_core.dialect_kit.monitoring import CompetingSystem, MonitoringSpec
from tessera_core.preflight.objects import (
    NAME_LABEL,
    PART_OF,
    PRODUCT,
    VENDOR_LABEL,
    ConfigMapFacts,
    EventFacts,
    LeaseFacts,
    NodeFacts,
    PodFacts,
    PolicyBinding,
    PolicyFacts,
    RuntimeClassFacts,
    WebhookRegistration,
    WorkloadFacts,
)
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.annotation_keys import CARDS_LABEL, CARDS_PREFIX, SCHEDULER
from tessera_schema.node_cards import NodeCardsAnnotation, decode_node_cards

NAMESPACE: Final = "tessera-system"
LEASES: Final = "tessera-agent-leases"
AGENT: Final = "tessera-agent"

SOURCES: Final = (
    "version", "clock", "nodes", "deployments", "daemonsets", "statefulsets", "pods", "leases",
    "policies", "policybindings", "mutatingwebhooks", "validatingwebhooks", "configmaps", "secrets",
    "runtimeclasses", "events",
)  # fmt: skip


class ClockReading(Struct, frozen=True, kw_only=True):
    """The API server's clock next to the caller's, in Unix seconds."""

    server_s: float
    own_s: float


class InstallationSnapshot(Struct, frozen=True, kw_only=True, dict=True):
    """A cluster as it was read. What could not be read is empty, and named in `unread`."""

    registry: DialectRegistry
    vendors: Mapping[str, MonitoringSpec]
    server_version: str = ""
    clock: ClockReading | None = None
    nodes: tuple[NodeFacts, ...] = ()
    deployments: tuple[WorkloadFacts, ...] = ()
    """Those of all namespaces, as the next two."""
    daemonsets: tuple[WorkloadFacts, ...] = ()
    statefulsets: tuple[WorkloadFacts, ...] = ()
    pods: tuple[PodFacts, ...] = ()
    """Those of Tessera's namespace."""
    leases: tuple[LeaseFacts, ...] = ()
    """Those of agents: name -> `agent.<vendor>.<node>`."""
    renewed_s: Mapping[str, float] = {}
    """Lease -> its `renewTime` in Unix seconds, by its agent's clock."""
    written_s: Mapping[str, float] = {}
    """Lease -> when it was last written in Unix seconds, by the API server's clock."""
    policies: tuple[PolicyFacts, ...] = ()
    policybindings: tuple[PolicyBinding, ...] = ()
    mutatingwebhooks: tuple[WebhookRegistration, ...] = ()
    validatingwebhooks: tuple[WebhookRegistration, ...] = ()
    configmaps: tuple[ConfigMapFacts, ...] = ()
    configuration: Mapping[str, Any] | UnsetType = UNSET
    """kube-scheduler's configuration; unset = there is none, or it is no YAML mapping."""
    secrets: Mapping[str, frozenset[str]] = {}
    """Secret -> its keys; those that are not there are left out."""
    runtimeclasses: tuple[RuntimeClassFacts, ...] = ()
    events: tuple[EventFacts, ...] = ()
    """Those with the reasons of `ALERTS`."""
    unread: Mapping[str, str] = {}
    """Source -> why it could not be read."""
    missing: frozenset[str] = frozenset()
    """Sources whose kind the API server does not serve."""

    @property
    def competing_systems(self) -> tuple[CompetingSystem, ...]:
        """What else hands out cards of the vendors."""
        return tuple(s for spec in self.vendors.values() for s in spec.competing_systems)

    @property
    def workloads(self) -> tuple[WorkloadFacts, ...]:
        """Everything that makes pods."""
        return (*self.deployments, *self.statefulsets, *self.daemonsets)

    @property
    def own(self) -> tuple[WorkloadFacts, ...]:
        """What of it is Tessera's, in its namespace."""
        return tuple(w for w in self.workloads if w.part and w.metadata.namespace == NAMESPACE)

    @property
    def installed(self) -> bool:
        """Whether anything of Tessera is installed, as far as that can be read."""
        return bool(self.own or self.pods) or any(
            c.metadata.labels.get(PART_OF) == PRODUCT for c in self.configmaps
        )

    @property
    def scheduler(self) -> WorkloadFacts | None:
        """The scheduler's Deployment."""
        return next((w for w in self.own if w.part == SCHEDULER), None)

    @property
    def agents(self) -> tuple[WorkloadFacts, ...]:
        """The agents' DaemonSets, one a vendor."""
        return tuple(w for w in self.own if w.part == AGENT)

    @cached_property
    def agents_on(self) -> Mapping[str, tuple[WorkloadFacts, ...]]:
        """Node -> the agents that run on it."""
        selectors = [(agent, agent.selector) for agent in self.agents]
        return {
            node.name: tuple(a for a, selects in selectors if selects(node)) for node in self.nodes
        }

    @cached_property
    def agent_pods(self) -> Mapping[tuple[str, str], PodFacts]:
        """Vendor and node -> the pod of the vendor's agent there."""
        return {
            (pod.metadata.labels.get(VENDOR_LABEL, ""), pod.spec.node_name): pod
            for pod in self.pods
            if pod.metadata.labels.get(NAME_LABEL) == AGENT
        }

    @cached_property
    def published(self) -> tuple[tuple[NodeFacts, str, NodeCardsAnnotation | str], ...]:
        """Node, vendor, and what its agent publishes there; text where that cannot be read, empty
        where there is nothing."""
        return tuple(
            (node, agent.vendor, _annotation(node, agent.vendor))
            for node in self.nodes
            for agent in self.agents_on[node.name]
        )

    @cached_property
    def card_nodes(self) -> tuple[NodeFacts, ...]:
        """Nodes on which an agent runs, or would run once Tessera is installed."""
        if self.agents:
            return tuple(node for node in self.nodes if self.agents_on[node.name])
        return tuple(node for node in self.nodes if self.labelled_for(node))

    @cached_property
    def nri_nodes(self) -> tuple[NodeFacts, ...]:
        """Those of `card_nodes` on which the runtime has to call an agent: of a vendor whose
        containers are limited by it."""
        limited = {v.name for v in self.registry.vendors.values() if v.hooked}
        if not self.agents:
            return tuple(n for n in self.nodes if limited & set(self.labelled_for(n)))
        called = {a.name for a in self.agents if a.vendor in limited and not a.allocates}
        return tuple(n for n in self.nodes if called & {a.name for a in self.agents_on[n.name]})

    def labelled_for(self, node: NodeFacts) -> tuple[str, ...]:
        """Vendors whose labels the node has."""
        labels = node.metadata.labels
        return tuple(
            vendor.name
            for vendor in self.registry.vendors.values()
            if labels.get(CARDS_LABEL) == vendor.name
            or any(labels.get(key) == value for key, value in vendor.labels.items())
        )

    def narrowed(self, node: str) -> InstallationSnapshot:
        """The same with one node alone; with none where there is none of that name."""

        def of_node(times: Mapping[str, float]) -> dict[str, float]:
            return {k: v for k, v in times.items() if k.split(".", 2)[-1] == node}

        return replace(
            self,
            nodes=tuple(n for n in self.nodes if n.name == node),
            pods=tuple(p for p in self.pods if p.spec.node_name == node),
            events=tuple(e for e in self.events if e.source.host == node),
            renewed_s=of_node(self.renewed_s),
            written_s=of_node(self.written_s),
        )


def _annotation(node: NodeFacts, vendor: str) -> NodeCardsAnnotation | str:
    text = node.metadata.annotations.get(f"{CARDS_PREFIX}{vendor}", "")
    try:
        return decode_node_cards(text) if text else ""
    except msgspec.DecodeError as e:
        return str(e)
