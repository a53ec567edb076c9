"""Makes kube-scheduler try waiting pods again when it cannot know that something changed.

kube-scheduler watches Kubernetes alone: it does not see that a quota was raised, a reservation ran
out or a card that the bus took away came back. It sees pods leave, but may ask about the next one
before the ledger has seen it too, and then not again. One annotation of one node is touched in all
these cases, at most once in a while, and only while a pod waits.
"""

from __future__ import annotations

import asyncio
from typing import Final

from tessera_core.ledger.ledger import Ledger
from tessera_runtime import logs
from tessera_runtime.clock import Clock
from tessera_runtime.errors import ApiRefused, Transient
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.patches import annotate
from tessera_runtime.metrics import Counter
from tessera_scheduler.events import AllocationEvents
from tessera_scheduler.leadership.leader import Leadership
from tessera_schema.annotation_keys import WAKE_KEY

TRIES: Final = 3

_log = logs.named("tessera.scheduler.wake")


class PendingPodRequeuer:
    """Touches a node when something became free and pods wait."""

    def __init__(
        self,
        *,
        kube: Kube,
        ledger: Ledger,
        leadership: Leadership,
        allocation_events: AllocationEvents,
        touches: Counter,
        clock: Clock,
        every_s: float,
    ) -> None:
        """`allocation_events` know whether pods wait; changes are gathered for `every_s`
        seconds."""
        self._kube = kube
        self._ledger = ledger
        self._leadership = leadership
        self._allocation_events = allocation_events
        self._touches = touches
        self._clock = clock
        self._every_s = every_s
        self._wanted = asyncio.Event()
        self._lent = ledger.lent

    def requeue(self) -> None:
        """Have waiting pods tried again soon."""
        self._wanted.set()

    def on_pod_gone(self, uid: str) -> None:
        """What the pod asked for, and never got, may be lent to another namespace again."""
        del uid
        if self._lent != self._ledger.lent:
            self._lent = self._ledger.lent
            self.requeue()

    async def run(self) -> None:
        """Touch a node a moment after it was asked for, until cancelled."""
        while True:
            await self._wanted.wait()
            await asyncio.sleep(self._every_s)
            self._wanted.clear()
            if self._leadership.leads and self._allocation_events.waiting > 0:
                done = await self._touch()
                self._touches.labels("done" if done else "failed").inc()
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
