"""What a watch shows of gangs' pods: which were bound, in the order of the API server's writes."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from time import monotonic

from tests.cluster.cluster import RealCluster
from tests.cluster.gangs.members import GANG
from tests.contract.client import Json


class BindingLog:
    """Made by `logged`. It knows gangs by the label `gang` of their pods."""

    def __init__(self, least: Mapping[str, int]) -> None:
        """`least` is the minimum of each gang."""
        self._least = least
        self._bound: dict[str, dict[str, float]] = defaultdict(dict)
        """Gang -> bound pod -> when it was seen."""
        self.most_partial: frozenset[str] = frozenset()
        """The most gangs that were bound by halves at one moment."""
        self.windows: list[float] = []
        """Seconds from the first to the last Binding of each start."""

    def take(self, kind: str, pod: Json) -> None:
        """An event of the watch."""
        gang, name = pod["metadata"].get("labels", {}).get(GANG, ""), pod["metadata"]["name"]
        if gang not in self._least:
            return
        bound = self._bound[gang]
        if kind == "DELETED":
            bound.pop(name, None)
            return
        if pod["spec"].get("nodeName") and name not in bound:
            bound[name] = monotonic()
            if len(bound) == self._least[gang]:
                self.windows.append(bound[name] - min(bound.values()))
            partial = self.partial()
            if len(partial) > len(self.most_partial):
                self.most_partial = partial

    def partial(self) -> frozenset[str]:
        """Gangs of which some pods are bound now, and fewer than the minimum."""
        return frozenset(g for g, has in self._bound.items() if 0 < len(has) < self._least[g])

    def count(self, gang: str) -> int:
        """How many of its pods are bound."""
        return len(self._bound[gang])


@asynccontextmanager
async def logged(cluster: RealCluster, **least: int) -> AsyncGenerator[BindingLog]:
    """Follow the pods of the test for the length of the block."""
    log = BindingLog(least)
    version = (await cluster.admin.get(cluster.pods_path())).done["metadata"]["resourceVersion"]
    async with cluster.admin.watch(cluster.pods_path(), resourceVersion=version) as watch:

        async def follow() -> None:
            while True:
                with suppress(TimeoutError):  # what waits for it says what it waits for
                    log.take(*await watch.next())

        async with asyncio.TaskGroup() as group:
            following = group.create_task(follow(), name="binding log")
            yield log
            following.cancel()
