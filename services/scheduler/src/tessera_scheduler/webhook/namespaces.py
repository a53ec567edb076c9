"""Labels and annotations of namespaces, read when a pod is reviewed and remembered for a while.

They decide about warnings, about leaving pods alone and about what an administrator allows there,
never about cards. An API server that does not answer in time is not waited for: what was known
last counts, and of an unknown namespace nothing is allowed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Final
from urllib.parse import quote

from msgspec import DecodeError, Struct

from tessera_core.admission.allowances import ALLOW, without_effect
from tessera_runtime import logs
from tessera_runtime.errors import TesseraError
from tessera_runtime.kube.api import Kube, Verb
from tessera_schema.json_codec import decoder
from tessera_schema.kube import ObjectMeta

MOST: Final = 10_000
"""Namespaces that are remembered."""
MOST_KEYS: Final = 64
"""Labels, and annotations, that are remembered of each: only those that mean something here, of
which there are fewer."""
_LONGEST: Final = 256
"""Characters of a value: none that means something here is longer."""

_log = logs.named("tessera.scheduler.namespaces")


class NamespacePolicy(Struct, frozen=True):
    """What is written on a namespace, as far as it means something here."""

    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}

    @property
    def notes(self) -> Mapping[str, str]:
        """Both in one; a label wins."""
        return {**self.annotations, **self.labels}


NOTHING: Final = NamespacePolicy()


class _Namespace(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


_decode = decoder(_Namespace)


class NamespacePolicies:
    """Reads and remembers what is written on namespaces."""

    def __init__(self, kube: Kube, keys: Collection[str], keep_s: float, ask_s: float) -> None:
        """`keys` are the labels and annotations that mean something, apart from those that allow;
        `keep_s` = for how long an answer is taken for true, `ask_s` = how long to wait for it, in
        seconds."""
        self._kube = kube
        self._keys = frozenset(keys)
        self._keep_s = keep_s
        self._ask_s = ask_s
        self._known: dict[str, tuple[float, NamespacePolicy]] = {}

    def remembered(self, name: str) -> NamespacePolicy | None:
        """What `written` would answer without asking anybody; None where it would ask."""
        asked, had = self._known.get(name, (float("-inf"), NOTHING))
        return had if asyncio.get_running_loop().time() - asked < self._keep_s else None

    async def written(self, name: str) -> NamespacePolicy:
        """What is written on it, as far as it is known."""
        now = asyncio.get_running_loop().time()
        asked, had = self._known.get(name, (float("-inf"), NOTHING))
        if now - asked < self._keep_s:
            return had
        try:
            async with asyncio.timeout(self._ask_s):
                body = await self._kube.call(Verb.GET, f"/api/v1/namespaces/{quote(name, safe='')}")
            metadata = _decode(body).metadata
        except (TesseraError, TimeoutError, DecodeError) as e:
            _log.warning("namespace not known", namespace=name, problem=str(e) or "no answer")
            return had
        found = NamespacePolicy(self._meant(metadata.labels), self._meant(metadata.annotations))
        self._known.pop(name, None)
        self._known[name] = (now, found)
        if len(self._known) > MOST:
            del self._known[next(iter(self._known))]
        for warning in without_effect(found.labels) if found.labels != had.labels else ():
            _log.warning("label without effect", namespace=name, problem=warning)
        return found

    def _meant(self, notes: Mapping[str, str]) -> dict[str, str]:
        found = (
            (key, value)
            for key, value in notes.items()
            if (key in self._keys or key.startswith(ALLOW)) and len(value) <= _LONGEST
        )
        return dict(islice(found, MOST_KEYS))
