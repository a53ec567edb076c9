"""Events that HAMi's users look for: where a pod fits, with scores, and why it was not bound."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tessera_embedded.apiserver.faults import Answer
from tessera_scheduler.placement_events import PlacementEventSettings
from tests.scheduler.fake_cluster import BINDING, FakeCluster, leading, settings, until

SCORES = replace(settings(), placement_events=PlacementEventSettings(scores=True))


def events(cluster: FakeCluster, reason: str) -> list[dict[str, Any]]:
    body = cluster.store.handle("GET", "/api/v1/namespaces/default/events").body
    return [one for one in msgspec.json.decode(body)["items"] if one["reason"] == reason]


@pytest.mark.looptime
async def test_scores_are_reported_where_they_are_wanted() -> None:
    cluster = FakeCluster(nodes=3)
    cluster.pod("first", 4000)
    uid = cluster.pod("second", 14000)
    async with leading(cluster, config=SCORES) as scheduler:
        first = await cluster.place(scheduler, "first")
        second = await cluster.place(scheduler, "second")
        await until(lambda: len(events(cluster, "FilteringSucceed")) == 2)
    (found,) = [
        one for one in events(cluster, "FilteringSucceed") if one["involvedObject"]["uid"] == uid
    ]
    fit = sorted({"n0", "n1", "n2"} - {first})
    assert found["type"] == "Normal"
    head, _, tail = found["message"].partition("2 nodes fit(")
    assert head == f"find fit node({second}), 1 nodes not fit, "
    scores = dict(part.split(":") for part in tail.rstrip(")").split(","))
    assert sorted(scores) == fit
    assert all(0 <= int(score) <= 10 for score in scores.values())


@pytest.mark.looptime
async def test_they_are_not_unless_they_are_wanted() -> None:
    cluster = FakeCluster()
    cluster.pod("a")
    async with leading(cluster) as scheduler:
        assert await cluster.place(scheduler, "a")
        await until(lambda: cluster.read("a").spec.node_name)
    assert events(cluster, "FilteringSucceed") == []
    assert events(cluster, "BindingFailed") == []


@pytest.mark.looptime
async def test_why_a_pod_was_not_bound_is_reported() -> None:
    cluster = FakeCluster()
    cluster.pod("a")
    cluster.fault("POST", BINDING, Answer(403, "not this one"))
    async with leading(cluster) as scheduler:
        (node,) = cluster.filter(scheduler, "a").node_names or ()
        error = await cluster.bind(scheduler, "a", node)
        assert error
        await until(lambda: events(cluster, "BindingFailed"))
    (found,) = events(cluster, "BindingFailed")
    assert (found["type"], found["message"]) == ("Warning", f"node {node}: {error}")
