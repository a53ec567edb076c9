"""Tasks that nobody waits for are begun in the order in which they were added."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from tessera_runtime.background import running_in_background
from tessera_scheduler.retry_queue import RetryQueue

pytestmark = pytest.mark.looptime


async def test_the_one_that_waits_longest_comes_first() -> None:
    begun: list[int] = []

    async def done(number: int) -> bool:
        begun.append(number)
        await asyncio.sleep(1)
        return True

    queue = RetryQueue(at_once=2, first_s=1, most_s=8)
    for number in range(6):
        queue.add("gate", str(number), partial(done, number))
    async with running_in_background(queue.run(), "retry queue"):
        await asyncio.sleep(10)
    assert begun == [0, 1, 2, 3, 4, 5]
    assert queue.open == 0
