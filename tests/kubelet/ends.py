"""Two trunks that are each other's peer."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import NamedTuple

from tessera_kubelet.errors import LinkLost
from tessera_kubelet.nri.mux import Trunk

WRITE_S = 3.0


class Ends(NamedTuple):
    near: Trunk
    far: Trunk
    far_writer: asyncio.StreamWriter

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[None]:
        """Both read. The side that closes first is lost to the other, which is no failure."""
        ended = False
        try:
            async with self.near.reading("near"), self.far.reading("far"):
                yield
                ended = True
        except LinkLost:
            if not ended:
                raise


@asynccontextmanager
async def open_ends() -> AsyncGenerator[Ends]:
    """Nobody reads yet."""
    one, other = socket.socketpair()
    near = await asyncio.open_unix_connection(sock=one)
    far = await asyncio.open_unix_connection(sock=other)
    try:
        yield Ends(Trunk(*near, write_s=WRITE_S), Trunk(*far, write_s=WRITE_S), far[1])
    finally:
        for _, writer in (near, far):
            writer.transport.abort()
