"""A cluster as the caller may use it, and objects of Tessera's own kinds there.

What goes wrong is raised as the command's own error, whose message says what would do.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from tessera_cli.errors import CommandError
from tessera_cli.kubeconfig import ClusterTarget
from tessera_runtime.errors import ApiNotFound, TesseraError
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.credentials import KubeCredentials, open_credentials
from tessera_runtime.kube.lists import pages
from tessera_runtime.kube.settings import KubeSettings

_PAGE: Final = 500
_DEFAULT: Final = "default"
_CALL_S: Final = 30.0
"""Seconds until a call is given up: somebody waits at a terminal."""

T = TypeVar("T")


class ClusterConnection(Struct, frozen=True):
    """A cluster that can be asked."""

    kube: Kube
    who: KubeCredentials
    namespace: str
    """The one that is meant."""


class _Impersonated:
    """Credentials that ask to act as somebody else."""

    def __init__(self, who: KubeCredentials, user: str) -> None:
        self._who, self._user = who, user
        self.url, self.tls, self.proxy = who.url, who.tls, who.proxy
        self.server_name, self.namespace = who.server_name, who.namespace

    async def headers(self, *, renew: bool = False) -> Mapping[str, str]:
        return {**await self._who.headers(renew=renew), "Impersonate-User": self._user}


@asynccontextmanager
async def open_cluster(
    target: ClusterTarget, *, name: str, error: type[CommandError]
) -> AsyncGenerator[ClusterConnection]:
    """The cluster, for a command of this name. Raises `error` for whatever it does not do."""
    if not (target.kubeconfig or target.host):
        raise error(
            "no cluster is named: there is no ~/.kube/config: write one, or name a kubeconfig by "
            "--kubeconfig or KUBECONFIG"
        )
    settings = KubeSettings(
        kubeconfig=target.kubeconfig, context=target.context, host=target.host, port=target.port,
        call_s=_CALL_S,
    )  # fmt: skip
    try:
        who = await open_credentials(settings)
        if target.user:
            who = _Impersonated(who, target.user)
        async with open_kube(settings, name=name, who=who) as kube:
            yield ClusterConnection(kube, who, target.namespace or who.namespace or _DEFAULT)
    except TesseraError as e:
        raise error(f"{e}") from e


async def list_all(
    kube: Kube,
    path: str,
    read: Callable[[bytes], T],
    *,
    kind: str,
    part: str,
    error: type[CommandError],
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
