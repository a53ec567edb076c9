"""What the scheduler knows of the cluster, and which changes wake pods that wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from tessera_core.kube.node_affinity import Refusal
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_embedded.scheduling.config import Configuration
from tessera_embedded.scheduling.queue import Queue
from tessera_embedded.scheduling.types import NodeInfo, PodInfo
from tessera_schema.kube import Pod


class SchedulerCache:
    """Nodes, pods that have a place, and pods that wait."""

    def __init__(self, config: Configuration, queue: Queue, woken: Callable[[], None]) -> None:
        """`woken` is called when the queue may have become ready."""
        self.waiting: dict[str, PodInfo] = {}
        self._config = config
        self._queue = queue
        self._woken = woken
        self._nodes: dict[str, NodeInfo] = {}
        self._placed: dict[str, Pod] = {}
        self._assumed: dict[str, Pod] = {}
        self._fit: KubeSchedulerFilters | None = None

    @property
    def nodes(self) -> Iterable[str]:
        """The nodes' names."""
        return self._nodes.keys()

    def refusals(self, pod: Pod) -> dict[str, Refusal]:
        """Node -> why kube-scheduler's own filters leave it out."""
        if self._fit is None:
            held = {**self._placed, **self._assumed}
            nodes = [seen.node for seen in self._nodes.values()]
            self._fit = KubeSchedulerFilters(nodes, held.values(), self._config.ignored)
        return dict(self._fit.refusals(pod))

    def assume(self, pod: Pod, node: str) -> None:
        """The pod counts on the node from now on, until it is seen there or the binding fails."""
        self._assumed[pod.metadata.uid] = replace(pod, spec=replace(pod.spec, node_name=node))
        self._fit = None

    def forget(self, uid: str) -> None:
        """The pod was not bound after all."""
        if self._assumed.pop(uid, None) is not None:
            self._fit = None

    # -- nodes

    def relist_nodes(self, nodes: Iterable[NodeInfo]) -> None:
        """All nodes there are."""
        self._nodes = {seen.node.name: seen for seen in nodes}
        self._all_may_fit()

    def node(self, seen: NodeInfo, *, gone: bool) -> None:
        """A node came, changed, or went."""
        name = seen.node.name
        known = self._nodes.get(name)
        if gone:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = seen
        if gone or known is None or known.facts != seen.facts:
            self._all_may_fit()

    # -- pods

    def relist_pods(self, pods: Iterable[PodInfo], now: float) -> None:
        """All pods there are."""
        shown = {seen.uid: seen for seen in pods}
        for uid in [*self.waiting, *self._placed, *self._assumed]:
            if uid not in shown:
                self._drop(uid)
        for seen in shown.values():
            self.pod(seen, now, gone=False)
        self._all_may_fit()

    def pod(self, seen: PodInfo, now: float, *, gone: bool) -> None:
        """A pod came, changed, or went."""
        if gone or seen.pod.terminal:
            self._drop(seen.uid)
        elif seen.pod.spec.node_name:
            self._place(seen)
        elif seen.pod.metadata.deletion_timestamp or seen.gated or not self._is_for_us(seen.pod):
            self._drop(seen.uid)
        else:
            self._wait(seen, now)

    def _is_for_us(self, pod: Pod) -> bool:
        return (pod.spec.scheduler_name or "default-scheduler") in self._config.names

    def _place(self, seen: PodInfo) -> None:
        uid = seen.uid
        self._queue.remove(uid)
        self.waiting.pop(uid, None)
        self._assumed.pop(uid, None)
        if uid not in self._placed:
            self._fit = None
        self._placed[uid] = seen.pod

    def _wait(self, seen: PodInfo, now: float) -> None:
        known = self.waiting.get(seen.uid)
        self.waiting[seen.uid] = seen
        if seen.uid in self._assumed:
            return
        if known is None:
            self._queue.add(seen.uid, seen.priority, now)
            self._woken()
        elif known.wants != seen.wants:
            self._queue.changed([seen.uid])
            self._woken()

    def _drop(self, uid: str) -> None:
        self._queue.remove(uid)
        self.waiting.pop(uid, None)
        held = self._placed.pop(uid, None)
        if self._assumed.pop(uid, None) is not None or held is not None:
            self._all_may_fit()

    def _all_may_fit(self) -> None:
        self._fit = None
        self._queue.changed()
        self._woken()
