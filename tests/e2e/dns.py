"""The names of services, and of a service's pods, answered as by a cluster's DNS: A records.
Other names do not exist.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp

from tests.e2e.network import NODE_IP

ZONE = "svc.cluster.local"
_A, _FOUND, _NO_SUCH_NAME = 1, 0x8580, 0x8583

Look = Callable[[str, str, str], Awaitable[list[str] | None]]
"""Addresses by namespace, service and the host name of one of its pods, which is empty where the
service itself is meant; None = there is none."""


class _Answers(asyncio.DatagramProtocol):
    def __init__(self, group: asyncio.TaskGroup, look: Look) -> None:
        self._group = group
        self._look = look

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._group.create_task(self._answer(data, addr))

    async def _answer(self, asked: bytes, to: tuple[str, int]) -> None:
        labels, at = [], 12
        while size := asked[at]:
            labels.append(asked[at + 1 : at + 1 + size].decode().lower())
            at += 1 + size
        question = asked[12 : at + 5]
        (kind,) = struct.unpack("!H", asked[at + 1 : at + 3])
        name = ".".join(labels)
        found = None
        parts = name.removesuffix(f".{ZONE}").split(".")
        if name.endswith(f".{ZONE}") and len(parts) > 1:
            *pod, service, namespace = parts
            try:
                found = await self._look(namespace, service, ".".join(pod))
            except (aiohttp.ClientError, AssertionError, TimeoutError):
                return  # the API server is away: who asks, asks again
        answers = [address for address in found or () if kind == _A]
        head = asked[:2] + struct.pack(
            "!HHHHH", _FOUND if found is not None else _NO_SUCH_NAME, 1, len(answers), 0, 0
        )
        body = b"".join(
            b"\xc0\x0c" + struct.pack("!HHIH", _A, 1, 1, 4) + bytes(map(int, a.split(".")))
            for a in answers
        )
        self._transport.sendto(head + question + body, to)  # type: ignore[attr-defined]  # UDP


@asynccontextmanager
async def open_dns(look: Look) -> AsyncGenerator[None]:
    """Answer on the node's address until the block ends."""
    async with asyncio.TaskGroup() as group:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(
            lambda: _Answers(group, look), local_addr=(NODE_IP, 53)
        )
        try:
            yield
        finally:
            transport.close()
