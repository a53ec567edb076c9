"""The public keys that grants are verified with: watched in the API server, stored on disk.

Without a key nothing can be given, so the last known keys outlive the agent and an absent API
server. A ConfigMap that is gone or empty takes no key away: revoking one means writing the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from tessera_core.trust.grants import BadKey, Verifier
from tessera_runtime import atomic_write, logs
from tessera_runtime.informers.grant_keys import GrantKeySettings, KeyMap, watched
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.reflector import Reflector, WatchEventType
from tessera_runtime.kube.settings import KubeSettings
from tessera_schema.json_codec import decoder

_log: Final = logs.named("tessera.agent.keys")
_FILE: Final = "grant-keys.json"


class StoredKeySettings(GrantKeySettings, frozen=True, kw_only=True):
    """The public keys, and how long the agent waits for them."""

    wait_s: float = 2.0
    """Seconds that the runtime is kept waiting for them when the agent starts: the runtime lists
    what runs already only once. Kept on the node, they are there at once but for the first time."""


_read_file: Final = decoder(dict[str, str])


class StoredGrantKeys:
    """The keys of this moment; a handler for the watch of the ConfigMap that publishes them."""

    def __init__(self, folder: Path) -> None:
        """`folder` keeps them between two runs of the agent."""
        self.verifier: Verifier | None = None
        """None while no key is known."""
        self.there = asyncio.Event()
        """Set once there is one."""
        self._file = folder / _FILE
        self._known: Mapping[str, str] = {}
        self._changed = asyncio.Event()

    async def load(self) -> None:
        """Load the keys that an earlier agent stored."""
        try:
            text = await asyncio.to_thread(self._file.read_bytes)
            self._know(_read_file(text))
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError) as e:
            _log.warning("kept keys cannot be read", file=str(self._file), why=str(e))
        self._changed.clear()

    def on_list(self, items: list[KeyMap], started: float, now: float) -> None:
        """Take the ConfigMaps of the list: one, or none."""
        del started, now
        for item in items:
            self._know(item.data)

    def on_event(self, change: WatchEventType, item: KeyMap, now: float) -> None:
        """Take the ConfigMap as it is now."""
        del now
        if change is not WatchEventType.DELETED:
            self._know(item.data)

    async def keep(self) -> NoReturn:
        """Store the keys whenever they change, for ever."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                text = msgspec.json.encode(self._known)
                await asyncio.to_thread(atomic_write.replace, self._file, text)
            except OSError as e:
                _log.warning("keys cannot be kept", file=str(self._file), why=str(e))

    def _know(self, published: Mapping[str, str]) -> None:
        good = {name: text for name, text in published.items() if _is_good(name, text)}
        if good and good != self._known:
            self._known, self.verifier = good, Verifier(good)
            self._changed.set()
            self.there.set()
            _log.info("keys known", keys=sorted(good))


def _is_good(name: str, text: str) -> bool:
    try:
        Verifier({name: text})
    except BadKey as e:
        _log.warning("a published key cannot be read", key=name, why=str(e))
        return False
    return True


def watcher(
    kube: Kube, keys: StoredGrantKeys, namespace: str, settings: KubeSettings
) -> Reflector[KeyMap]:
    """Watches the ConfigMap for the keys."""
    return Reflector(kube, watched(namespace), keys, settings=settings)
