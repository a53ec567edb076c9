"""What the hooks of two containers on a card have counted, read again and again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Final

from tessera_core.hook.records import uuid_key
from tessera_core.hook.usage_counters import (
    NOTHING,
    SIZE,
    UsageCounters,
    is_of,
    read_counters,
    record_at,
)
from tessera_demo.acts.lending_samples import CounterPair
from tessera_demo.stage import DemoStage
from tessera_schema.grants import Grant

_SAMPLE_S: Final = 0.02
_COUNT: Final = 25


async def counter_pairs(stage: DemoStage, owner: Grant, other: Grant) -> list[CounterPair]:
    """The counters of half a second."""
    loop, samples = asyncio.get_running_loop(), list[CounterPair]()
    for _ in range(_COUNT):
        await asyncio.sleep(_SAMPLE_S)
        one = await asyncio.to_thread(_counters, stage, owner)
        two = await asyncio.to_thread(_counters, stage, other)
        samples.append(CounterPair(loop.time(), one.launches, one.gpu_ns, two.gpu_ns))
    return samples


def _counters(stage: DemoStage, grant: Grant) -> UsageCounters:
    """What the container's hook has counted on its card."""
    folder = stage.agent_folder(grant.node) / "containers" / grant.uid / "main"
    return _counted(folder / "usage", grant.shares[0].card)


def _counted(usage: Path, card: str) -> UsageCounters:
    with suppress(OSError), usage.open("rb") as file:
        file.seek(record_at(0))  # it holds one card
        data = file.read(SIZE)
        if is_of(data, uuid_key(card)):
            return read_counters(data)
    return NOTHING
