"""What the API server says that a caller may do, remembered for a moment."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.authorization import Caller, may

REMEMBERED: Final = 4096
"""Answers that are remembered, about 100 bytes each; the oldest is forgotten first."""
NAMESPACES_MOST: Final = 16
"""Namespaces of other pods about which the API server is asked for one answer."""


class Action(Struct, frozen=True, kw_only=True):
    """What a caller wants to do, as a SubjectAccessReview spells it."""

    verb: str
    resource: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    name: str = ""


class Reviews:
    """Asks the API server, once for equal questions."""

    def __init__(self, kube: Kube, now: Callable[[], float], keep_s: float) -> None:
        """`now` gives seconds that only rise."""
        self._kube, self._now, self._keep_s = kube, now, keep_s
        self._known: OrderedDict[bytes, tuple[bool, float]] = OrderedDict()

    async def allowed(self, caller: Caller, action: Action) -> bool:
        """Whether the caller may. Raises as `Kube.call` does, and msgspec.DecodeError."""
        key = hashlib.sha256(msgspec.json.encode((caller, action))).digest()
        known, now = self._known.get(key), self._now()
        if known is not None and now < known[1]:
            return known[0]
        allowed = await may(self._kube, caller, msgspec.to_builtins(action))
        self._known[key] = allowed, now + self._keep_s
        self._known.move_to_end(key)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return allowed

    async def visible(self, caller: Caller, namespaces: Iterable[str]) -> frozenset[str]:
        """Of these namespaces those whose pods the caller may read; only about the first
        `NAMESPACES_MOST` is asked. Raises as `allowed` does."""
        wanted = tuple(dict.fromkeys(namespaces))
        read = Action(verb="get", resource="pods")
        if not wanted or await self.allowed(caller, read):
            return frozenset(wanted)
        visible = set()
        for namespace in wanted[:NAMESPACES_MOST]:
            if await self.allowed(caller, replace(read, namespace=namespace)):
                visible.add(namespace)
        return frozenset(visible)
