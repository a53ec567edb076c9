"""The public keys that grants are verified with, as the scheduler publishes them.

A ConfigMap that is gone or empty takes no key away. While none is known no grant would count, and
all cards would seem to be free: so read pods only after them, and again when they change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from msgspec import Struct

from tessera_core.trust.grants import BadKey, Verifier
from tessera_runtime import logs
from tessera_runtime.kube import paths
from tessera_runtime.kube.reflector import ListWatch, Reflector, WatchEventType
from tessera_schema.annotation_keys import SIGNING_KEYS
from tessera_schema.json_codec import decoder

_log: Final = logs.named("tessera.keys")


class GrantKeySettings(Struct, frozen=True, kw_only=True):
    """The public keys that grants are verified with."""

    namespace: str = "tessera-system"
    """Where the scheduler publishes them."""


class KeyMap(Struct, frozen=True):
    """The ConfigMap of public keys: key name -> text."""

    data: dict[str, str] = {}


class GrantKeys:
    """The keys of this moment; a handler."""

    def __init__(self) -> None:
        self.verifier = Verifier({})
        self.known = asyncio.Event()
        """Set once there is a key."""
        self.changed = asyncio.Event()
        """Set by each change; the task that waits for it clears it."""
        self.published: Mapping[str, str] = {}
        """Those that can be read."""

    def on_list(self, items: list[KeyMap], started: float, now: float) -> None:
        """All of them: one, or none."""
        del started, now
        for item in items:
            self.put(item.data)

    def on_event(self, change: WatchEventType, item: KeyMap, now: float) -> None:
        """The ConfigMap as it is now."""
        del now
        if change is not WatchEventType.DELETED:
            self.put(item.data)

    def put(self, published: Mapping[str, str]) -> None:
        """Know these from now on. Without one that can be read, what was known stays."""
        good = {name: text for name, text in published.items() if _is_good(name, text)}
        if good and good != self.published:
            self.published, self.verifier = good, Verifier(good)
            self.known.set()
            self.changed.set()
            _log.info("keys known", keys=sorted(good))


def _is_good(name: str, text: str) -> bool:
    try:
        Verifier({name: text})
    except BadKey as e:
        _log.warning("a published key cannot be read", key=name, why=str(e))
        return False
    return True


def watched(namespace: str) -> ListWatch[KeyMap]:
    """What to list and watch."""
    query = {"fieldSelector": f"metadata.name={SIGNING_KEYS}"}
    return ListWatch(paths.in_core(namespace, "configmaps"), decoder(KeyMap), query)


async def watch_with(
    keys: GrantKeys, reflector: Callable[[], Reflector[Any]], read: asyncio.Event
) -> NoReturn:
    """Watch what is verified with the keys, for ever: from a new list by a new reflector whenever
    they change. `read` is set once the first list was read."""
    while True:
        keys.changed.clear()
        current = reflector()
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(current.run(), name="reflector of what is signed")
            await current.synced.wait()
            read.set()
            await keys.changed.wait()
            watching.cancel()
