"""Work that runs while a body runs, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def running_in_background(work: Coroutine[Any, Any, None], name: str) -> AsyncGenerator[None]:
    """Run the work until the body ends.

    If it crashes the body is cancelled and the crash is raised. An error of the body is raised as
    it is, not as a group of one.
    """
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(work, name=name)
            try:
                yield
            finally:
                task.cancel()
    except BaseExceptionGroup as failed:
        if len(failed.exceptions) == 1:
            raise failed.exceptions[0] from None
        raise
