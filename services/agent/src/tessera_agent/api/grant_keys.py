"""The public keys that grants are verified with: watched in the API server, stored on disk.

Without a key nothing can be given, so the last known keys outlive the agent and an absent API
server. A ConfigMap that is gone or empty takes no key away: revoking one means writing the others.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from tessera_runtime import atomic_write, logs
from tessera_runtime.informers.grant_keys import GrantKeys, GrantKeySettings, KeyMap, watched
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.reflector import Reflector
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


class StoredGrantKeys(GrantKeys):
    """The keys of this moment, and those that an earlier agent stored."""

    def __init__(self, folder: Path) -> None:
        """`folder` keeps them between two runs of the agent."""
        super().__init__()
        self._file = folder / _FILE

    async def load(self) -> None:
        """Load the keys that an earlier agent stored."""
        try:
            text = await asyncio.to_thread(self._file.read_bytes)
            self.put(_read_file(text))
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError) as e:
            _log.warning("kept keys cannot be read", file=str(self._file), why=str(e))
        self.changed.clear()

    async def keep(self) -> NoReturn:
        """Store the keys whenever they change, for ever."""
        while True:
            await self.changed.wait()
            self.changed.clear()
            try:
                text = msgspec.json.encode(self.published)
                await asyncio.to_thread(atomic_write.replace, self._file, text)
            except OSError as e:
                _log.warning("keys cannot be kept", file=str(self._file), why=str(e))


def watcher(
    kube: Kube, keys: StoredGrantKeys, namespace: str, settings: KubeSettings
) -> Reflector[KeyMap]:
    """Watches the ConfigMap for the keys."""
    return Reflector(kube, watched(namespace), keys, settings=settings)
