"""A cluster's cards and their shares, kept up to date from whatever reads them.

Nodes and pods are the API server's, reports are what counts of the agents' messages. A node's row
is made again when something of it changed and somebody reads it, so that a cluster of 5,000 nodes
costs what changes of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct

from tessera_core.occupancy.node_rows import NodeParts, node_row
from tessera_core.occupancy.rows import CardTotals, NodeRow, WaitingRow, totals_of
from tessera_core.occupancy.summaries import (
    CardNode,
    CardPod,
    HoldingPod,
    NoCardsPod,
    UnplacedPod,
)
from tessera_schema.cards import Card
from tessera_schema.grants import Grant
from tessera_schema.messages.device_reports import DeviceState, NodeUsage

USAGE_S: Final = 60.0
"""Seconds for which a usage report counts: agents report every ten."""


class PodAnswer(Struct, frozen=True):
    """What the scheduler says about a pod that waits."""

    reason: str
    remedy: str = ""


class _Node(Struct):
    facts: CardNode | None = None
    pods: dict[str, HoldingPod] = {}
    usage: dict[str, tuple[NodeUsage, float]] = {}
    """Vendor -> its newest report, and when it came."""
    states: dict[str, DeviceState] = {}
    row: NodeRow | None = None
    totals: CardTotals = CardTotals()

    def parts(self, name: str) -> NodeParts:
        """What its row is made of."""
        return NodeParts(
            name=name, facts=self.facts, pods=self.pods.values(),
            usage=[usage for usage, _ in self.usage.values()], states=self.states.values(),
        )  # fmt: skip


class Occupancy:
    """Nodes, pods and reports. `generation` grows with each change."""

    def __init__(self) -> None:
        """Nothing is known."""
        self.generation = 0
        self._nodes: dict[str, _Node] = {}
        self._holding: dict[str, HoldingPod] = {}
        self._waiting: dict[str, UnplacedPod] = {}
        self._answers: Mapping[str, PodAnswer] = {}

    # -- what the API server has

    def put_node(self, node: CardNode) -> None:
        """A node as it is now."""
        self._changed(node.name).facts = node

    def remove_node(self, name: str) -> None:
        """The node is gone; pods on it keep what they hold until they are gone too."""
        if name in self._nodes:
            known = self._changed(name)
            known.facts, known.usage, known.states = None, {}, {}
            self._drop_empty(name)

    def put_pod(self, pod: CardPod) -> None:
        """A pod as it is now."""
        self.remove_pod(pod.uid)
        match pod:
            case HoldingPod():
                self._holding[pod.uid] = pod
                self._changed(pod.grant.node).pods[pod.uid] = pod
            case UnplacedPod():
                self._waiting[pod.uid] = pod
                self.generation += 1
            case NoCardsPod():
                pass

    def remove_pod(self, uid: str) -> None:
        """The pod is gone."""
        before = self._holding.pop(uid, None)
        if before is not None:
            self._changed(before.grant.node).pods.pop(uid, None)
            self._drop_empty(before.grant.node)
        if self._waiting.pop(uid, None) is not None:
            self.generation += 1

    def node_names(self) -> Collection[str]:
        """The nodes that the API server has."""
        return [name for name, node in self._nodes.items() if node.facts is not None]

    def cards_on(self, node: str) -> tuple[Card, ...]:
        """The cards that the node publishes."""
        known = self._nodes.get(node)
        return known.facts.cards if known is not None and known.facts is not None else ()

    def pods(self) -> Collection[str]:
        """The uids of all pods that hold cards or wait for them."""
        return [*self._holding, *self._waiting]

    def uids_on(self, node: str) -> dict[tuple[str, str], str]:
        """Namespace and name -> uid, of the pods that hold cards of a node."""
        known = self._nodes.get(node)
        pods = known.pods.values() if known is not None else ()
        return {(pod.grant.namespace, pod.grant.name): pod.uid for pod in pods}

    def grant_of(self, uid: str) -> Grant | None:
        """What a pod holds (`tessera_core.reports` asks)."""
        pod = self._holding.get(uid)
        return None if pod is None else pod.grant

    # -- what agents and the scheduler say

    def put_usage(self, usage: NodeUsage, now: float) -> None:
        """A report that counts; `now` is any steady clock's, in seconds."""
        self._changed(usage.node).usage[usage.vendor] = usage, now

    def put_state(self, state: DeviceState) -> None:
        """A device state that counts."""
        self._changed(state.node).states[state.vendor] = state

    def put_answers(self, answers: Mapping[str, PodAnswer]) -> None:
        """What the scheduler says about pods that wait, by uid."""
        if answers != self._answers:
            self._answers = answers
            self.generation += 1

    def expire(self, now: float) -> None:
        """Drop reports that are too old to count."""
        for name, node in self._nodes.items():
            late = [v for v, (_, since) in node.usage.items() if now - since > USAGE_S]
            for vendor in late:
                del self._changed(name).usage[vendor]

    def measured(self) -> set[str]:
        """Nodes of which a usage report counts."""
        return {name for name, node in self._nodes.items() if node.usage}

    # -- rows

    def rows(self) -> list[NodeRow]:
        """All nodes that have cards, or on which pods hold some, in the order of their names."""
        made = (self._row(name) for name in sorted(self._nodes))
        return [row for row in made if row.cards]

    def totals(self) -> CardTotals:
        """All of them added up. `rows` has been called since the last change."""
        total = CardTotals()
        for node in self._nodes.values():
            if node.row is not None and node.row.cards:
                total = total.plus(node.totals)
        return total

    def waiting(self) -> list[WaitingRow]:
        """Pods that wait, the oldest first."""
        rows = [self._waiting_row(pod) for pod in self._waiting.values()]
        return sorted(rows, key=lambda row: (row.created, row.namespace, row.name))

    def _row(self, name: str) -> NodeRow:
        node = self._nodes[name]
        if node.row is None:
            node.row = node_row(node.parts(name))
            node.totals = totals_of(node.row)
        return node.row

    def _waiting_row(self, pod: UnplacedPod) -> WaitingRow:
        answer = self._answers.get(pod.uid)
        return WaitingRow(
            namespace=pod.namespace, name=pod.name, uid=pod.uid, created=pod.created,
            dialects=pod.dialects, parts=pod.parts,
            reason=pod.reason if answer is None else answer.reason or pod.reason,
            remedy=answer.remedy if answer is not None else "",
        )  # fmt: skip

    def _changed(self, name: str) -> _Node:
        self.generation += 1
        node = self._nodes.setdefault(name, _Node())
        node.row = None
        return node

    def _drop_empty(self, name: str) -> None:
        node = self._nodes[name]
        if node.facts is None and not node.pods:
            del self._nodes[name]
