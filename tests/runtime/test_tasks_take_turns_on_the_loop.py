"""Work in slices, and messages that have come already, let other tasks run every few milliseconds.
Time is counted by the test: each piece takes one millisecond."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from tessera_core.slices import Slices
from tessera_runtime.slice_runner import AT_MOST_S, LoopTurn, in_slices

PIECES = 100
PIECE_S = 0.001
TURNS = PIECES * PIECE_S / AT_MOST_S

pytestmark = pytest.mark.looptime


class Others:
    """Another task, which runs whenever it may."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.ran_at_s = 0.0
        self.longest_s = 0.0
        self.turns = 0

    def now(self) -> float:
        return self.now_s

    def work(self) -> None:
        """A piece of the work that they wait for."""
        self.now_s += PIECE_S

    async def run(self) -> None:
        while True:
            self.turns += 1
            self.longest_s = max(self.longest_s, self.now_s - self.ran_at_s)
            self.ran_at_s = self.now_s
            await asyncio.sleep(0)


@asynccontextmanager
async def others() -> AsyncGenerator[Others]:
    waiting = Others()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(waiting.run(), name="others")
        yield waiting
        task.cancel()


async def test_between_slices() -> None:
    async with others() as waiting:

        def work() -> Slices[str]:
            for _ in range(PIECES):
                waiting.work()
                yield
            return "done"

        assert await in_slices(work(), waiting.now) == "done"
    assert TURNS <= waiting.turns <= TURNS + 2
    assert waiting.longest_s <= AT_MOST_S + PIECE_S


async def test_between_messages_that_have_come() -> None:
    async with others() as waiting:
        turn = LoopTurn(waiting.now)
        for _ in range(PIECES):
            await turn.pause()
            waiting.work()
    assert waiting.longest_s <= AT_MOST_S + PIECE_S


async def test_a_task_that_has_waited_has_a_whole_turn() -> None:
    async with others() as waiting:
        turn = LoopTurn(waiting.now)
        for _ in range(PIECES):
            waiting.work()
            turn.begin()
            await turn.pause()
        assert not waiting.turns
