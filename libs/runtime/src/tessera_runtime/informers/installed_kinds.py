"""Where quota objects are, and whether a kind of object is installed at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from tessera_core.quota.objects import VERSION
from tessera_runtime import logs
from tessera_runtime.errors import ApiNotFound, TesseraError
from tessera_runtime.kube.api import Kube, Verb
from tessera_schema.annotation_keys import GROUP

ACCELERATOR_QUOTAS: Final = f"/apis/{GROUP}/{VERSION}/acceleratorquotas"
RESOURCE_QUOTAS: Final = "/api/v1/resourcequotas"
_log: Final = logs.named("tessera.kinds")


def _nothing() -> None:
    """Nobody needs to know."""


async def installed(
    kube: Kube, path: str, look_s: float, missing: Callable[[], object] = _nothing
) -> None:
    """Wait until a kind's definition is there, looking every `look_s` seconds; `missing` is called
    each time that it is found not to be."""
    while True:
        try:
            await kube.call(Verb.GET, path, query={"limit": "1"})
        except ApiNotFound:
            _log.info("kind is not installed", path=path)
            missing()
        except TesseraError as e:
            _log.warning("kind not looked for", path=path, why=str(e))
        else:
            return
        await asyncio.sleep(look_s)
