"""Whether the agent is there for containerd, by what it answers on the node's own address."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

import aiohttp

_ANSWER_S: Final = 3.0


class HttpAgentProbe:
    """Asks the addresses at which agents of this node say whether they are ready."""

    def __init__(self, session: aiohttp.ClientSession, addresses: Sequence[str]) -> None:
        """Made by `open_probe`."""
        self._session = session
        self._addresses = addresses

    async def ready(self) -> bool:
        """Whether one of them gives containers their cards now."""
        for address in self._addresses:
            try:
                async with asyncio.timeout(_ANSWER_S), self._session.get(address) as answer:
                    if answer.status == HTTPStatus.OK:
                        return True
            except (aiohttp.ClientError, OSError):  # a TimeoutError is an OSError
                continue
        return False


@asynccontextmanager
async def open_probe(addresses: Sequence[str]) -> AsyncGenerator[HttpAgentProbe]:
    """A probe, while the block lasts. Proxies are for other addresses."""
    async with aiohttp.ClientSession(trust_env=False) as session:
        yield HttpAgentProbe(session, addresses)
