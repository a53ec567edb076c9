"""From what agents measure of owners to memory that best-effort pods are lent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from tessera_runtime.errors import BadSettings
from tessera_scheduler.cache.hints import HintSettings
from tessera_scheduler.scheduler import Scheduler
from tessera_scheduler.settings import SchedulerSettings
from tessera_schema.annotation_keys import CLASS_KEY
from tessera_schema.cards import MIB
from tests.rebalancer.cluster import Cluster, a_use, rebalancing
from tests.scheduler.fake_cluster import FakeCluster, counted, leading
from tests.scheduler.fake_cluster import settings as scheduler_settings

pytestmark = pytest.mark.looptime
CARD_MIB = 16_384
HOUR_S = 3600
BEST_EFFORT = {CLASS_KEY: "best-effort"}


class LendingCluster:
    """A node with two cards, an owner that has all of each and uses a GiB of it, an agent, a
    rebalancer and a scheduler."""

    def __init__(self) -> None:
        self.cluster = Cluster("n0")
        self.pods = FakeCluster(0)
        self.pods.bus, self.pods.store, self.pods.nodes = (
            self.cluster.bus, self.cluster.store, ["n0"],
        )  # fmt: skip
        self.pods.clock, self.pods.kube = self.cluster.clock, self.cluster.kube
        self.owners = [
            self.cluster.bound(f"owner-{card}", 25, card=card, mib=CARD_MIB) for card in range(2)
        ]

    async def measure(self, for_s: float, *reclaims: int, uses_mib: int = 1024) -> None:
        uses = [
            (uid, a_use(10, card=card, memory_bytes=uses_mib * MIB))
            for card, uid in enumerate(self.owners)
        ]
        cards = [f"n0-{card}" for card in reclaims]
        for _ in range(int(for_s // 20)):
            await self.cluster.agents.publish(*uses, loads={"n0-0": 10, "n0-1": 10}, reclaims=cards)
            await asyncio.sleep(20)

    @asynccontextmanager
    async def running(self, *, lend_memory: bool = True) -> AsyncGenerator[Scheduler]:
        on = HintSettings(lend_memory=lend_memory)
        config: SchedulerSettings = replace(scheduler_settings(), hints=on)
        async with leading(self.pods, config=config) as scheduler, rebalancing(self.cluster):
            yield scheduler

    async def placed(self, scheduler: Scheduler, name: str, mib: int) -> int | None:
        """The card whose memory a best-effort pod is lent, None where it waits."""
        self.pods.pod(name, mib, annotations=BEST_EFFORT)
        if not await self.pods.place(scheduler, name):
            return None
        [share] = self.pods.granted(name, scheduler.keys.verifier).shares
        assert share.lent is True
        assert share.memory_bytes == mib * MIB
        return share.index


async def test_what_owners_do_not_use_for_an_hour_is_lent_where_the_agent_takes_it_back() -> None:
    lending = LendingCluster()
    async with lending.running() as scheduler:
        await lending.measure(HOUR_S - 60, 1)
        assert await lending.placed(scheduler, "early", 8000) is None
        await lending.measure(120, 1)
        assert await lending.placed(scheduler, "first", 8000) == 1
        assert await lending.placed(scheduler, "second", 8000) is None
        uid = lending.pods.read("second").metadata.uid
        [why] = scheduler.decisions.why(uid, scheduler.ledger.fleet)
        assert why.message.endswith(
            "has 6336 MiB of 16384 MiB: 16384 MiB are granted and 8000 MiB are lent, of which the "
            "pods there leave 14336 MiB"
        )
        assert await lending.placed(scheduler, "third", 6000) == 1
        assert counted(scheduler, "lent_memory_bytes") == 14_000 * MIB
        assert counted(scheduler, "unused_memory_bytes") == (CARD_MIB - 2048) * MIB


async def test_nothing_is_lent_of_a_card_where_an_owner_was_short() -> None:
    lending = LendingCluster()
    async with lending.running() as scheduler:
        await lending.measure(HOUR_S + 60, 0, 1)
        await lending.measure(20, 0)
        assert await lending.placed(scheduler, "first", 8000) == 0
        assert await lending.placed(scheduler, "second", 8000) is None


async def test_an_owner_that_uses_more_leaves_less() -> None:
    lending = LendingCluster()
    async with lending.running() as scheduler:
        await lending.measure(HOUR_S + 60, 0, 1)
        await lending.measure(20, 0, 1, uses_mib=12_000)
        assert await lending.placed(scheduler, "first", 8000) is None
        await lending.measure(600, 0, 1)
        assert await lending.placed(scheduler, "second", 8000) is None


async def test_hints_that_are_old_lend_nothing_and_those_that_have_some_keep_it() -> None:
    lending = LendingCluster()
    async with lending.running() as scheduler:
        await lending.measure(HOUR_S + 60, 0, 1)
        assert await lending.placed(scheduler, "first", 8000) is not None
        await asyncio.sleep(180)
        assert await lending.placed(scheduler, "second", 4000) is None
        assert counted(scheduler, "lent_memory_bytes") == 8000 * MIB


async def test_a_scheduler_that_starts_has_the_same_from_the_pods_alone() -> None:
    lending = LendingCluster()
    async with lending.running() as scheduler:
        await lending.measure(HOUR_S + 60, 1)
        assert await lending.placed(scheduler, "first", 8000) == 1
    async with leading(lending.pods) as successor:
        assert counted(successor, "lent_memory_bytes") == 8000 * MIB
        assert not successor.ledger.fleet.cards.overgranted()


async def test_it_is_off_by_default() -> None:
    lending = LendingCluster()
    async with lending.running(lend_memory=False) as scheduler:
        await lending.measure(HOUR_S + 60, 0, 1)
        assert await lending.placed(scheduler, "first", 8000) is None


def test_without_hints_it_cannot_be_on() -> None:
    hints = HintSettings(enabled=False, lend_memory=True)
    with pytest.raises(BadSettings, match=r"hints\.lend_memory: true: .* leave hints.enabled out"):
        replace(scheduler_settings(), hints=hints).check()
