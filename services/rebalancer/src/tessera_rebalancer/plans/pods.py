"""All pods, by node, and the ledger of those that hold cards.

Pods that run without cards count too: they take CPU and memory from pods that move. Nothing else is
kept of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from tessera_core.ledger.ledger import Ledger
from tessera_core.rebalance.cluster_view import WaitingPod
from tessera_core.rebalance.movable_pods import RunningPod
from tessera_rebalancer.plans.pod_summary import PlanPodSummary
from tessera_runtime.informers.pods import LedgerPods
from tessera_schema.kube import Pod


class PlanPods(LedgerPods[PlanPodSummary]):
    """All living pods by node; the node of those that wait is empty."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger, _node_of)

    def on_node(self, node: str) -> Iterator[Pod]:
        """The pods on a node, with their node's name."""
        for item in self.group(node) if node else ():
            yield item.bound_pod

    def running(self, item: PlanPodSummary) -> RunningPod | None:
        """The pod as plans see it, if it holds cards."""
        entry = self._ledger.entry(item.uid)
        if entry is None or item.request is None:
            return None
        return RunningPod(
            pod=item.pod, request=item.request, grant=entry.grant, since=item.since,
            owner=item.owner, owner_kind=item.owner_kind, local=item.local,
            tied=item.tied, grace_s=item.grace_s,
            parts=sum(use.parts for use in entry.uses.values()),
        )  # fmt: skip

    def any_waits(self) -> bool:
        """Whether a pod waits for cards."""
        return bool(self.group(""))

    def waiting(self, item: PlanPodSummary) -> WaitingPod | None:
        """The pod as plans see it, if it requests cards and is not being deleted."""
        if item.request is None or item.pod.metadata.deletion_timestamp:
            return None
        return WaitingPod(pod=item.pod, request=item.request, since=item.since)


def _node_of(item: PlanPodSummary) -> str | None:
    return item.node if item.node or item.request is not None else None
