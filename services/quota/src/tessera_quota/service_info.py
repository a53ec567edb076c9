"""The quota monitor among the services that NATS lists (`nats service ls`).

    nats request tessera.ask.<cluster>.quota.info ''

Nothing depends on it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import msgspec
from msgspec import Struct

from tessera_core.machines.throttle import ThrottlePhase
from tessera_quota.monitor import QuotaMonitor
from tessera_runtime.bus.client import NatsBus
from tessera_runtime.bus.micro_service import MicroService, open_micro
from tessera_runtime.clock import Clock
from tessera_schema.subjects import token

_encode: Final = msgspec.json.Encoder().encode


class QuotaInfo(Struct, frozen=True, kw_only=True):
    """The answer to `info`."""

    instance: str
    problem: str
    """Why nothing is judged; empty when it is."""
    quotas: int
    """AcceleratorQuotas."""
    exceeded: tuple[str, ...]
    """Those that are not within, as `namespace/name`."""


def info(quota: QuotaMonitor, instance: str) -> QuotaInfo:
    """How the monitor is now."""
    statuses = quota.judging.statuses
    exceeded = (key for key, status in statuses.items() if status.phase != ThrottlePhase.WITHIN)
    return QuotaInfo(
        instance=instance, problem=quota.problem(), quotas=len(quota.judging.objects.known),
        exceeded=tuple(sorted(exceeded)),
    )  # fmt: skip


@asynccontextmanager
async def listed(
    bus: NatsBus, clock: Clock, quota: QuotaMonitor, instance: str
) -> AsyncGenerator[None]:
    """Be listed whenever NATS is there, until left."""

    async def answer(_: bytes) -> bytes:
        return _encode(info(quota, instance))

    service = MicroService(
        name="tessera-quota",
        instance=token(instance),
        description="Tells what namespaces use of their quotas, and throttles what is too much.",
    )
    async with open_micro(bus, clock, service, {"info": answer}):
        yield
