"""What many tests share because it takes seconds to start, and what they do where it cannot be had.

A session of pytest has no event loop of its own: what is kept open for its length runs on one that
only turns while it is opened and closed, so nothing in it may need a task.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

import pytest

from tests.contract.kubebin import KubeBinMissing

CI = os.environ.get("CI") == "true"  # noqa: TID251  (where this runs is not a setting)

T = TypeVar("T")


@contextmanager
def open_for_session(opening: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """For the length of the block, on a loop of its own."""
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        opened = runner.run(_entered(opening))
        try:
            yield opened
        finally:
            runner.run(_left(opening))


async def _entered(opening: AbstractAsyncContextManager[T]) -> T:
    return await opening.__aenter__()


async def _left(opening: AbstractAsyncContextManager[T]) -> None:
    await opening.__aexit__(None, None, None)


@contextmanager
def or_skip() -> Iterator[None]:
    """Programs that are missing skip the test, and fail it where CI=true."""
    try:
        yield
    except KubeBinMissing as e:
        if CI:
            raise
        pytest.skip(str(e))
