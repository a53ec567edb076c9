"""The scheduler among the services that NATS lists (`nats service ls`), with a word on how it is.

    nats request tessera.ask.<cluster>.scheduler.info ''

One of the replicas answers; `instance` says which. Nothing depends on it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import msgspec
from msgspec import Struct

from tessera_runtime.bus.client import NatsBus
from tessera_runtime.bus.micro_service import MicroService, open_micro
from tessera_runtime.clock import Clock
from tessera_scheduler.scheduler import Scheduler
from tessera_schema.subjects import token

_encode: Final = msgspec.json.Encoder().encode


class SchedulerInfo(Struct, frozen=True, kw_only=True):
    """The answer to `info`."""

    instance: str
    leads: bool
    problem: str
    """Why it does not answer kube-scheduler; empty when it does."""
    nodes: int
    grants: int
    """In the books, reservations included."""
    dialects: tuple[str, ...]
    """Those that new pods may speak."""


def info(scheduler: Scheduler, instance: str) -> SchedulerInfo:
    """How the scheduler is now."""
    problem = scheduler.leading.problem()
    return SchedulerInfo(
        instance=instance, leads=not problem, problem=problem,
        nodes=len(scheduler.ledger.fleet.rows),
        grants=sum(1 for _ in scheduler.ledger.entries()),
        dialects=tuple(sorted(scheduler.registry.dialects)),
    )  # fmt: skip


@asynccontextmanager
async def listed(
    bus: NatsBus, clock: Clock, scheduler: Scheduler, instance: str
) -> AsyncGenerator[None]:
    """Be listed whenever NATS is there, until left."""

    async def answer(_: bytes) -> bytes:
        return _encode(info(scheduler, instance))

    service = MicroService(
        name="tessera-scheduler", instance=token(instance),
        description="Places pods that ask for shares of accelerators.",
    )  # fmt: skip
    async with open_micro(bus, clock, service, {"info": answer}):
        yield
