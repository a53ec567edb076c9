"""Clients that mean no good, and one that means well, over real sockets and in virtual time."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct


class Client(Struct):
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def exchange(self, body: bytes, path: str = "/size") -> tuple[int, bytes]:
        """Status and body of the answer."""
        self.writer.write(post(path, body))
        return await self.receives()

    async def receives(self) -> tuple[int, bytes]:
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split()[0])
        return int(head.split()[1]), await self.reader.readexactly(length)

    def sends(self, data: bytes) -> None:
        """Whether it arrives or not."""
        if not self.writer.transport.is_closing():
            self.writer.write(data)

    async def is_open(self) -> bool:
        """False once the other side has closed it."""
        try:
            async with asyncio.timeout(0.001):
                await self.reader.read(1)
        except TimeoutError:
            return True
        except OSError:
            pass
        return False


def post(path: str, body: bytes, length: int | None = None) -> bytes:
    length = len(body) if length is None else length
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode() + body


@asynccontextmanager
async def a_client(
    address: tuple[str, int], context: ssl.SSLContext | None = None
) -> AsyncGenerator[Client]:
    reader, writer = await asyncio.open_connection(*address, ssl=context)
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()


@asynccontextmanager
async def strangers(address: tuple[str, int], number: int) -> AsyncGenerator[list[Client]]:
    """So many connections."""
    clients = [Client(*await asyncio.open_connection(*address)) for _ in range(number)]
    try:
        yield clients
    finally:
        for client in clients:
            client.writer.transport.abort()


async def still_open(clients: Sequence[Client]) -> int:
    return sum([await client.is_open() for client in clients])
