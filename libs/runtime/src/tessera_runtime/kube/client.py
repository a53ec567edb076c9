"""The API server over the network: requests on a connection pool of our own, and the one place
where a status is looked at.

Nothing is tried again here: only the caller knows whether that is right. Writes are not repeated by
the HTTP library either, which by itself sends a PUT again when a kept connection turns out to be
dead, and would then report the conflict with its own first attempt.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
from yarl import URL

from tessera_runtime.errors import ApiForbidden, ApiLost, BadSettings
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import NONE, Body, Kube, Verb
from tessera_runtime.kube.credentials import KubeCredentials, open_credentials
from tessera_runtime.kube.rate_limit import CallRate
from tessera_runtime.kube.responses import check
from tessera_runtime.kube.settings import KubeSettings

_BUFFER: Final = 2**20
_REPEATED: Final = (Verb.PUT, Verb.DELETE)
"""Writes that the HTTP library would repeat."""
_KEEP_ALIVE: Final = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Seconds, seconds, tries: a watch on a machine that is gone ends after 25 s, not 15 minutes."""


class HttpKube:
    """An API server over HTTP; `open_kube` makes it."""

    def __init__(
        self, session: aiohttp.ClientSession, who: KubeCredentials, settings: KubeSettings
    ) -> None:
        """Raises BadSettings where the URL is none."""
        self._session = session
        self._who = who
        self._base = _base(who.url)
        self._settings = settings
        self._rate = CallRate(settings.qps, settings.burst)

    async def call(
        self,
        verb: Verb,
        path: str,
        *,
        query: Mapping[str, str] = NONE,
        body: bytes = b"",
        kind: Body = Body.JSON,
    ) -> bytes:
        """See `Kube.call`."""
        try:
            async with asyncio.timeout(self._settings.call_s):
                await self._rate.turn(path)
                try:
                    return await self._once(verb, path, query, body, kind)
                except ApiForbidden as e:
                    if e.status != 401:
                        raise
                await self._who.headers(renew=True)
                return await self._once(verb, path, query, body, kind)
        except TimeoutError as e:
            raise ApiLost(f"{verb} {path}: no answer in {self._settings.call_s:g} s") from e

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] = NONE
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """See `Kube.stream`."""
        await self._rate.turn(path)
        async with _closing(await self._begin(path, query)) as response:
            yield _lines(response, path, self._settings.gather_s)

    async def _once(
        self, verb: Verb, path: str, query: Mapping[str, str], body: bytes, kind: Body
    ) -> bytes:
        headers = {**await self._who.headers()}
        if body:
            headers["Content-Type"] = kind
        try:
            async with self._request(verb, path, query, headers, body) as response:
                content = await response.read()
        except (aiohttp.ClientError, OSError) as e:
            raise _lost(f"{verb} {path}", e) from e
        check(f"{verb} {path}", response.status, response.headers, content)
        return content

    async def _begin(self, path: str, query: Mapping[str, str]) -> aiohttp.ClientResponse:
        what = f"watch {path}"
        try:
            async with asyncio.timeout(self._settings.call_s):
                headers = await self._who.headers()
                response = await self._request(Verb.GET, path, query, headers, b"")
                if response.status >= 300:
                    async with _closing(response):
                        content = await response.read()
                    check(what, response.status, response.headers, content)
        except TimeoutError as e:
            raise ApiLost(f"{what}: no answer in {self._settings.call_s:g} s") from e
        except (aiohttp.ClientError, OSError) as e:
            raise _lost(what, e) from e
        except ApiForbidden as e:
            if e.status == 401:  # a watch tries again
                await self._who.headers(renew=True)
            raise
        return response

    def _request(
        self,
        verb: Verb,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes,
    ) -> aiohttp.client._RequestContextManager:
        return self._session.request(
            verb.value,
            self._url(path, query),
            headers=headers,
            data=body or None,
            allow_redirects=False,
            proxy=self._who.proxy,
            server_hostname=self._who.server_name,
            middlewares=(_write_once,) if verb in _REPEATED else (),
        )

    def _url(self, path: str, query: Mapping[str, str]) -> URL:
        """Both are quoted here, which costs a sixth of what the URL library takes to do it."""
        base = self._base
        return URL.build(
            scheme=base.scheme, authority=base.raw_authority, path=base.raw_path.rstrip("/") + path,
            query_string=paths.query_string(query), encoded=True,
        )  # fmt: skip


@asynccontextmanager
async def open_kube(
    settings: KubeSettings, *, name: str = "tessera", who: KubeCredentials | None = None
) -> AsyncGenerator[Kube]:
    """The API server of the settings; `name` is what its audit log calls us. `who` are its
    credentials where somebody has opened them already.

    Connects when it is called. Raises BadSettings where credentials are missing or the URL is none.
    """
    who = who or await open_credentials(settings)
    connector = aiohttp.TCPConnector(
        ssl=who.tls if who.tls is not None else True,
        limit=settings.connections,
        keepalive_timeout=settings.keep_s,
        socket_factory=_socket,
    )
    async with aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=_BUFFER,
        headers={
            "User-Agent": name,
            "Accept": "application/json",
            "Accept-Encoding": "identity",  # close by, where compression costs more than it saves
        },
        cookie_jar=aiohttp.DummyCookieJar(),
    ) as session:
        yield HttpKube(session, who, settings)


def _base(url: str) -> URL:
    try:
        return URL(url)
    except ValueError as e:
        raise BadSettings(f"kube.url: {url!r}: {e}: write https://<host>:<port>") from e


def _lost(what: str, error: Exception) -> ApiLost:
    return ApiLost(f"{what}: {type(error).__name__}: {error}")


async def _write_once(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """The library repeats what it holds for harmless when it sees its own errors: hide them."""
    try:
        return await send(request)
    except (aiohttp.ClientError, OSError) as e:
        raise _lost(f"{request.method} {request.url.path}", e) from e


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.settimeout(0)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEP_ALIVE.items():
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made


@asynccontextmanager
async def _closing(response: aiohttp.ClientResponse) -> AsyncGenerator[aiohttp.ClientResponse]:
    try:
        yield response
    finally:
        response.close()


async def _lines(
    response: aiohttp.ClientResponse, path: str, gather_s: float
) -> AsyncIterator[bytes]:
    """Lines of any length: aiohttp's own reader gives up on those larger than its buffer."""
    rest: list[bytes] = []
    try:
        async for chunk in response.content.iter_any():
            first, *others = chunk.split(b"\n")
            rest.append(first)
            for part in others:
                if line := b"".join(rest):
                    yield line
                rest = [part]
            await _deaf(response, gather_s)
    except (aiohttp.ClientError, OSError) as e:
        raise _lost(f"watch {path}", e) from e
    if any(rest):
        raise ApiLost(f"watch {path}: ended in the middle of an event")


async def _deaf(response: aiohttp.ClientResponse, for_s: float) -> None:
    """Leave what comes to the kernel for a moment; an answer that is over is not waited for."""
    transport = _open_transport(response)
    if transport is None or not for_s:
        return
    transport.pause_reading()
    try:
        await asyncio.sleep(for_s)
    finally:
        if _open_transport(response) is transport:
            transport.resume_reading()


def _open_transport(response: aiohttp.ClientResponse) -> asyncio.Transport | None:
    transport = response.connection.transport if response.connection is not None else None
    return None if transport is None or transport.is_closing() else transport
