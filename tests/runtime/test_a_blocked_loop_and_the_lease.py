"""What the event loop does while it stands still, and what the Lease makes of it."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest

from tessera_embedded.apiserver.store import Store
from tessera_runtime import watchdog
from tessera_runtime.http.fast_path import Reply
from tessera_runtime.http.server import HttpSettings, application, serving
from tessera_runtime.kube.lease import Lease, open_lease
from tessera_testing.kube import FakeKube
from tests.runtime.cluster import must
from tests.runtime.strangers import post, strangers
from tests.runtime.test_one_writer_at_a_time import (
    CALL_S,
    LEASE,
    SETTINGS,
    a_cluster_with_an_empty_lease,
    spec,
)

SURVIVED_S = SETTINGS.duration_s - SETTINGS.renew_s


class JumpingLoop(asyncio.SelectorEventLoop):
    """More time passes in it on demand, all at once: nothing else runs meanwhile, as in a loop
    that is blocked."""

    passed = 0.0

    def time(self) -> float:
        return super().time() + self.passed

    async def runs(self, seconds: float) -> None:
        """Let it pass in small steps, with all that is due."""
        for _ in range(round(seconds / 0.1)):
            self.passed += 0.1
            for _ in range(20):
                await asyncio.sleep(0)


def on_a_loop(main: Callable[[JumpingLoop, Store, Lease], Awaitable[None]]) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, JumpingLoop)
        store = a_cluster_with_an_empty_lease()
        async with open_lease(
            FakeKube(store), SETTINGS, identity="a", call_s=CALL_S,
            random=random.Random(1),  # noqa: S311  (reproducible)
        ) as lease:  # fmt: skip
            await loop.runs(2)
            assert lease.held.is_set()
            await main(loop, store, lease)

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(run())


@pytest.mark.parametrize("when", [0.0, 1.0, 2.5, 2.9, 3.0, 3.1])
def test_a_block_that_is_shorter_than_the_lease_allows_loses_nothing(when: float) -> None:
    async def main(loop: JumpingLoop, _: Store, lease: Lease) -> None:
        await loop.runs(when)
        loop.passed += SURVIVED_S - 0.5
        assert lease.remaining() > 0
        await loop.runs(5)
        assert lease.generation == 1
        assert lease.remaining() > CALL_S

    on_a_loop(main)


def test_a_longer_one_loses_it_before_anything_else_runs() -> None:
    async def main(loop: JumpingLoop, _: Store, lease: Lease) -> None:
        loop.passed += SETTINGS.duration_s
        assert lease.remaining() == 0
        assert lease.held.is_set(), "nobody was told yet: it is the time that counts"
        await loop.runs(2)
        assert lease.held.is_set(), "nobody else took it"
        assert lease.generation == 2

    on_a_loop(main)


def test_one_that_somebody_else_took_meanwhile_stays_lost() -> None:
    async def main(loop: JumpingLoop, store: Store, lease: Lease) -> None:
        loop.passed += SETTINGS.duration_s + CALL_S
        found = msgspec.json.decode(store.handle("GET", LEASE).body)
        found["spec"] |= {"holderIdentity": "b", "leaseTransitions": 2}
        must(store, "PUT", LEASE, found)
        assert lease.remaining() == 0
        for _ in range(100):
            await loop.runs(0.1)
            assert lease.remaining() == 0
        assert lease.lost.is_set()
        assert spec(store)["holderIdentity"] == "b"

    on_a_loop(main)


@asynccontextmanager
async def turns() -> AsyncGenerator[Callable[[], int]]:
    """How many turns of the loop there have been."""
    count = 0

    async def counts() -> None:
        nonlocal count
        while True:
            count += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(counts(), name="turns")
        yield lambda: count
        task.cancel()


@pytest.mark.parametrize("more", [b"", b"Connection: close\r\n"])
async def test_a_flood_of_requests_leaves_a_turn_between_any_two(more: bytes) -> None:
    """By the quick path and by the framework's."""
    answered: list[int] = []

    async with turns() as passed:

        def note(body: bytes) -> Reply:
            answered.append(passed())
            return Reply(body)

        settings = HttpSettings(stop_s=0.1)
        request = post("/", b"x").replace(b"Host", more + b"Host")
        async with (
            serving(application(settings), settings, answers={"/": note}, patient=True) as served,
            strangers((served.host, served.port), 150) as crowd,
        ):
            for client in crowd:
                client.sends(request)
            async with asyncio.timeout(60):
                for client in crowd:
                    await client.receives()
    assert len(answered) == 150
    assert len(set(answered)) == 150, "two in one turn"


async def test_a_blocked_loop_is_reported_with_its_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reported = threading.Event()
    async with watchdog.open_watchdog(reported.set, after_s=0.2):
        await asyncio.sleep(0.5)
        assert not reported.is_set()
        assert await stands_still(reported)
        seen = [record for record in caplog.records if record.msg == "event loop blocked"]
        assert len(seen) == 1
        assert "stands_still" in seen[0].tessera_fields["where"]  # type: ignore[attr-defined]


async def stands_still(until: threading.Event) -> bool:
    """Block the loop until somebody notices."""
    ends_at = time.monotonic() + 60
    while not until.is_set() and time.monotonic() < ends_at:
        pass
    return until.is_set()
