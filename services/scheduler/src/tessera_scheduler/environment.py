"""What a scheduler stands on: the API server, the bus and the clocks, and what is opened on them as
long as it runs: keys, outbox, events and the Lease.

Nothing is decided here: `tessera_scheduler.scheduler` joins the parts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from random import Random

from msgspec import Struct

from tessera_core.registry.registry import DialectRegistry
from tessera_runtime.bus.api import Bus
from tessera_runtime.bus.outbox import Outbox, open_outbox
from tessera_runtime.clock import Clock
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.events import EventRecorder, open_events
from tessera_runtime.kube.lease import Lease, open_lease
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_scheduler.keys.signing_keys import SigningKeys, open_keys
from tessera_scheduler.leadership.leader import identity_of
from tessera_scheduler.settings import SchedulerSettings


class SchedulerEnvironment(Struct, frozen=True, kw_only=True):
    """What a scheduler stands on."""

    kube: Kube
    clock: Clock
    monotonic_clock: MonotonicClock
    registry: DialectRegistry
    bus: Bus
    outbox: Outbox
    recorder: EventRecorder
    keys: SigningKeys
    lease: Lease
    settings: SchedulerSettings
    random: Random
    """Spreads attempts; keeps no secret."""


@asynccontextmanager
async def open_environment(
    kube: Kube,
    bus: Bus,
    settings: SchedulerSettings,
    clock: Clock,
    registry: DialectRegistry,
    *,
    random: Random | None = None,
) -> AsyncGenerator[SchedulerEnvironment]:
    """Open all of it for one replica; raises what `tessera_scheduler.scheduler.open_scheduler`
    does."""
    instance = settings.instance or "scheduler"
    chance = random if random is not None else Random()  # noqa: S311  (spreads load)
    async with (
        open_keys(kube, settings.namespace, settings.keys, clock) as keys,
        open_outbox(bus, clock, "scheduler", instance, settings=settings.outbox) as outbox,
        open_events(kube, settings.events, component="tessera-scheduler", clock=clock) as recorder,
        open_lease(
            kube, settings.lease, identity=identity_of(instance), call_s=settings.kube.call_s,
            clock=clock, random=chance,
        ) as lease,
    ):  # fmt: skip
        yield SchedulerEnvironment(
            kube=kube, clock=clock,
            monotonic_clock=MonotonicClock(clock, asyncio.get_running_loop()),
            registry=registry, bus=bus, outbox=outbox, recorder=recorder, keys=keys, lease=lease,
            settings=settings, random=chance,
        )  # fmt: skip
