"""Where quota objects are, and whether a kind of object is installed at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, NoReturn

from tessera_core.quota.objects import VERSION
from tessera_runtime import logs
from tessera_runtime.errors import ApiNotFound, TesseraError
from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.kube.reflector import Reflector
from tessera_schema.annotation_keys import GROUP

ACCELERATOR_QUOTAS: Final = f"/apis/{GROUP}/{VERSION}/acceleratorquotas"
RESOURCE_QUOTAS: Final = "/api/v1/resourcequotas"
_log: Final = logs.named("tessera.kinds")


def _nothing() -> None:
    pass


async def watch_when_installed(
    kube: Kube, reflector: Reflector[Any], look_s: float, settled: asyncio.Event,
    missing: Callable[[], object] = _nothing,
) -> NoReturn:  # fmt: skip
    """Run a reflector once the definition of its kind is there; `settled` is set once its objects
    were read. See `installed` for the rest."""
    await installed(kube, reflector.path, look_s, missing)
    async with asyncio.TaskGroup() as group:
        group.create_task(reflector.run(), name=f"reflector of {reflector.path}")
        await reflector.synced.wait()
        settled.set()
    raise AssertionError("watches never end")


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
