"""What NATS keeps of the news, read as an integrator would: plain nats-py and the viewer's name."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import nats
from nats.errors import Error
from nats.js.errors import Error as JetStreamError

from tests.e2e.cluster import HOME, PATIENCE_S, Cluster

AGAIN_S = 0.5


async def heard(cluster: Cluster, subject: str) -> bytes:
    """The first message on a subject that is kept, however long it takes to be told."""
    service = await cluster.get("service", "tessera-nats", "-n", HOME)
    address = f"nats://{service['spec']['clusterIP']}:4222"
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(Error, JetStreamError, OSError, TimeoutError):
                return await _first(address, subject)
            await asyncio.sleep(AGAIN_S)


async def _first(address: str, subject: str) -> bytes:
    client = await nats.connect(
        address, user="viewer", password="not-a-secret",  # noqa: S106  (the overlay's)
        allow_reconnect=False, connect_timeout=5,
    )  # fmt: skip
    try:
        kept = await client.jetstream().subscribe(subject, ordered_consumer=True)
        return (await kept.next_msg(timeout=5)).data
    finally:
        await client.close()
