"""Pods as the API server has them: what keeps them where they are."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import msgspec
import pytest

from tessera_core.ledger.ledger import Ledger
from tessera_core.shared_values import SharedValues
from tessera_core.slices import at_once
from tessera_rebalancer.plans.pod_summary import summary
from tessera_runtime.informers.grant_keys import GrantKeys
from tessera_runtime.informers.pods import PodSummaryReader
from tests.rebalancer.plans.cluster import REGISTRY, Cluster, planning, settings, until

pytestmark = pytest.mark.looptime

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
APP = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}
CLAIM = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}


def cluster_of(**pod: Any) -> Cluster:
    """Two pods of this kind on two cards, and one that waits for a whole card."""
    cluster = Cluster()
    cluster.runs("a", "n0", **pod)
    cluster.runs("b", "n1", **pod)
    cluster.waits("w")
    return cluster


@pytest.mark.parametrize(
    "pod",
    [
        {"owned": False}, {"volumes": [{"name": "v", "emptyDir": {}}]}, {"volumes": [CLAIM]},
        {"hostNetwork": True}, {"terminationGracePeriodSeconds": 3600},
        {"affinity": {"podAntiAffinity": {REQUIRED: [APP]}}},
        {"topologySpreadConstraints": [{**SPREAD, "whenUnsatisfiable": "DoNotSchedule"}]},
        {"age_s": 60}, {"meta": {"annotations": {"tessera.dev/rebalance": "false"}}},
        {"meta": {"annotations": {"scheduling.k8s.io/group-name": "gang"}}},
        {"priority": 10},
    ],
    ids=[
        "bare", "files", "claim", "host network", "slow to end", "affinity", "spread", "young",
        "unwilling", "gang", "higher priority",
    ],
)  # fmt: skip
async def test_it_is_not_moved(pod: dict[str, Any]) -> None:
    cluster = cluster_of(**pod)
    async with planning(cluster) as plans:
        await asyncio.sleep(60)
        assert plans.planner.why_not == {
            "default/w": "no pods that may move leave room for it and fit elsewhere"
        }
    assert cluster.plans() == []


@pytest.mark.parametrize(
    "pod",
    [
        {}, {"terminationGracePeriodSeconds": 300},
        {"topologySpreadConstraints": [{**SPREAD, "whenUnsatisfiable": "ScheduleAnyway"}]},
        {"owned": False, "meta": {"annotations": {"tessera.dev/rebalance": "true"}}},
        {"volumes": [{"name": "v", "configMap": {"name": "c"}}]},
    ],
    ids=["plain", "grace", "wish", "bare and willing", "config"],
)  # fmt: skip
async def test_it_may_be_moved(pod: dict[str, Any]) -> None:
    cluster = cluster_of(**pod)
    async with planning(cluster):
        await until(cluster.plans)


def test_a_pod_of_an_odd_form_holds_its_cards_and_stays() -> None:
    ledger = Ledger()
    reader = PodSummaryReader(
        REGISTRY, ledger.fleet, GrantKeys(),
        partial(summary, grant=None, profiles=frozenset(), shared=SharedValues()), migration=False,
    )  # fmt: skip
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}
    container = {"name": "c", "resources": {"limits": limits}, "ports": "odd"}
    pod = {"metadata": {"uid": "u"}, "spec": {"nodeName": "n", "containers": [container]}}
    read = reader.read(msgspec.json.encode(pod))
    assert read.request is not None
    assert "cannot be read whole" in read.shape.tied


async def test_what_pods_without_cards_use_counts() -> None:
    cluster = Cluster()
    for node in ("n0", "n1"):
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
        status = {"capacity": amounts, "allocatable": amounts}
        cluster.call("PATCH", f"/api/v1/nodes/{node}/status", {"status": status})
    cluster.runs("a", "n0")
    cluster.runs("b", "n1")
    for node in ("n0", "n1"):
        plain = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
        spec = {"containers": [plain], "nodeName": node}
        path = "/api/v1/namespaces/default/pods"
        cluster.make(path, {"metadata": {"name": f"cpu-{node}"}, "spec": spec})
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "16000", "cpu": "2"}
    hungry = {"name": "c", "image": "i", "resources": {"limits": limits}}
    cluster.waits("w", containers=[hungry])
    async with planning(cluster):
        await asyncio.sleep(60)
        assert cluster.plans() == []
        cluster.end("cpu-n1")
        await until(cluster.plans)
    assert cluster.the_plan()[1].steps[0].pod.node == "n1"


async def test_a_grant_that_nobody_signed_holds_nothing() -> None:
    cluster = Cluster()
    cluster.runs("a", "n0")
    cluster.runs("b", "n1")
    forged = '{"version":1,"uid":"x","namespace":"default","name":"b","node":"n1","shares":[]}'
    cluster.note("b", {"tessera.dev/grant": forged})
    async with planning(cluster) as plans:
        await asyncio.sleep(30)
        view = at_once(plans.watch.cluster_view(settings().rules, [], {}))
        assert [one.pod.name for one in view.running.values()] == ["default/a"]
        assert len(view.running) == 1
        assert [*view.on("n0")] == [*view.running.values()]
        assert [*view.on("n1")] == []


async def test_of_the_pods_that_hold_cards_those_are_read_that_there_are() -> None:
    cluster = Cluster()
    uid = cluster.runs("a", "n0")
    async with planning(cluster) as plans:
        await asyncio.sleep(5)
        running = at_once(plans.watch.cluster_view(settings().rules, [], {})).running
        one = running[uid]
        assert (one.uid, one.request.uid, one.named.name) == (uid, uid, "a")
        cluster.end("a")
        await asyncio.sleep(5)
        assert running.get(uid) is None
        assert [*running] == []
