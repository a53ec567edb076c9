"""A process says where it spends its time, if an operator has opened that."""

import asyncio
import threading
from collections import Counter

import pytest
from aiohttp import ClientSession

from tessera_runtime.http.profile import PATH, ProfileSettings, route, sample
from tessera_runtime.http.server import HttpSettings, application, serving

HTTP = HttpSettings(host="127.0.0.1", port=0)


def a_busy_function(until: threading.Event) -> None:
    while not until.wait(0.001):
        pass


def test_a_sample_has_the_calls_of_other_threads() -> None:
    over = threading.Event()
    thread = threading.Thread(target=a_busy_function, args=(over,), name="worker")
    thread.start()
    try:
        stacks = sample(0.1)
    finally:
        over.set()
        thread.join()
    (found,) = [stack for stack in stacks if "a_busy_function" in stack and "wait" in stack][:1]
    assert found.startswith("worker;threading.Thread._bootstrap;")
    assert not any("profile.sample" in stack for stack in stacks)


async def answer_of(settings: ProfileSettings, query: str) -> tuple[int, str]:
    app = application(HTTP)
    app.add_routes([route(settings)])
    async with (
        serving(app, HTTP) as served,
        ClientSession(served.url) as session,
        session.get(PATH + query) as answer,
    ):
        return answer.status, await answer.text()


async def test_it_is_closed_by_default() -> None:
    status, text = await answer_of(ProfileSettings(), "?seconds=0.1")
    assert status == 403
    assert "TESSERA_PROFILE_ENABLED" in text


@pytest.mark.parametrize("seconds", ["x", "nan", "-1", "0", "61", "inf"])
async def test_nonsense_is_refused(seconds: str) -> None:
    status, text = await answer_of(ProfileSettings(enabled=True), f"?seconds={seconds}")
    assert (status, text) == (400, f"seconds: {seconds!r}: write a number from 0.1 to 60\n")


async def test_one_is_taken_at_a_time() -> None:
    begun, over = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def take(seconds: float) -> Counter[str]:
        loop.call_soon_threadsafe(begun.set)
        over.wait()
        return Counter({f"for;{seconds:g};seconds": 2})

    app = application(HTTP)
    app.add_routes([route(ProfileSettings(enabled=True), take)])
    async with serving(app, HTTP) as served, ClientSession(served.url) as session:

        async def get() -> tuple[int, str]:
            async with session.get(f"{PATH}?seconds=0.5") as answer:
                return answer.status, await answer.text()

        async with asyncio.TaskGroup() as group:
            first = group.create_task(get(), name="first")
            await begun.wait()
            refused, _ = await get()
            over.set()
    assert refused == 429
    assert first.result() == (200, "for;0.5;seconds 2\n")


async def test_a_profile_has_the_loops_own_stack() -> None:
    status, text = await answer_of(ProfileSettings(enabled=True), "?seconds=0.1")
    assert status == 200
    rows = [line.rpartition(" ") for line in text.splitlines()]
    assert any("asyncio.base_events.BaseEventLoop.run_forever" in stack for stack, _, _ in rows)
    assert all(int(count) > 0 for _, _, count in rows)
