"""Settings of this node's cards: watched in a ConfigMap, stored on the node.

What was set stays in force until it is set otherwise: a ConfigMap that is gone, or cannot be read,
changes nothing, and neither does an API server that is away. A hidden card comes back only when its
entry is taken out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec
from msgspec import Struct

from tessera_agent.containers.holdings import ContainerRegistry
from tessera_agent.devices.settings import NodeSettingsSource
from tessera_core.dialect_kit.card_settings import CardSettings, loosest
from tessera_core.inventory.node_settings import BadNodeSettings, NodeSettings, on_node
from tessera_core.registry.registry import DialectRegistry
from tessera_runtime import atomic_write, logs
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.reflector import ListWatch, Reflector, WatchEventType
from tessera_runtime.kube.settings import KubeSettings
from tessera_runtime.node_settings import parse_node_settings
from tessera_schema.cards import Card
from tessera_schema.json_codec import decoder
from tessera_schema.kube import Node

_log: Final = logs.named("tessera.agent.settings")
_MOST_FORMER: Final = 8
"""Settings that are remembered while containers run that were admitted under them."""


class SettingsMap(Struct, frozen=True):
    """The ConfigMap: file's name -> text."""

    data: dict[str, str] = {}


class StoredCardSettings(Struct, frozen=True, kw_only=True):
    """What is stored on the node."""

    said: CardSettings = CardSettings()
    """By the ConfigMap, for this node."""
    former: tuple[CardSettings, ...] = ()
    """Settings that were in force since containers run here, the last first."""


_decode: Final = decoder(StoredCardSettings)


class NodeCardSettings:
    """The settings of this moment; a handler for the watch of the ConfigMap."""

    def __init__(
        self, registry: DialectRegistry, source: NodeSettingsSource, vendor: str, folder: Path,
        holdings: ContainerRegistry,
    ) -> None:  # fmt: skip
        """`folder` keeps them between two runs of the agent; `holdings` are the node's."""
        self._common = registry.card_settings(vendor)
        self._registry = registry
        self._source = source
        self._vendor = vendor
        self._hooked = registry.vendors[vendor].hooked
        self._file = folder / f"card-settings-{vendor}.json"
        self._holdings = holdings
        self._stored = StoredCardSettings()
        self._settings: NodeSettings | None = None
        """As last read; None before."""
        self._loaded = False
        self._began: float | None = None
        self._problem = ""
        self._notes: tuple[str, ...] = ()
        self._changed = asyncio.Event()
        self.current = self._common
        self.known = False
        """Whether they are: what is published before would have to be taken back."""
        self.problems: tuple[str, ...] = ()

    @property
    def log_level(self) -> int:
        """What the hook logs; 0 = not said."""
        return self.current.log_level or 0

    @property
    def charge_contexts(self) -> bool:
        """Whether contexts and code count against a container's memory."""
        return bool(self.current.charge_contexts)

    async def load(self) -> None:
        """Load what an earlier agent stored."""
        try:
            self._stored = _decode(await asyncio.to_thread(self._file.read_bytes))
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError) as e:
            _log.warning("stored settings cannot be read", file=str(self._file), why=str(e))
            return
        self.current = self._common.under(self._stored.said)
        self._loaded = self.known = True

    def resolve(self, node: Node | None, now: float) -> None:
        """Bring `current` up to date with the node as it was last read. `now` is the loop's
        time."""
        self._began = now if self._began is None else self._began
        if self._settings is not None and node is not None:
            self._take(self._settings.on(node, self._vendor), node)
            self.known = True
        self.problems = (self._problem,) if self._problem else ()
        if not self.known and now >= self._began + self._source.wait_s:
            self.known = True
        if self.known and self._settings is None and not self._loaded:
            self.problems += (f"{self._called} has not been read: no settings are in force",)
        if self._stored.former and self._holdings.synchronized and not len(self._holdings):
            self._store(StoredCardSettings(said=self._stored.said))

    def loosest(self, card: Card) -> Card:
        """The card with the largest amounts that settings gave it since containers run here."""
        return loosest((self.current, *self._stored.former), card)

    def take_notes(self) -> tuple[str, ...]:
        """Sentences about what is set and has no effect, each once."""
        notes, self._notes = self._notes, ()
        return notes

    async def keep(self) -> NoReturn:
        """Store them whenever they change, for ever."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                text = msgspec.json.encode(self._stored)
                await asyncio.to_thread(atomic_write.replace, self._file, text)
            except OSError as e:
                _log.warning("settings cannot be stored", file=str(self._file), why=str(e))

    # -- the ConfigMap

    def on_list(self, items: list[SettingsMap], started: float, now: float) -> None:
        """Take the ConfigMaps of the list: one, or none."""
        del started, now
        for item in items:
            self._read(item.data)
        if not items:
            self._gone()

    def on_event(self, change: WatchEventType, item: SettingsMap, now: float) -> None:
        """Take the ConfigMap as it is now."""
        del now
        if change is WatchEventType.DELETED:
            self._gone()
        else:
            self._read(item.data)

    @property
    def _called(self) -> str:
        return f"ConfigMap {self._source.namespace}/{self._source.name}"

    def _read(self, data: Mapping[str, str]) -> None:
        try:
            found = parse_node_settings(self._registry, data)
        except BadNodeSettings as e:
            self._problem = f"{self._called}: {e}; what was set before stays in force"
            return
        self._problem = ""
        if self._settings is None or found.ignored != self._settings.ignored:
            self._notes = tuple(f"{self._called}: {sentence}" for sentence in found.ignored)
        self._settings = found

    def _gone(self) -> None:
        """What it set stays; without anything that was set, there is nothing."""
        if self._settings is not None and self._settings.entries:
            self._problem = f"{self._called} is gone: what it set stays in force; create it again"
        elif self._stored.said != CardSettings():
            self._problem = f"{self._called} is not there: what it set stays in force; create it"
        else:
            self._settings = NodeSettings()

    def _take(self, said: CardSettings, node: Node) -> None:
        new = on_node(self._common.under(said), node, hooked=self._hooked)
        if (said, new) == (self._stored.said, self.current) and self._loaded:
            return
        former, self.current = self.current, new
        kept = tuple(one for one in (former, *self._stored.former) if one != self.current)
        self._store(StoredCardSettings(said=said, former=kept[:_MOST_FORMER]))
        self._loaded = True
        _log.info("settings of cards", vendor=self._vendor, settings=_said(self.current))

    def _store(self, stored: StoredCardSettings) -> None:
        self._stored = stored
        self._changed.set()


def _said(settings: CardSettings) -> dict[str, Any]:
    """Only what differs from nothing, for people."""
    plain = CardSettings()
    return {
        name: msgspec.to_builtins(value)
        for name in CardSettings.__struct_fields__
        if (value := getattr(settings, name)) != getattr(plain, name)
    }


def watcher(
    kube: Kube, settings: NodeCardSettings, source: NodeSettingsSource, kube_settings: KubeSettings
) -> Reflector[SettingsMap]:
    """Watches the ConfigMap for the settings."""
    query = {"fieldSelector": f"metadata.name={source.name}"}
    what = ListWatch(paths.in_core(source.namespace, "configmaps"), decoder(SettingsMap), query)
    return Reflector(kube, what, settings, settings=kube_settings)
