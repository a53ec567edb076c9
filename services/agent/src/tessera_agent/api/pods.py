"""The node's pods as the API server shows them: their grants as they are now, and which pods are
gone although their containers run.

The runtime knows a pod's annotations as they were when its sandbox was made; a grant that was
restored since then is only here. While the API server is away this is the last known state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from tessera_agent.api.pod_view import PodView, read
from tessera_kubelet.nri.types import PodSandbox
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.reflector import ListWatch, Reflector, WatchEventType
from tessera_runtime.kube.settings import KubeSettings
from tessera_schema.annotation_keys import TRACE_KEY


class NodePods:
    """The pods that are bound to this node; a handler for their watch."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        """Set when a pod is gone or has ended; its one waiter clears it."""
        self.grants = asyncio.Event()
        """Set when a pod shows another grant than before; its one waiter clears it."""
        self.next_change = asyncio.Event()
        """Set at the next change of any pod, and then replaced by another one."""
        self._shown: dict[str, PodView] = {}
        self._lost: set[str] = set()
        self._listed = float("-inf")

    def __iter__(self) -> Iterator[PodView]:
        """A copy: what happens meanwhile does not matter."""
        return iter(tuple(self._shown.values()))

    def get(self, uid: str) -> PodView | None:
        """The pod; None where the API server does not show it."""
        return self._shown.get(uid)

    @property
    def listed(self) -> bool:
        """Whether all pods were shown at least once."""
        return self._listed != float("-inf")

    def is_gone(self, uid: str, since: float) -> bool:
        """Whether a pod that was first reported at a time (the loop's) is not there any more."""
        shown = self._shown.get(uid)
        if shown is not None:
            return shown.ended
        return uid in self._lost or since < self._listed

    def traceparent(self, pod: PodSandbox) -> str:
        """The trace that the pod's admission opened; empty = none. The runtime shows the annotation
        as it was when the sandbox was made, the API server as it is."""
        shown = self._shown.get(pod.uid)
        return pod.annotations.get(TRACE_KEY) or (shown.traceparent if shown else "")

    def keep_only(self, uids: frozenset[str]) -> None:
        """Remember only these of the pods that are gone."""
        self._lost &= uids

    def on_list(self, items: list[PodView], started: float, now: float) -> None:
        """Replace all pods."""
        del now
        shown = {item.uid: item for item in items}
        self._lost |= self._shown.keys() - shown.keys()
        self._lost -= shown.keys()
        self._shown, self._listed = shown, started
        self.ended.set()
        self.grants.set()
        self._notify()

    def on_event(self, change: WatchEventType, item: PodView, now: float) -> None:
        """Change one pod."""
        del now
        if change is WatchEventType.DELETED:
            self._shown.pop(item.uid, None)
            self._lost.add(item.uid)
        else:
            before = self._shown.get(item.uid)
            self._shown[item.uid] = item
            if before is None or before.grant != item.grant:
                self.grants.set()
            self._lost.discard(item.uid)
        if item.ended or change is WatchEventType.DELETED:
            self.ended.set()
        self._notify()

    def _notify(self) -> None:
        self.next_change, change = asyncio.Event(), self.next_change
        change.set()


def watcher(kube: Kube, pods: NodePods, node: str, settings: KubeSettings) -> Reflector[PodView]:
    """Watches the node's pods."""
    query = {"fieldSelector": f"spec.nodeName={node}"}
    return Reflector(kube, ListWatch(paths.PODS, read, query), pods, settings=settings)
