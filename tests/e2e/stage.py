"""What a step that does harm stands on: the cluster, users' pods, and who looks afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from msgspec import Struct

from tests.e2e.checker import Checker
from tests.e2e.cluster import Cluster
from tests.e2e.crowd import Crowd
from tests.node.island import Gone


class Stage(Struct, frozen=True, kw_only=True):
    """The same for all steps of a run."""

    cluster: Cluster
    crowd: Crowd
    checker: Checker
    random: Random
    rounds: int
    """How often processes are killed."""
    long: bool
    """Whether it may take its time."""

    async def kill(self, program: str) -> bool:
        """Whether there was one to kill: it may be dead already."""
        try:
            await self.cluster.kill(program)
        except Gone:
            return False
        return True

    async def signal(self, pod: str, container: str, what: str) -> None:
        """To the one container of one of our own pods, by its name in `kill -l`."""
        running = await asyncio.to_thread(self.checker.containers.running)
        (one,) = (c for c in running if (c.pod, c.name) == (pod, container))
        await self.cluster.node.island.run("kill", f"-{what}", str(one.pid))


async def timed(step: Callable[[Any], Awaitable[None]], on: object) -> None:
    """Do it, and say how long it took."""
    began = time.monotonic()
    await step(on)
    report(f"{step.__name__}: {time.monotonic() - began:.1f} s")


def report(words: str) -> None:
    """A figure, for people."""
    print(words)  # noqa: T201  (a figure)
