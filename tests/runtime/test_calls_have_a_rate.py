"""Calls to the API server may be bounded; renewals of a Lease never wait."""

import asyncio

import pytest

from tessera_runtime.kube.rate_limit import CallRate

PODS = "/api/v1/pods"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/tessera-system/leases/tessera-scheduler"


async def times(rate: CallRate, path: str, calls: int) -> list[float]:
    """When each may begin, from now on."""
    loop = asyncio.get_running_loop()
    began, found = loop.time(), []
    for _ in range(calls):
        await rate.turn(path)
        found.append(round(loop.time() - began, 6))
    return found


@pytest.mark.looptime
async def test_a_burst_passes_and_the_rest_comes_at_the_rate() -> None:
    rate = CallRate(qps=10, burst=3)
    assert await times(rate, PODS, 5) == [0, 0, 0, 0.1, 0.2]
    await asyncio.sleep(60)
    assert await times(rate, PODS, 4) == [0, 0, 0, 0.1]


@pytest.mark.looptime
async def test_calls_that_wait_together_do_not_pass_together() -> None:
    rate = CallRate(qps=2, burst=1)
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(times(rate, PODS, 1), name=f"call {n}") for n in range(3)]
    assert [one.result() for one in waiting] == [[0], [0.5], [1.0]]


@pytest.mark.looptime
async def test_leases_go_past_it() -> None:
    rate = CallRate(qps=0.001, burst=1)
    assert await times(rate, PODS, 1) == [0]
    assert await times(rate, LEASE, 100) == [0] * 100


@pytest.mark.looptime
async def test_without_a_rate_nothing_waits() -> None:
    assert await times(CallRate(qps=0, burst=1), PODS, 1000) == [0] * 1000
