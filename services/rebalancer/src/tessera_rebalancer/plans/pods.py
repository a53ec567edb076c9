"""All pods, by node, and the ledger of those that hold cards.

Pods that run without cards count too: they take CPU and memory from pods that move. Nothing else is
kept of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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
        entry, request, shape = self._ledger.entry(item.uid), item.request, item.shape
        if entry is None or request is None:
            return None
        return RunningPod(
            pod=item.pod, request=request, grant=entry.grant, since=item.since,
            owner=shape.owner, owner_kind=shape.owner_kind, local=shape.local,
            tied=shape.tied, grace_s=shape.grace_s,
            parts=sum(use.parts for use in entry.uses.values()),
        )  # fmt: skip

    def running_on(self, node: str) -> Iterator[RunningPod]:
        """The pods that hold cards of a node, as plans see them."""
        for item in self.holding_on(node):
            one = self.running(item)
            if one is not None:
                yield one

    def holding_on(self, node: str) -> Iterator[PlanPodSummary]:
        """The pods that hold cards of a node; others may come and go meanwhile."""
        for item in list(self.group(node)) if node else ():
            if item.shape.request is not None and self._ledger.entry(item.uid) is not None:
                yield item

    def any_waits(self) -> bool:
        """Whether a pod waits for cards."""
        return bool(self.group(""))

    def waiting(self, item: PlanPodSummary) -> WaitingPod | None:
        """The pod as plans see it, if it requests cards and is not being deleted."""
        request, pod = item.shape.request, item.shape.pod
        if request is None or pod.metadata.deletion_timestamp:
            return None
        return WaitingPod(pod=pod, request=request, since=item.since)


class RunningPlanPods(Mapping[str, RunningPod]):
    """The pods that hold cards, by uid. Each is made when it is read: a round of plans reads one
    after the other, and all of them would take as much memory again as what is held of pods."""

    def __init__(self, pods: PlanPods) -> None:
        """Those that there are when it is read."""
        self._pods = pods

    def __getitem__(self, uid: str) -> RunningPod:
        """Raises KeyError for a pod that is gone, or holds no cards."""
        item = self._pods.get(uid)
        one = None if item is None else self._pods.running(item)
        if one is None:
            raise KeyError(uid)
        return one

    def __iter__(self) -> Iterator[str]:
        """Node by node; pods may come and go meanwhile."""
        for node in list(self._pods.groups()):
            yield from (item.uid for item in self._pods.holding_on(node))

    def __len__(self) -> int:
        """How many there are: it reads all."""
        return sum(1 for _ in self)


def _node_of(item: PlanPodSummary) -> str | None:
    return item.node if item.node or item.shape.request is not None else None
