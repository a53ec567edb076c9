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
        """The pods on a node."""
        for item in self.group(node) if node else ():
            yield item.pod

    def all_bound(self) -> list[Pod]:
        """The pods on all nodes."""
        return [item.pod for item in self._bound()]

    def running(self) -> dict[str, RunningPod]:
        """By uid, those that hold cards."""
        found = {}
        for item in self._bound():
            entry = self._ledger.entry(item.uid)
            if entry is not None and item.request is not None:
                found[item.uid] = RunningPod(
                    pod=item.pod, request=item.request, grant=entry.grant, since=item.since,
                    owner=item.owner, owner_kind=item.owner_kind, local=item.local,
                    tied=item.tied, grace_s=item.grace_s,
                    parts=sum(use.parts for use in entry.uses.values()),
                )  # fmt: skip
        return found

    def any_waits(self) -> bool:
        """Whether a pod waits for cards."""
        return bool(self.group(""))

    def waiting(self) -> dict[str, WaitingPod]:
        """By uid, those that request cards and have no node."""
        return {
            item.uid: WaitingPod(pod=item.pod, request=item.request, since=item.since)
            for item in self.group("")
            if item.request is not None and not item.pod.metadata.deletion_timestamp
        }

    def _bound(self) -> Iterator[PlanPodSummary]:
        return (item for node in self.groups() if node for item in self.group(node))


def _node_of(item: PlanPodSummary) -> str | None:
    return item.node if item.node or item.request is not None else None
