"""The history that policy `pack` learns from, as it is stored in a ConfigMap."""

from __future__ import annotations

from typing import Final

import msgspec

from tessera_core.placement.packing.demand_history import History, UnknownHistoryVersion
from tessera_runtime import logs
from tessera_runtime.errors import Permanent
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.create_or_update import Json, config_map, create_or_update

HISTORY: Final = "tessera-packing-history"
ENTRY: Final = "history.json"

_log = logs.named("tessera.scheduler.packing")


class HistoryConfigMap:
    """Reads and writes the history."""

    def __init__(self, kube: Kube, namespace: str, *, half_life_s: float) -> None:
        """A pod counts half after `half_life_s` seconds."""
        self._kube = kube
        self._place = config_map(namespace, HISTORY)
        self._half_life_s = half_life_s
        self.writable = False
        """Whether `write` may replace what is there: not what a newer release wrote, nor what this
        process may not read."""

    def empty(self) -> History:
        """A history of no pods."""
        return History(self._half_life_s)

    async def read(self) -> History | None:
        """What the former leader wrote; None where nothing can be read. Raises Transient."""
        try:
            there = await create_or_update(self._kube, self._place, lambda _: None)
        except Permanent as e:
            _log.warning("history neither read nor kept", why=str(e))
            self.writable = False
            return None
        text = (there.get("data") or {}).get(ENTRY)
        self.writable = True
        if text is None:
            return None
        try:
            return History.decode(text, self._half_life_s)
        except UnknownHistoryVersion as e:
            self.writable = False
            _log.warning("history left as it is", why=str(e))
        except (msgspec.DecodeError, TypeError) as e:
            _log.warning("history begun again", why=f"data[{ENTRY}]: {e}")
        return None

    async def write(self, history: History, now: float) -> None:
        """Replace what is there. Raises as `create_or_update` does."""
        text = history.encode(now).decode()

        def written(there: Json | None) -> Json:
            return {**(there or self._place.object()), "data": {ENTRY: text}}

        await create_or_update(self._kube, self._place, written)
