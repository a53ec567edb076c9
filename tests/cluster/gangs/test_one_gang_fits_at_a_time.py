"""Two gangs and cards for one of them: the one that deadlocks elsewhere (volcano#3373)."""

from __future__ import annotations

import asyncio

import pytest

from tests.cluster.bound_grants import nothing_is_overgranted
from tests.cluster.cluster import OpenCluster, RealCluster
from tests.cluster.gangs.binding_log import BindingLog, logged
from tests.cluster.gangs.members import a_member, create, make_group
from tests.contract.client import Json

SIZE = 4


async def started(cluster: RealCluster, log: BindingLog, *gangs: str) -> str:
    """Wait until one of these gangs is whole; which."""

    async def whole() -> str:
        return next((gang for gang in gangs if log.count(gang) == SIZE), "")

    found: str = await cluster.until(whole, f"one of the gangs {', '.join(gangs)} whole")
    return found


def pods(gang: str, number: int) -> list[Json]:
    """Its pods of that round. A name is used once: kwok deletes pods by their names, late."""
    return [a_member(f"{gang}-{number}-{n}", gang) for n in range(SIZE)]


async def end(cluster: RealCluster, log: BindingLog, gang: str, number: int) -> None:
    """Its pods are deleted, as those of a run that is over."""
    await cluster.delete([pod["metadata"]["name"] for pod in pods(gang, number)])

    async def gone() -> bool:
        return log.count(gang) == 0

    await cluster.until(gone, f"{gang} gone")


async def a_round(cluster: RealCluster, log: BindingLog, number: int) -> None:
    """Both are created interleaved, and run one after the other."""
    pairs = zip(pods("a", number), pods("b", number), strict=True)
    await create(cluster, [pod for pair in pairs for pod in pair])
    first = await started(cluster, log, "a", "b")
    second = "b" if first == "a" else "a"
    await asyncio.sleep(0.5)  # were there room, the other one would come now
    assert log.count(second) == 0
    nothing_is_overgranted(await cluster.bound(), cluster.cards)
    await end(cluster, log, first, number)
    await started(cluster, log, second)
    await end(cluster, log, second, number)


@pytest.mark.timeout(3600)
async def test_never_two_halves(open_cluster: OpenCluster, rounds: int) -> None:
    async with open_cluster() as cluster:
        await cluster.nodes(2, cards=2)
        for gang in ("a", "b"):
            await make_group(cluster, gang, SIZE)
        async with logged(cluster, a=SIZE, b=SIZE) as log:
            for number in range(rounds):
                await a_round(cluster, log, number)
        assert len(log.most_partial) == 1, log.most_partial
        assert len(log.windows) == 2 * rounds
        windows = [round(1000 * window) for window in sorted(log.windows)]
        print(  # noqa: T201  (a figure)
            f"{rounds} rounds, {len(windows)} starts, first to last Binding of each: "
            f"median {windows[rounds]} ms, most {windows[-1]} ms"
        )
