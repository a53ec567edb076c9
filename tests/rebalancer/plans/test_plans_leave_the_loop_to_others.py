"""Work in slices lets other tasks run by the clock, whatever the number of its slices."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from tessera_core.slices import Slices
from tessera_runtime.slice_runner import AT_MOST_S, in_slices


class Work:
    """Slices that take a millisecond each, by a clock that they move on, and a task that counts
    its turns."""

    def __init__(self) -> None:
        self.at = 0.0
        self.turns: list[float] = []
        """When the other task ran."""

    def now(self) -> float:
        return self.at

    def slices(self, count: int) -> Slices[str]:
        for _ in range(count):
            self.at += 0.001
            yield
        return "done"

    async def other(self) -> None:
        while True:
            self.turns.append(self.at)
            await asyncio.sleep(0)


def gaps(turns: list[float], end: float) -> Iterator[float]:
    return (b - a for a, b in zip(turns, [*turns[1:], end], strict=True))


async def run(work: Work, *pieces: Slices[str]) -> list[str]:
    """What the pieces of work come to, one after another, next to the other task."""
    async with asyncio.TaskGroup() as group:
        other = group.create_task(work.other(), name="other")
        found = [await in_slices(piece, work.now) for piece in pieces]
        other.cancel()
    return found


async def test_nobody_waits_longer_than_a_slice_beyond_the_bound() -> None:
    work = Work()
    assert await run(work, work.slices(100)) == ["done"]
    assert len(work.turns) >= 100 * 0.001 / (AT_MOST_S + 0.001)
    assert max(gaps(work.turns, work.at)) <= AT_MOST_S + 0.001 + 1e-9


async def test_work_that_is_quick_lets_others_run_before_it() -> None:
    work = Work()
    assert await run(work, *(work.slices(1) for _ in range(3))) == ["done"] * 3
    assert len(work.turns) >= 3
