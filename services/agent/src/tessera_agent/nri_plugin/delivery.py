"""Cards that the container runtime gives: connects the plugin to it, and reports the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final

from tessera_agent.api.grant_keys import StoredGrantKeys
from tessera_agent.nri_plugin.plugin import CardsPlugin
from tessera_agent.nri_plugin.settings import NriSettings
from tessera_core.dialect_kit.contract import Vendor
from tessera_kubelet.nri.plugin import Connected, Disconnected, serve
from tessera_kubelet.nri.settings import NriPluginSettings
from tessera_runtime import logs
from tessera_schema.node_cards import RUNTIME_DOES_NOT_CALL

_log: Final = logs.named("tessera.agent")


class RuntimeDelivery:
    """Has the container runtime ask the plugin about each container that it creates."""

    names: frozenset[str] = frozenset()
    """Resources that kubelet allocates: none."""

    def __init__(
        self, vendor: Vendor, plugin: CardsPlugin, keys: StoredGrantKeys, settings: NriSettings,
        *, keys_wait_s: float,
    ) -> None:  # fmt: skip
        """`keys_wait_s`: seconds that the runtime waits for the keys."""
        self._vendor = vendor
        self._plugin = plugin
        self._keys = keys
        self._settings = settings
        self._keys_wait_s = keys_wait_s
        self._runtime: Connected | Disconnected = Disconnected(why="not tried yet")

    def problem(self) -> str:
        """Why containers cannot get cards now; empty when they can."""
        if isinstance(self._runtime, Disconnected) and self._vendor.hooked:
            return f"{RUNTIME_DOES_NOT_CALL}: {self._runtime.why}"
        return ""

    def work(self) -> Mapping[str, Callable[[], Coroutine[Any, Any, Any]]]:
        """What runs for as long as the agent does, by the name of its task."""
        return {"runtime": self._serve}

    async def _serve(self) -> None:
        # The runtime lists only once what runs, and without keys no grant of it can be verified.
        with suppress(TimeoutError):
            async with asyncio.timeout(self._keys_wait_s):
                await self._keys.known.wait()
        nri = self._settings
        name = nri.name or ("tessera" if self._vendor.hooked else f"tessera-{self._vendor.name}")
        settings = NriPluginSettings(name=name, index=nri.index)
        await serve(nri.socket, self._plugin, settings, self._observe)

    def _observe(self, now: Connected | Disconnected) -> None:
        self._runtime = now
        match now:
            case Connected():
                _log.info("runtime connected", runtime=now.runtime, version=now.version)
            case Disconnected():
                _log.warning("runtime disconnected", why=now.why)
