"""A TCP proxy that can fall silent: connections stay, and nothing passes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from tessera_runtime.background import running_in_background


class Proxy:
    """What passes between clients and a server."""

    def __init__(self, port: int) -> None:
        self._behind = port
        self._open = asyncio.Event()
        self._open.set()
        self._writers: list[asyncio.StreamWriter] = []
        self.port = 0

    def fall_silent(self) -> None:
        self._open.clear()

    def speak(self) -> None:
        """Let what comes from now on pass; connections of before are cut."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()
        self._open.set()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            behind, to_behind = await asyncio.open_connection("127.0.0.1", self._behind)
            self._writers += [writer, to_behind]
            async with running_in_background(self._pump(reader, to_behind), "proxy"):
                await self._pump(behind, writer)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                await self._open.wait()
                sink.write(data)
                await sink.drain()
        sink.close()


@asynccontextmanager
async def open_proxy(port: int) -> AsyncGenerator[Proxy]:
    proxy = Proxy(port)
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    try:
        proxy.port = server.sockets[0].getsockname()[1]
        yield proxy
    finally:
        server.close()
        proxy.speak()
        await asyncio.sleep(0.05)
