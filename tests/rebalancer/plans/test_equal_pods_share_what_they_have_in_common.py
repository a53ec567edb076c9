"""Pods and nodes as plans have them: what equal ones have in common is there once."""

from __future__ import annotations

import asyncio

import pytest

from tests.rebalancer.plans.cluster import Cluster, planning, pod_path

pytestmark = pytest.mark.looptime


async def test_equal_pods_share_all_but_their_names_and_places() -> None:
    cluster = Cluster()
    labels = {"labels": {"app": "a"}}
    uids = [cluster.runs(name, node, meta=labels) for name, node in (("a", "n0"), ("b", "n1"))]
    async with planning(cluster) as plans:
        await asyncio.sleep(5)
        first, second = (plans.watch.pods.get(uid) for uid in uids)
    assert first is not None
    assert second is not None
    assert first.pod.spec is second.pod.spec
    assert first.pod.status is second.pod.status
    assert first.pod.metadata.labels is second.pod.metadata.labels
    assert first.request is not None
    assert second.request is not None
    assert first.request.containers is second.request.containers
    assert first.shape.owner != second.shape.owner
    assert (first.pod.name, second.pod.name) == ("default/a", "default/b")
    assert (first.node, second.node) == ("n0", "n1")


async def test_of_annotations_those_remain_that_plans_read() -> None:
    cluster = Cluster()
    said = {"tessera.dev/rebalance": "true"}
    uid = cluster.runs("a", "n0", meta={"annotations": {**said, "team": "a"}})
    async with planning(cluster) as plans:
        await asyncio.sleep(5)
        found = plans.watch.pods.get(uid)
        [node] = (node for node in plans.watch.nodes.known.values() if node.name == "n0")
    assert found is not None
    assert found.grant is not None
    assert found.pod.metadata.annotations == said
    assert node.metadata.annotations == {}


async def test_the_pods_of_a_node_name_it() -> None:
    cluster = Cluster()
    cluster.runs("a", "n0")
    async with planning(cluster) as plans:
        await asyncio.sleep(5)
        assert [pod.spec.node_name for pod in plans.watch.pods.on_node("n0")] == ["n0"]


async def test_a_grant_is_one_object_whatever_else_of_its_pod_changes() -> None:
    cluster = Cluster()
    uid = cluster.runs("a", "n0")
    async with planning(cluster) as plans:
        await asyncio.sleep(5)
        first = plans.watch.pods.get(uid)
        cluster.call("PATCH", f"{pod_path('a')}/status", {"status": {"message": "m"}})
        await asyncio.sleep(5)
        second, entry = plans.watch.pods.get(uid), plans.watch.ledger.entry(uid)
    assert first is not None
    assert second is not None
    assert entry is not None
    assert first is not second
    assert first.grant is second.grant is entry.grant
    assert first.uid is second.uid is entry.grant.uid
