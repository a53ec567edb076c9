"""Makes kube-scheduler look at waiting pods again when it cannot know that something changed.

kube-scheduler listens to Kubernetes alone: it does not see that a quota was raised, a reservation
ran out or a card that the bus took away came back. It sees pods leave, but may ask about the next
one before the books have seen it too, and then not again. One annotation of one node is touched in
all these cases, at most once in a while, and only while somebody waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from tessera_core.ledger.ledger import Ledger
from tessera_runtime import logs
from tessera_runtime.clock import Clock
from tessera_runtime.errors import ApiRefused, Transient
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.patches import annotate
from tessera_scheduler.metrics import SchedulerMetrics
from tessera_schema.annotation_keys import WAKE_KEY

TRIES: Final = 3

_log = logs.named("tessera.scheduler.wake")


class PendingPodRequeuer:
    """Touches a node."""

    def __init__(
        self,
        kube: Kube,
        ledger: Ledger,
        clock: Clock,
        measures: SchedulerMetrics,
        *,
        waits: Callable[[], bool],
        every_s: float,
    ) -> None:
        """`waits` tells whether anybody would be woken."""
        self._kube = kube
        self._ledger = ledger
        self._clock = clock
        self._measures = measures
        self._waits = waits
        self._every_s = every_s
        self._wanted = asyncio.Event()

    def requeue(self) -> None:
        """Something became free."""
        self._wanted.set()

    async def run(self) -> None:
        """Touch a node a moment after it was asked for, again and again."""
        while True:
            await self._wanted.wait()
            await asyncio.sleep(self._every_s)
            self._wanted.clear()
            if self._waits():
                done = await self._touch()
                self._measures.wakes.labels("done" if done else "failed").inc()
                if not done:
                    self._wanted.set()

    async def _touch(self) -> bool:
        now = f"{self._clock.time():.3f}"
        for node in list(self._ledger.fleet.rows)[:TRIES]:
            try:
                await annotate(self._kube, paths.node(node), {WAKE_KEY: now})
            except (ApiRefused, Transient) as e:
                _log.warning("node not touched", node=node, why=str(e))
            else:
                return True
        return False
