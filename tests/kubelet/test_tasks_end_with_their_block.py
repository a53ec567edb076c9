"""Background work neither outlives the block it was opened in nor hides how that ended."""

import asyncio

import pytest

from tessera_kubelet.background import open_tasks


async def fail(error: Exception) -> None:
    raise error


async def for_ever() -> None:
    await asyncio.Event().wait()


async def test_the_blocks_end_cancels_them() -> None:
    async with open_tasks() as tasks:
        task = tasks.create_task(for_ever(), name="for ever")
        await asyncio.sleep(0)
    assert task.cancelled()


async def test_a_failing_task_ends_the_block_with_its_own_error() -> None:
    error = LookupError("gone")

    async def block() -> None:
        async with open_tasks() as tasks:
            tasks.create_task(fail(error), name="failing")
            await for_ever()

    with pytest.raises(LookupError) as failed:
        await block()
    assert failed.value is error


async def test_the_blocks_error_comes_out_as_it_is() -> None:
    async def block() -> None:
        async with open_tasks() as tasks:
            tasks.create_task(for_ever(), name="for ever")
            raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await block()


async def test_two_errors_come_out_together() -> None:
    async def block() -> None:
        async with open_tasks() as tasks:
            tasks.create_task(fail(LookupError("one")), name="one")
            tasks.create_task(fail(ValueError("other")), name="other")
            await for_ever()

    with pytest.raises(ExceptionGroup) as failed:
        await block()
    assert [str(error) for error in failed.value.exceptions] == ["one", "other"]


async def test_who_cancels_the_block_while_a_task_fails_gets_it_cancelled() -> None:
    failing = asyncio.Event()

    async def fail_when_set() -> None:
        await failing.wait()
        raise LookupError("gone")

    async def block() -> None:
        async with open_tasks() as tasks:
            tasks.create_task(fail_when_set(), name="failing")
            await for_ever()

    async with open_tasks() as outer:
        task = outer.create_task(block(), name="block")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        failing.set()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
