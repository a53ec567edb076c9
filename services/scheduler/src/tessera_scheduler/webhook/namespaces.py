"""Labels and annotations of namespaces, asked for when a pod comes and remembered for a while.

They decide about warnings and about leaving pods alone, never about cards, so an API server that
does not answer in time is not waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from msgspec import DecodeError, Struct

from tessera_runtime import logs
from tessera_runtime.errors import TesseraError
from tessera_runtime.kube.api import Kube, Verb
from tessera_schema.kube import ObjectMeta
from tessera_schema.wire import decoder

MOST: Final = 10_000
"""Namespaces that are remembered."""

_log = logs.named("tessera.scheduler.namespaces")


class _Namespace(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


_decode = decoder(_Namespace)


class Namespaces:
    """What is written on namespaces."""

    def __init__(self, kube: Kube, keep_s: float, ask_s: float) -> None:
        """`keep_s` = for how long an answer is taken for true, `ask_s` = how long to wait for it,
        in seconds."""
        self._kube = kube
        self._keep_s = keep_s
        self._ask_s = ask_s
        self._known: dict[str, tuple[float, Mapping[str, str]]] = {}

    def remembered(self, name: str) -> Mapping[str, str] | None:
        """What `notes` would answer without asking anybody; None where it would ask."""
        asked, notes = self._known.get(name, (float("-inf"), {}))
        return notes if asyncio.get_running_loop().time() - asked < self._keep_s else None

    async def notes(self, name: str) -> Mapping[str, str]:
        """Annotations and labels in one; a label wins. Empty where nothing is known."""
        now = asyncio.get_running_loop().time()
        asked, notes = self._known.get(name, (float("-inf"), {}))
        if now - asked < self._keep_s:
            return notes
        try:
            async with asyncio.timeout(self._ask_s):
                body = await self._kube.call(Verb.GET, f"/api/v1/namespaces/{quote(name, safe='')}")
            metadata = _decode(body).metadata
        except (TesseraError, TimeoutError, DecodeError) as e:
            _log.warning("namespace not known", namespace=name, problem=str(e) or "no answer")
            return notes
        notes = {**metadata.annotations, **metadata.labels}
        self._known.pop(name, None)
        self._known[name] = (now, notes)
        if len(self._known) > MOST:
            del self._known[next(iter(self._known))]
        return notes
