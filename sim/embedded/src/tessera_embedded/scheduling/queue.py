"""The pods that wait, as kube-scheduler's three queues keep them. Pure: time is an argument.

A pod is *active* (ready for a cycle), *backing off* (ready from a moment on) or *parked* (did not
fit; ready when something changes, or after five minutes). A change that comes while a pod is in its
cycle counts for it: it then backs off instead of being parked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

PARKED_AT_MOST_S: Final = 300.0


class _Pod(Struct):
    priority: int
    since: float
    attempts: int = 0
    ready: float = 0
    parked: float | None = None
    """When it was parked; None while it is active or backs off."""


class Queue:
    """The pods that wait, by uid."""

    def __init__(self, first_s: float = 1, most_s: float = 10) -> None:
        """Back-off: `first_s`, doubled with each attempt, at most `most_s`."""
        self._first, self._most = first_s, most_s
        self._pods: dict[str, _Pod] = {}
        self._cycling: dict[str, _Pod] = {}
        self._changed: set[str] = set()

    def __contains__(self, uid: str) -> bool:
        """True for a pod that waits or is in its cycle."""
        return uid in self._pods or uid in self._cycling

    def add(self, uid: str, priority: int, now: float) -> None:
        """A pod is new. One that is known already stays as it is."""
        if uid not in self:
            self._pods[uid] = _Pod(priority, now)

    def remove(self, uid: str) -> None:
        """The pod is gone, bound, or another scheduler's."""
        self._pods.pop(uid, None)
        self._cycling.pop(uid, None)
        self._changed.discard(uid)

    def pop(self, now: float) -> str | None:
        """The next pod for a cycle: highest priority, then longest ready, then longest known."""
        self._flush(now)
        ready = [
            (-pod.priority, pod.ready, pod.since, uid)
            for uid, pod in self._pods.items()
            if pod.parked is None and pod.ready <= now
        ]
        if not ready:
            return None
        uid = min(ready)[-1]
        pod = self._cycling[uid] = self._pods.pop(uid)
        pod.attempts += 1
        return uid

    def failed(self, uid: str, now: float, *, error: bool = False) -> None:
        """The pod's cycle, or its binding, did not end well. After an `error`, which no change of
        the cluster would report, it tries again by itself."""
        pod = self._cycling.pop(uid, None)
        if pod is None:
            return
        pod.ready = now + min(self._first * 2 ** (pod.attempts - 1), self._most)
        pod.parked = None if error or uid in self._changed else now
        self._changed.discard(uid)
        self._pods[uid] = pod

    def changed(self, uids: Iterable[str] | None = None) -> None:
        """Something changed that may let these pods fit (None: all)."""
        for uid in list(self._pods) if uids is None else uids:
            if uid in self._pods:
                self._pods[uid].parked = None
        self._changed.update(self._cycling if uids is None else self._cycling.keys() & set(uids))

    def wait_until(self) -> float | None:
        """When the next pod may be ready without any change; None = never."""
        times = [
            pod.ready if pod.parked is None else pod.parked + PARKED_AT_MOST_S
            for pod in self._pods.values()
        ]
        return min(times, default=None)

    def _flush(self, now: float) -> None:
        for pod in self._pods.values():
            if pod.parked is not None and pod.parked + PARKED_AT_MOST_S <= now:
                pod.parked = None
