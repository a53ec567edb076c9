"""Background work that ends with the block it was opened in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class _BlockEnded(Exception):
    """Ends a TaskGroup's tasks."""


@asynccontextmanager
async def open_tasks() -> AsyncGenerator[asyncio.TaskGroup]:
    """A TaskGroup whose tasks are cancelled when the block ends. A task that fails cancels the
    block. A single error comes out as itself, also when task and block raise the same one; several
    come out as a group. A caller that cancels the block gets it cancelled, even as a task fails."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
            raise _BlockEnded
    except BaseExceptionGroup as errors:
        caller = asyncio.current_task()
        if caller is not None and caller.cancelling():
            raise asyncio.CancelledError from errors  # TaskGroup forgets it before Python 3.13
        _, failed = errors.split(_BlockEnded)
        if failed is None:
            return
        error, *others = failed.exceptions
        if any(other is not error for other in others):
            raise failed from None
        raise error from error.__cause__
