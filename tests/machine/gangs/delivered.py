"""What the API server has shown a scheduler of pods and PodGroups, page by page and line by line.

A scheduler may act on nothing else. What has changed since, it cannot know of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from tessera_scheduler.cache.watches import LIVING
from tessera_schema.kube import Pod
from tests.machine.gangs.users_gangs import GROUPS, gang_of

PODS: Final = "/api/v1/pods"
GRACE_S: Final = 1.0
"""Seconds within which a scheduler has taken in what it was shown."""


class Delivered:
    """To one scheduler."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._pages: dict[str, list[dict[str, Any]]] = {}
        self._known: dict[str, dict[str, Any]] = {PODS: {}, GROUPS: {}}
        self._former: list[tuple[float, str, Any]] = []
        """When an object was replaced or went, of which kind, and as it was."""

    def page(self, path: str, query: Mapping[str, str], answer: bytes) -> None:
        """A page of a list; one of other pods than those that live is for another purpose."""
        others = path == PODS and query.get("fieldSelector") != LIVING["fieldSelector"]
        if path not in self._known or others:
            return
        body = msgspec.json.decode(answer)
        items = self._pages.get(path, []) if "continue" in query else []
        self._pages[path] = items + body["items"]
        if not body["metadata"].get("continue"):
            listed = {item["metadata"]["uid"]: item for item in self._pages.pop(path)}
            known = self._known[path]
            for uid in known.keys() - listed.keys():
                self._drop(path, uid)
            for uid, item in listed.items():
                self._put(path, uid, item)

    def frame(self, path: str, line: bytes) -> None:
        """A line of a watch."""
        if path not in self._known:
            return
        event = msgspec.json.decode(line)
        item = event["object"]
        if event["type"] in ("ADDED", "MODIFIED"):
            self._put(path, item["metadata"]["uid"], item)
        elif event["type"] == "DELETED":
            self._drop(path, item["metadata"]["uid"])

    def _put(self, path: str, uid: str, item: dict[str, Any]) -> None:
        if uid in self._known[path]:
            self._drop(path, uid)
        self._known[path][uid] = msgspec.convert(item, Pod) if path == PODS else item

    def _drop(self, path: str, uid: str) -> None:
        item = self._known[path].pop(uid, None)
        if item is not None:
            self._former.append((self._now(), path, item))

    def _all(self, path: str) -> Iterator[Any]:
        """As they were shown last, and as they were shown before within the grace."""
        since = self._now() - GRACE_S
        self._former = [each for each in self._former if each[0] >= since]
        yield from self._known[path].values()
        yield from (item for _, kind, item in self._former if kind == path)

    # -- what follows

    def pods(self) -> list[Pod]:
        """Pods that it may take to be there, each as often as it was shown differently."""
        return list(self._all(PODS))

    def names_none(self, gang: str) -> bool:
        """Whether no pod names the gang, as they were shown last."""
        return not any(gang_of(pod) == gang for pod in self._known[PODS].values())

    def least(self, group: str) -> list[int]:
        """What the PodGroup says is the minimum; nothing where it was shown none."""
        return [
            item["spec"]["minMember"] for item in self._all(GROUPS)
            if item["metadata"]["name"] == group
        ]  # fmt: skip
