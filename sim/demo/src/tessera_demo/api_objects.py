"""Creates and deletes what the demo shows, also while the API server or the webhook is away for a
moment."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tessera_runtime.errors import ApiNotFound, ApiRefused, Transient
from tessera_runtime.kube.api import Kube, Verb

_WHOLE_S: Final = 180.0
_RETRY_S: Final = 0.3


async def insist(kube: Kube, path: str, body: Mapping[str, Any]) -> None:
    """Create it; that it is there is as good. Raises ApiRefused, and TimeoutError after a while."""
    async with asyncio.timeout(_WHOLE_S):
        while True:
            try:
                await kube.call(Verb.POST, path, body=msgspec.json.encode(body))
            except Transient:
                await asyncio.sleep(_RETRY_S)
            except ApiRefused as e:
                if e.reason == "AlreadyExists":  # the answer was lost, the write was not
                    return
                if e.status < 500 and e.reason != "InternalError":
                    raise
                await asyncio.sleep(_RETRY_S)
            else:
                return


async def remove(kube: Kube, path: str) -> None:
    """Delete it; that it is not there is as good. Raises ApiRefused, and TimeoutError after a
    while."""
    async with asyncio.timeout(_WHOLE_S):
        while True:
            try:
                await kube.call(Verb.DELETE, path)
            except Transient:
                await asyncio.sleep(_RETRY_S)
            except ApiNotFound:
                return
            else:
                return
