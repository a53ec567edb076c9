"""All pods, by node, and the books of those that hold cards.

Pods that run without cards count too: they take CPU and memory from whoever moves. Of them only
that is kept.
"""

from __future__ import annotations

from collections.abc import Iterator

from tessera_core.ledger.entries import ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_core.rebalance.cluster_view import WaitingPod
from tessera_core.rebalance.movable_pods import RunningPod
from tessera_rebalancer.plans.pod_reader import PlanPodSummary
from tessera_runtime.kube.reflector import WatchEventType
from tessera_schema.kube import Pod


class PlanPods:
    """All living pods; a sink that keeps the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        """`ledger` is written to by this alone, nodes and limits apart."""
        self._ledger = ledger
        self._on: dict[str, dict[str, PlanPodSummary]] = {}
        """Node -> uid -> pod; the empty name is that of those that wait."""
        self._where: dict[str, str] = {}

    def on_list(self, items: list[PlanPodSummary], started: float, now: float) -> None:
        """See `Handler.on_list`."""
        self._on, self._where = {}, {}
        self._ledger.relist([_seen(item) for item in items], started, now)
        for item in items:
            self._know(item)

    def on_event(self, change: WatchEventType, item: PlanPodSummary, now: float) -> None:
        """See `Handler.on_event`."""
        self._forget(item.uid)
        if change is WatchEventType.DELETED or item.pod.terminal:
            self._ledger.ended(item.uid)
        else:
            self._ledger.observe(_seen(item), now)
            self._know(item)

    def get(self, uid: str) -> PlanPodSummary | None:
        """A living pod."""
        node = self._where.get(uid)
        return None if node is None else self._on[node][uid]

    def bound(self, node: str) -> Iterator[Pod]:
        """The pods on a node."""
        for item in self._on.get(node, {}).values() if node else ():
            yield item.pod

    def all_bound(self) -> list[Pod]:
        """The pods on all nodes."""
        return [item.pod for node, on in self._on.items() if node for item in on.values()]

    def running(self) -> dict[str, RunningPod]:
        """By uid, those that hold cards."""
        found = {}
        for item in (item for node, on in self._on.items() if node for item in on.values()):
            entry = self._ledger.entry(item.uid)
            if entry is not None and item.request is not None:
                found[item.uid] = RunningPod(
                    pod=item.pod, request=item.request, grant=entry.grant, since=item.since,
                    owner=item.owner, owner_kind=item.owner_kind, local=item.local,
                    tied=item.tied, grace_s=item.grace_s,
                    parts=sum(use.parts for use in entry.uses.values()),
                )  # fmt: skip
        return found

    def waits(self) -> bool:
        """Whether anybody waits for cards."""
        return bool(self._on.get(""))

    def waiting(self) -> dict[str, WaitingPod]:
        """By uid, those that ask for cards and have no node."""
        return {
            item.uid: WaitingPod(pod=item.pod, request=item.request, since=item.since)
            for item in self._on.get("", {}).values()
            if item.request is not None and not item.pod.metadata.deletion_timestamp
        }

    def _know(self, item: PlanPodSummary) -> None:
        if item.node or item.request is not None:
            self._on.setdefault(item.node, {})[item.uid] = item
            self._where[item.uid] = item.node

    def _forget(self, uid: str) -> None:
        node = self._where.pop(uid, None)
        if node is not None:
            del self._on[node][uid]
            if not self._on[node]:
                del self._on[node]


def _seen(item: PlanPodSummary) -> ObservedPod:
    return ObservedPod(
        uid=item.uid, grant=item.grant, ended=item.pod.terminal, init_over=item.init_over
    )
