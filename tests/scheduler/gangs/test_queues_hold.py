"""Queues in a cluster: caps of Queues and ElasticQuotas hold for gangs and single pods."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from tests.scheduler.fake_cluster import leading, settings, until
from tests.scheduler.gangs.gang_cluster import CRDS, VOLCANO, WHOLE, GangCluster, starting_whole

PLAIN = "scheduling.x-k8s.io/v1alpha1"
QUEUES = f"/apis/{VOLCANO}/queues"
GATED: Any = {"schedulingGates": [{"name": "tessera.dev/admission"}]}


def definition(api: str, plural: str, kind: str, scope: str) -> dict[str, Any]:
    group, _, version = api.partition("/")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {
        "plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List",
    }  # fmt: skip
    served = {
        "name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
    }  # fmt: skip
    spec = {"group": group, "scope": scope, "names": names, "versions": [served]}
    return {"metadata": {"name": f"{plural}.{group}"}, "spec": spec}


class QueueCluster(GangCluster):
    """With the definitions of queues."""

    def __init__(self, cards: int = 4) -> None:
        super().__init__(cards=cards)
        self.make(CRDS, definition(VOLCANO, "queues", "Queue", "Cluster"))
        self.make(CRDS, definition(PLAIN, "elasticquotas", "ElasticQuota", "Namespaced"))

    def queue(self, name: str, cards: Any, state: str = "Open", **more: Any) -> None:
        body = {
            "apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": name},
            "spec": {"capability": {"nvidia.com/gpu": cards}, **more}, "status": {"state": state},
        }  # fmt: skip
        self.make(QUEUES, body)

    def cap(self, name: str, cards: Any) -> None:
        spec = {"spec": {"capability": {"nvidia.com/gpu": cards}}}
        self.call("PATCH", f"{QUEUES}/{name}", spec)

    def queued(self, name: str, queue: str = "q", **more: Any) -> None:
        notes = {"scheduling.volcano.sh/queue-name": queue}
        self.pod(name, WHOLE, annotations=notes, schedulerName="tessera-scheduler", **more)

    def gated(self) -> list[str]:
        pods = msgspec.json.decode(self.store.handle("GET", "/api/v1/pods").body)["items"]
        return sorted(p["metadata"]["name"] for p in pods if p["spec"].get("schedulingGates"))


async def test_a_gang_above_its_queues_cap_waits_until_the_cap_is_raised() -> None:
    """GE4"""
    cluster = QueueCluster()
    cluster.queue("q", "1")
    cluster.pod_group("a", 2, queue="q")
    async with starting_whole(cluster) as scheduler:
        cluster.members("a", 1, 2)
        await cluster.schedule(scheduler, 3)
        assert cluster.bound() == []
        answer = cluster.filter(scheduler, "a1")
        assert not answer.node_names
        assert scheduler.gangs is not None
        now = scheduler.monotonic_clock.time()
        why = scheduler.gangs.coordinator.why("volcano/default/a", now)
        assert "Queue q allows 1 cards of nvidia, 0 used, 2 asked" in why
        cluster.cap("q", "2")
        await cluster.schedule(scheduler, 5)
        assert cluster.bound() == ["a1", "a2"]


async def test_single_pods_of_a_queue_stay_within_its_cap() -> None:
    cluster = QueueCluster()
    cluster.queue("q", "1")
    async with starting_whole(cluster) as scheduler:
        for n in range(2):
            cluster.queued(f"p{n}")
        cluster.pod("free", WHOLE, schedulerName="tessera-scheduler")
        await cluster.schedule(scheduler, 3)
        assert cluster.bound() == ["free", "p0"]
        cluster.delete("p0")
        await asyncio.sleep(1)
        await cluster.schedule(scheduler, 3)
        assert cluster.bound() == ["free", "p1"]


async def test_a_quota_of_the_namespace_holds_pods_that_name_no_queue() -> None:
    cluster = QueueCluster()
    spec = {"max": {"nvidia.com/gpu": "1"}}
    cluster.make(
        f"/apis/{PLAIN}/namespaces/default/elasticquotas",
        {"apiVersion": PLAIN, "kind": "ElasticQuota", "metadata": {"name": "team"}, "spec": spec},
    )
    async with starting_whole(cluster) as scheduler:
        for n in range(2):
            cluster.pod(f"p{n}", WHOLE, schedulerName="tessera-scheduler")
        await cluster.schedule(scheduler, 3)
        assert cluster.bound() == ["p0"]


async def test_gates_of_single_pods_open_as_far_as_the_cap_goes() -> None:
    cluster = QueueCluster()
    cluster.queue("q", "1")
    async with starting_whole(cluster) as scheduler:
        for n in range(3):
            cluster.queued(f"p{n}", **GATED)
        await until(lambda: len(cluster.gated()) == 2)
        await cluster.schedule(scheduler, 3)
        assert cluster.bound() == ["p0"]
        assert cluster.gated() == ["p1", "p2"]
        assert scheduler.gangs is not None
        assert "allows 1 cards" in scheduler.gangs.why_gated(cluster.read("p1"))
        cluster.delete("p0")
        await until(lambda: cluster.gated() == ["p2"])


async def test_new_pods_need_gates_while_the_cap_of_a_queue_holds_one_back() -> None:
    cluster = QueueCluster()
    cluster.queue("q", "1")
    async with starting_whole(cluster) as scheduler:
        gangs = scheduler.gangs
        assert gangs is not None
        cluster.queued("p0")
        await cluster.schedule(scheduler, 3)
        assert cluster.bound() == ["p0"]
        assert not gangs.others_wait()
        cluster.queued("p1")
        await cluster.schedule(scheduler, 3)
        assert gangs.others_wait()
        cluster.delete("p1")
        await until(lambda: not gangs.others_wait())


async def test_a_queue_that_makes_no_sense_keeps_what_it_said_and_a_new_one_says_why() -> None:
    cluster = QueueCluster()
    cluster.queue("q", "1")
    cluster.queue("wrong", "many")
    async with starting_whole(cluster) as scheduler:
        cluster.cap("q", "lots")
        await asyncio.sleep(1)
        for n in range(2):
            cluster.queued(f"p{n}")
        cluster.queued("w", "wrong")
        await cluster.schedule(scheduler, 3)
        assert cluster.bound() == ["p0"]
        assert scheduler.gangs is not None
        why = scheduler.gangs.queues.problem_of_pod(cluster.read("w"))
        assert "Queue wrong is not usable, spec.capability[nvidia.com/gpu]: 'many'" in why


async def test_queues_hold_nobody_where_gangs_are_off() -> None:
    cluster = QueueCluster()
    cluster.queue("q", "0")
    async with leading(cluster, config=settings()) as scheduler:
        cluster.queued("p0")
        await cluster.schedule(scheduler, 2)
        assert cluster.bound() == ["p0"]
