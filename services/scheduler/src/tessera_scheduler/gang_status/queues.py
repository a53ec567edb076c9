"""What is allocated in Volcano's queues, in their statuses. Counts and state are written by
Volcano's Queue controller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from tessera_core.gang_status.enqueue import named_amounts
from tessera_core.gang_status.writers import wrote_lately
from tessera_runtime.kube.timestamps import parse_time
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_scheduler.gang_status.objects import StatusQueue, StatusQueues
from tessera_scheduler.gang_status.writes import MANAGER, StatusWrites

EVERY_S: Final = 5.0
"""Seconds between two writes of one queue."""
_MOST_LEVELS: Final = 32


class QueueStatusWriter:
    """Writes what is allocated."""

    def __init__(self, queues: StatusQueues, writes: StatusWrites, clock: MonotonicClock) -> None:
        """Queues as a watch shows them."""
        self._queues = queues
        self._writes = writes
        self._clock = clock
        self._written: dict[str, float] = {}
        self._others: set[str] = set()

    @property
    def others(self) -> int:
        """How many queues are not written because somebody else writes them."""
        return len(self._others)

    async def write(self, allocated: Mapping[str, Mapping[str, int]]) -> None:
        """Write what differs. `allocated` is by queue, without what is below it."""
        now, known = self._clock.time(), self._queues.known
        self._others &= known.keys()
        self._written = {name: at for name, at in self._written.items() if name in known}
        sums = self._with_children(allocated)
        for name in sorted(known):
            queue = known[name]
            patch = _patch(queue, sums.get(name, {}))
            if not patch or now - self._written.get(name, float("-inf")) < EVERY_S:
                continue
            if wrote_lately(queue.meta, MANAGER, now, parse_time, "f:allocated"):
                self._others.add(name)
                continue
            self._others.discard(name)
            await self._writes.queue(name, patch)
            self._written[name] = now

    def _with_children(self, allocated: Mapping[str, Mapping[str, int]]) -> dict[str, Counter[str]]:
        sums: dict[str, Counter[str]] = {}
        for name, amounts in allocated.items():
            above: list[str] = []
            while name in self._queues.known and name not in above and len(above) < _MOST_LEVELS:
                above.append(name)
                sums.setdefault(name, Counter()).update(amounts)
                name = self._queues.known[name].queue.spec.parent or (
                    "" if name == "root" else "root"
                )
        return sums


def _patch(queue: StatusQueue, amounts: Mapping[str, int]) -> dict[str, str | None]:
    """Names whose amounts differ, as quantities; None for one that nobody has any more."""
    before = named_amounts(queue.allocated)
    changed: dict[str, str | None] = {
        name: _quantity(name, amount)
        for name, amount in amounts.items()
        if amount and before.get(name) != amount
    }
    return {**changed, **{name: None for name in queue.allocated if not amounts.get(name)}}


def _quantity(name: str, amount: int) -> str:
    if name != "cpu":
        return str(amount)
    return f"{amount}m" if amount % 1000 else str(amount // 1000)
