"""Whether this replica answers: it holds the Lease, and has read all pods since it got it.

The Lease itself is waited out by `tessera_runtime.kube.lease`, one call deadline included, so no
Binding that the former holder sent in time is under way when the pods are read. One that comes
later is of a former term, and the API server refuses it (`tessera_core.trust.fencing`). A replica
that loses the Lease drops the reservations that it never sent, and goes on settling those that it
did.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import NoReturn

from tessera_runtime import logs
from tessera_runtime.kube.lease import Lease
from tessera_runtime.metrics import Gauge

_log = logs.named("tessera.scheduler.leadership")


def identity_of(replica: str) -> str:
    """A name for the Lease that a process does not share with its former self."""
    return f"{replica}-{secrets.token_hex(4)}"


def replica_of(holder: str) -> str:
    """The replica that `identity_of` named; the Lease adds a part of its own."""
    return holder.partition("_")[0].rpartition("-")[0]


class Leadership:
    """Whether this replica answers, and under which term."""

    def __init__(self, lease: Lease, gauge: Gauge) -> None:
        """`gauge` is 1 while this replica answers."""
        self._lease = lease
        self._gauge = gauge
        self._ready = 0
        """The generation of the Lease for which the ledger is up to date."""

    @property
    def leads(self) -> bool:
        """True while this replica answers."""
        return not self.problem()

    @property
    def holds(self) -> bool:
        """True while nobody else may write, whether this replica answers already or not."""
        return self._lease.remaining() > 0

    @property
    def leader(self) -> str:
        """The replica that holds the Lease, as far as this one saw; empty when there is none."""
        return replica_of(self._lease.holder)

    def other_than(self, replica: str) -> str:
        """The replica that leads, where that is another one; empty where it is not."""
        return "" if self.holds or self.leader == replica else self.leader

    def problem(self) -> str:
        """Why it does not answer; empty when it does."""
        if not self._lease.remaining():
            return f"standing by: {self._lease.holder or 'nobody yet'} leads"
        if self._ready != self._lease.generation:
            return "leads, and is reading the pods again"
        return ""

    def term(self) -> str:
        """What the API server compares with the Lease: a grant of another term is refused."""
        return str(self._lease.generation)

    def fence(self) -> float:
        """Seconds for which this replica surely leads; 0 when it does not answer."""
        return self._lease.remaining() if self._ready == self._lease.generation else 0.0

    async def run(
        self, take_over: Callable[[], Awaitable[None]], resign: Callable[[], None]
    ) -> NoReturn:
        """Take over whenever this replica gets the Lease, until cancelled.

        `take_over` brings the ledger up to date with a quorum read, `resign` drops what only the
        leader may hold.
        """
        while True:
            await self._lease.held.wait()
            generation = self._lease.generation
            async with asyncio.TaskGroup() as group:
                task = group.create_task(self._begin(generation, take_over), name="taking over")
                await self._lease.lost.wait()
                task.cancel()
            self._ready = 0
            self._gauge.set(0)
            resign()
            _log.warning("no longer leading", generation=generation)

    async def _begin(self, generation: int, take_over: Callable[[], Awaitable[None]]) -> None:
        await take_over()
        self._gauge.set(1)
        self._ready = generation
        _log.info("leading", generation=generation)
