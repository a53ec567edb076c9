"""The messages that NATS keeps, read as an integrator would: plain nats-py, the viewer's name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import nats
from nats.errors import Error
from nats.js.client import JetStreamContext
from nats.js.errors import Error as JetStreamError

from tests.e2e.cluster import HOME, PATIENCE_S, Cluster

AGAIN_S = 0.5
NAME = f"tessera-nats.{HOME}"
"""By which the services call it, and which its certificate is for."""
AWAY = (Error, JetStreamError, OSError, TimeoutError)
"""Errors of a bus that is not there, or elects its leader."""


async def received(cluster: Cluster, subject: str) -> bytes:
    """The first message on a subject that is kept, however long it takes to come."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(*AWAY):
                async with bus(cluster) as jetstream:
                    kept = await jetstream.subscribe(subject, ordered_consumer=True)
                    return (await kept.next_msg(timeout=5)).data
            await asyncio.sleep(AGAIN_S)


@asynccontextmanager
async def bus(cluster: Cluster) -> AsyncGenerator[JetStreamContext]:
    """Until the block ends; any of AWAY may be raised by what is done with it."""
    service = await cluster.get("service", "tessera-nats", "-n", HOME)
    client = await nats.connect(
        f"nats://{service['spec']['clusterIP']}:4222",
        user="viewer", password="not-a-secret",  # noqa: S106  (the overlay's)
        allow_reconnect=False, connect_timeout=5,
        tls=cluster.bus_tls, tls_hostname=NAME if cluster.bus_tls else None,
    )  # fmt: skip
    try:
        yield client.jetstream()
    finally:
        await client.close()
