"""The node's pods as the API server shows them: their grants as they are now, and which pods are
gone although their containers run.

The runtime knows a pod's annotations as they were when its sandbox was made; a grant that was
restored since is here alone. While the API server is away this is what was known last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from tessera_agent.api.pod_view import PodView, read
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.reflector import ListWatch, Reflector, WatchEventType
from tessera_runtime.kube.settings import KubeSettings


class NodePods:
    """A sink for the pods that are bound to this node."""

    def __init__(self) -> None:
        """Nothing was shown."""
        self.news = asyncio.Event()
        """Set when a pod is gone or has ended; whoever heeds it clears it."""
        self.grants = asyncio.Event()
        """Set when a pod shows another grant than before; whoever heeds it clears it."""
        self.told = asyncio.Event()
        """Set at the next change of any pod, and another one put in its place."""
        self._shown: dict[str, PodView] = {}
        self._lost: set[str] = set()
        self._listed = float("-inf")

    def __iter__(self) -> Iterator[PodView]:
        """A copy: what happens meanwhile does not matter."""
        return iter(tuple(self._shown.values()))

    def get(self, uid: str) -> PodView | None:
        """The pod; None where it is not shown."""
        return self._shown.get(uid)

    @property
    def listed(self) -> bool:
        """Whether all pods were shown at least once."""
        return self._listed != float("-inf")

    def is_gone(self, uid: str, since: float) -> bool:
        """Whether a pod that was heard of at a time (the loop's) is not there any more."""
        shown = self._shown.get(uid)
        if shown is not None:
            return shown.ended
        return uid in self._lost or since < self._listed

    def keep_only(self, uids: frozenset[str]) -> None:
        """Of pods that are gone, remember these."""
        self._lost &= uids

    def on_list(self, items: list[PodView], started: float, now: float) -> None:
        """All that there are."""
        del now
        shown = {item.uid: item for item in items}
        self._lost |= self._shown.keys() - shown.keys()
        self._lost -= shown.keys()
        self._shown, self._listed = shown, started
        self.news.set()
        self.grants.set()
        self._tell()

    def on_event(self, change: WatchEventType, item: PodView, now: float) -> None:
        """One pod."""
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
            self.news.set()
        self._tell()

    def _tell(self) -> None:
        self.told, told = asyncio.Event(), self.told
        told.set()


def watcher(kube: Kube, pods: NodePods, node: str, settings: KubeSettings) -> Reflector[PodView]:
    """Brings the node's pods."""
    query = {"fieldSelector": f"spec.nodeName={node}"}
    return Reflector(kube, ListWatch(paths.PODS, read, query), pods, settings=settings)
