"""Pods that come and go on cards which are full: some run, some wait, and each that ends makes room
for one that waits. They ask in several dialects and do nothing but hold what they have.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import count
from random import Random
from typing import Any

import aiohttp

from tests.contract.client import Answer, Json
from tests.e2e.checker import WANTS
from tests.e2e.cluster import Cluster
from tests.node.kubelet import a_pod

MIB = 5120
PODS = "/api/v1/namespaces/default/pods"
ASKED: tuple[Mapping[str, str], ...] = (
    {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(MIB)},
    {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": str(MIB)},
    {"tencent.com/vcuda-core": "5", "tencent.com/vcuda-memory": str(MIB // 256)},
)
MADE = frozenset({201, 409})
GONE = frozenset({200, 202, 404})
LATER = frozenset({429, 500, 503, 504})
AGAIN_S = 0.3


class Crowd:
    """Made by the test; its pods are gone when it says so."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        """Nobody is there yet."""
        self._cluster = cluster
        self._random = random
        self._numbers = count()
        self.names: list[str] = []
        self.turns = 0
        """Pods that went, each of them followed by one that came."""

    async def gather(self, size: int) -> None:
        """So many pods more, more than the cards have room for."""
        async with asyncio.TaskGroup() as group:
            for _ in range(size):
                group.create_task(self._come(), name="a pod comes")

    async def turn(self) -> None:
        """One goes, and one comes."""
        name = self.names.pop(self._random.randrange(len(self.names)))
        await self.delete(name, grace_s=self._random.randrange(2))
        await self._come()
        self.turns += 1

    @asynccontextmanager
    async def moving(self, pause_s: float = 0.7) -> AsyncGenerator[None]:
        """They come and go until the block ends."""

        async def move() -> None:
            while True:
                await self.turn()
                await asyncio.sleep(self._random.uniform(0, 2 * pause_s))

        async with asyncio.TaskGroup() as group:
            task = group.create_task(move(), name="pods come and go")
            try:
                yield
            finally:
                task.cancel()

    async def renew(self) -> None:
        """As many as before, whichever have gone by themselves."""
        size = len(self.names)
        await self.leave()
        await self.gather(size)

    async def leave(self) -> None:
        """All go."""
        names, self.names = self.names, []
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(self.delete(name), name=f"{name} goes")

    async def create(self, name: str, limits: Mapping[str, str], **spec: Any) -> Json:
        """A pod that does nothing; sent again as long as nobody admits it."""
        body = resting(name, limits, **spec)
        return (await sooner_or_later(lambda: self._cluster.admin.post(PODS, body), MADE)).body

    async def delete(self, name: str, grace_s: int = 0) -> None:
        """The API server forgets it at once without a grace, and lets it end first with one."""
        await sooner_or_later(
            lambda: self._cluster.admin.delete(f"{PODS}/{name}", gracePeriodSeconds=str(grace_s)),
            GONE,
        )

    async def _come(self) -> None:
        name = f"crowd-{next(self._numbers)}"
        self.names.append(name)
        await self.create(name, self._random.choice(ASKED), labels={WANTS: str(MIB)})


def resting(name: str, limits: Mapping[str, str], **spec: Any) -> Json:
    """A pod that holds what it has."""
    main = {
        "image": "example.com/work:1", "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "100000"],
    }  # fmt: skip
    return a_pod(name, limits, main=main, **spec)


async def sooner_or_later(call: Callable[[], Any], good: frozenset[int]) -> Answer:
    """Its answer, once it is one of these and not a request to come again."""
    while True:
        with suppress(aiohttp.ClientError, TimeoutError):
            answer: Answer = await call()
            if answer.status in good:
                return answer
            starting = "not yet ready" in str(answer.body)
            assert starting or answer.status in LATER, answer
        await asyncio.sleep(AGAIN_S)
