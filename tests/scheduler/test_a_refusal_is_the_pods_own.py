"""What is wrong with one pod says nothing about another one that asks for the same."""

import asyncio

import msgspec
import pytest

from tests.scheduler.fake_cluster import FakeCluster, leading


@pytest.mark.looptime
async def test_a_pod_that_is_gone_does_not_hold_up_another_one_of_its_kind() -> None:
    """kube-scheduler asks about a pod of its queue that was deleted just now."""
    cluster = FakeCluster(1)
    cluster.pod("a", 4000)
    async with leading(cluster) as scheduler:
        gone = cluster.filter_body("a")
        assert await cluster.place(scheduler, "a") == "n0"
        cluster.delete("a")
        cluster.pod("b", 4000)
        await asyncio.sleep(1)
        answer = msgspec.json.decode(scheduler.extender.filter(gone))
        assert not answer["NodeNames"]
        assert await cluster.place(scheduler, "b") == "n0"
