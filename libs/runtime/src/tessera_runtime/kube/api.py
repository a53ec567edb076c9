"""What the services ask of an API server: two calls. `kube.client` makes them over the network,
`tessera_testing` offers the same in memory, on a virtual clock.

Everything else (lists, watches kept alive, Bindings, Leases) is written on top of these two.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Protocol

NONE: Final[Mapping[str, str]] = MappingProxyType({})


class Verb(StrEnum):
    """The HTTP method of a call."""

    GET = "GET"
    POST = "POST"
    PUT = "PUT"
    PATCH = "PATCH"
    DELETE = "DELETE"


class Body(StrEnum):
    """How the body is to be understood; the last three are of PATCH."""

    JSON = "application/json"
    JSON_PATCH = "application/json-patch+json"
    MERGE_PATCH = "application/merge-patch+json"
    STRATEGIC_PATCH = "application/strategic-merge-patch+json"


class Kube(Protocol):
    """Calls to a Kubernetes API server."""

    async def call(
        self,
        verb: Verb,
        path: str,
        *,
        query: Mapping[str, str] = NONE,
        body: bytes = b"",
        kind: Body = Body.JSON,
    ) -> bytes:
        """The answer's body, within the call's deadline.

        A GET without `resourceVersion` is a quorum read. Raises ApiRefused and its kinds, ApiBusy,
        ApiLost.
        """
        ...

    def stream(
        self, path: str, *, query: Mapping[str, str] = NONE
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The lines of a watch, one event each, until the server ends it.

        Entering raises as `call` does, iterating ApiLost when the connection breaks. Lines may be
        of any length. How long a silence is too long is the reader's to say: `kube.reflector` does.
        """
        ...
