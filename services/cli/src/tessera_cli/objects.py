"""Objects of Tessera's own kinds, as the caller may read them.

What goes wrong is raised as the command's own error, whose message says what would do.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import msgspec

from tessera_cli.errors import Refused
from tessera_runtime.errors import ApiNotFound, TesseraError
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.objects import pages
from tessera_runtime.kube.settings import KubeSettings

_PAGE: Final = 500

T = TypeVar("T")


@asynccontextmanager
async def api_server(kubeconfig: str, *, name: str, error: type[Refused]) -> AsyncGenerator[Kube]:
    """The API server, for a command of this name. Raises `error` for whatever it does not do."""
    try:
        async with open_kube(KubeSettings(kubeconfig=kubeconfig), name=name) as kube:
            yield kube
    except TesseraError as e:
        raise error(f"{e}") from e


async def every(
    kube: Kube, path: str, read: Callable[[bytes], T], *, kind: str, part: str, error: type[Refused]
) -> list[T]:
    """All objects of a list, as they come; `part` is what `read` reads of one, in words. Raises
    `error` where there is no such kind, or one cannot be read; and as `Kube.call` does."""
    try:
        return [
            read(bytes(raw))
            async for page in pages(kube, path, limit=_PAGE)
            for raw in page.items or ()
        ]
    except ApiNotFound as e:
        raise error(
            f"the definition of {kind} is not installed in this cluster: apply it first"
        ) from e
    except msgspec.DecodeError as e:
        raise error(f"{part} is not of this release's form: {e}") from e
