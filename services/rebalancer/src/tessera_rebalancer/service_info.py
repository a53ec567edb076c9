"""The rebalancer among the services that NATS lists (`nats service ls`).

    nats request tessera.ask.<cluster>.rebalancer.info ''

Nothing depends on it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import msgspec
from msgspec import Struct

from tessera_rebalancer.rebalancer import Rebalancer
from tessera_runtime.bus.client import NatsBus
from tessera_runtime.bus.micro_service import MicroService, open_micro
from tessera_runtime.clock import Clock
from tessera_schema.subjects import token

_MOST_SHOWN: Final = 20
_CONTENDED: Final = 25.0
"""Percent of the time from which a card is shown as contended."""
_encode: Final = msgspec.json.Encoder().encode


class RebalancerInfo(Struct, frozen=True, kw_only=True):
    """The answer to `info`."""

    instance: str
    problem: str
    """Why nothing is told; empty when it is."""
    nodes: int
    """Nodes that are measured."""
    contended: tuple[str, ...]
    """The cards where most is waited, as `node/card`; no more than 20."""


def info(rebalancer: Rebalancer, instance: str) -> RebalancerInfo:
    """How the rebalancer is now."""
    told = rebalancer.teller.told
    waits = sorted(
        (-card.contended_percent, f"{node}/{card.card}")
        for node, hints in told.items()
        for card in hints.cards
        if card.contended_percent >= _CONTENDED
    )
    return RebalancerInfo(
        instance=instance, problem=rebalancer.problem(), nodes=len(told),
        contended=tuple(name for _, name in waits[:_MOST_SHOWN]),
    )  # fmt: skip


@asynccontextmanager
async def listed(
    bus: NatsBus, clock: Clock, rebalancer: Rebalancer, instance: str
) -> AsyncGenerator[None]:
    """Be listed whenever NATS is there, until left."""

    async def answer(_: bytes) -> bytes:
        return _encode(info(rebalancer, instance))

    service = MicroService(
        name="tessera-rebalancer", instance=token(instance),
        description="Tells what usage says about cards, and proposes changes.",
    )  # fmt: skip
    async with open_micro(bus, clock, service, {"info": answer}):
        yield
