"""A tiny client of the Kubernetes API, for the contract suite alone.

It says what it got and interprets nothing: every status, body and header is the server's own, so a
test compares servers and not clients. It never tries again.
"""

from __future__ import annotations

import asyncio
import io
import json
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from msgspec import Struct

Json = dict[str, Any]

ANSWER_S = 60.0
"""How long a call or the next watch event may take on a machine that is busy with other things."""
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"


class Answer(Struct, frozen=True):
    """What the server said."""

    status: int
    body: Json
    headers: Mapping[str, str]
    warnings: tuple[str, ...]
    """The Warning headers, as they came."""

    @property
    def done(self) -> Json:
        """The body of a call that had to succeed."""
        assert self.status in {200, 201, 202}, (self.status, self.body)
        return self.body

    def refused(self, status: int, reason: str) -> str:
        """The message of a call that had to be refused so, with a well-formed Status."""
        body = self.body
        assert (self.status, body.get("kind"), body.get("reason")) == (status, "Status", reason), (
            self.status,
            body,
        )
        assert (body["apiVersion"], body["status"], body["code"]) == ("v1", "Failure", status)
        message: str = body["message"]
        return message


class Watch:
    """The events of one watch, in order."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self) -> tuple[str, Json]:
        """The next event: its type and its object."""
        event = await self._line()
        assert event is not None, "the watch ended"
        return event["type"], event["object"]

    async def take(self, count: int) -> list[tuple[str, str]]:
        """The next events as type and name."""
        events = [await self.next() for _ in range(count)]
        return [(kind, item["metadata"]["name"]) for kind, item in events]

    async def until(self, kind: str) -> Json:
        """The object of the next event of that type; others are passed over."""
        while True:
            came, item = await self.next()
            if came == kind:
                return item

    async def ended(self) -> None:
        """Wait for the end of the stream; an event before it is an error."""
        event = await self._line()
        assert event is None, event

    async def cut(self) -> None:
        """Wait for the end of the stream, whatever comes before it and however it ends."""
        try:
            while await self._line() is not None:
                pass
        except aiohttp.ClientError:
            return

    async def _line(self) -> Json | None:
        async with asyncio.timeout(ANSWER_S):
            line = await self.response.content.readline()
        if not line:
            return None
        event: Json = json.loads(line)
        return event


class Client:
    """Calls to one server in one user's name."""

    def __init__(self, session: aiohttp.ClientSession, url: str, token: str | None) -> None:
        self._session = session
        self._url = url
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def named(self, token: str | None) -> Client:
        """The same server as another user; None is nobody at all."""
        return Client(self._session, self._url, token)

    async def get(self, path: str, **query: str) -> Answer:
        """Read an object or a list."""
        return await self.call("GET", path, None, query)

    async def post(self, path: str, body: Json, **query: str) -> Answer:
        """Create an object, or call a subresource."""
        return await self.call("POST", path, body, query)

    async def put(self, path: str, body: Json, **query: str) -> Answer:
        """Replace an object."""
        return await self.call("PUT", path, body, query)

    async def patch(
        self, path: str, body: Json | list[Json], how: str = MERGE, **query: str
    ) -> Answer:
        """Change an object."""
        return await self.call("PATCH", path, body, query, how)

    async def delete(self, path: str, body: Json | None = None, **query: str) -> Answer:
        """Delete an object, with DeleteOptions as the body."""
        return await self.call("DELETE", path, body, query)

    async def call(
        self,
        method: str,
        path: str,
        body: object,
        query: Mapping[str, str],
        content_type: str = "application/json",
    ) -> Answer:
        """One request; a body that is bytes is sent as it is."""
        headers = dict(self._headers)
        data: io.BytesIO | None = None
        if body is not None:
            data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
            headers["Content-Type"] = content_type
        async with (
            asyncio.timeout(ANSWER_S),
            self._session.request(
                method, self._url + path, data=data, params=query, headers=headers
            ) as response,
        ):
            raw = await response.read()
            return Answer(
                response.status,
                json.loads(raw) if raw.startswith(b"{") else {"text": raw.decode()},
                response.headers.copy(),
                tuple(response.headers.getall("Warning", [])),
            )

    @asynccontextmanager
    async def watch(self, path: str, **query: str) -> AsyncGenerator[Watch]:
        """Watch a list; the stream is open when this is entered."""
        params = {"watch": "1", **query}
        async with self._session.get(
            self._url + path, params=params, headers=self._headers
        ) as response:
            assert response.status == 200, (response.status, await response.text())
            try:
                yield Watch(response)
            finally:
                await _close(response)


async def _close(response: aiohttp.ClientResponse) -> None:
    """Cut what is still open, and wait for it: a test's loop is gone soon after."""
    connection = response.connection
    if connection is None or connection.transport is None or connection.protocol is None:
        return
    closed = connection.protocol.closed
    connection.transport.abort()
    response.close()
    if closed is not None:
        await asyncio.wait([closed], timeout=ANSWER_S)


@asynccontextmanager
async def open_client(url: str, ca_path: Path, token: str) -> AsyncGenerator[Client]:
    """A client that trusts this authority only."""
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(ca_path)))
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, read_bufsize=2**22
    ) as session:
        yield Client(session, url, token)
