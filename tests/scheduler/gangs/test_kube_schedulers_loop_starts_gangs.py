"""The embedded API server and scheduling loop with Tessera's extender between them, over HTTP: bind
calls really wait, and the loop goes on with other pods meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from tessera_core.trust import fencing
from tessera_embedded.apiserver.server import open_apiserver
from tessera_embedded.scheduling.config import (
    Configuration,
    ExtenderConfig,
    Managed,
    SchedulerProfile,
)
from tessera_embedded.scheduling.open import open_scheduler as open_loop
from tessera_runtime.clock import SystemClock
from tessera_runtime.http import server
from tessera_runtime.http.server import HttpSettings
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Body, Kube, Verb
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tessera_scheduler.extender.handlers import answers
from tessera_scheduler.scheduler import Scheduler, open_scheduler
from tessera_schema.annotation_keys import SCHEDULER
from tessera_schema.node_cards import NodeCardsAnnotation, encode_node_cards
from tessera_testing.bus import FakeBus
from tests.scheduler.fake_cluster import AGENT_LEASES, CARDS, HOME, LEASE, REGISTRY, cards_on, until
from tests.scheduler.gangs.gang_cluster import CRDS, VOLCANO, WHOLE, pod_group_definition, whole

GPUS = ("nvidia.com/gpu", "nvidia.com/gpumem")


class LoopCluster:
    """Objects of a real API server in this process."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self.scheduler: Scheduler | None = None

    async def make(self, path: str, body: object) -> None:
        await self._kube.call(Verb.POST, path, body=msgspec.json.encode(body))

    async def prepare(self, cards: int) -> None:
        """Namespaces, policies, PodGroups, and a node with cards."""
        for namespace in (HOME, AGENT_LEASES):
            await self.make("/api/v1/namespaces", {"metadata": {"name": namespace}})
        await self.make(LEASE, {"metadata": {"name": "tessera-scheduler"}})
        for path, guard in fencing.fencing_policy(HOME).items():
            await self.make(path, guard)
        await self.make(CRDS, pod_group_definition(VOLCANO))
        text = encode_node_cards(NodeCardsAnnotation(cards=tuple(cards_on("n0", cards))))
        status = {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "110"}}
        meta = {"name": "n0", "annotations": {CARDS: text}}
        await self.make(paths.NODES, {"metadata": meta, "status": status})
        ready = b'{"spec":{"taints":null}}'
        await self._kube.call(Verb.PATCH, paths.node("n0"), body=ready, kind=Body.MERGE_PATCH)

    async def pod_group(self, name: str, least: int) -> None:
        path = f"/apis/{VOLCANO}/namespaces/default/podgroups"
        meta = {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": {"name": name}}
        await self.make(path, {**meta, "spec": {"minMember": least}})

    async def pod(self, name: str, gang: str = "") -> None:
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(WHOLE)}
        container = {"name": "c", "image": "i", "resources": {"limits": limits}}
        notes = {"scheduling.k8s.io/group-name": gang} if gang else {}
        await self.make(
            paths.in_core("default", "pods"),
            {
                "metadata": {"name": name, "annotations": notes},
                "spec": {"schedulerName": SCHEDULER, "containers": [container]},
            },
        )

    async def bound(self) -> list[str]:
        raw = await self._kube.call(Verb.GET, paths.in_core("default", "pods"))
        pods: list[dict[str, Any]] = msgspec.json.decode(raw)["items"]
        return sorted(p["metadata"]["name"] for p in pods if p["spec"].get("nodeName"))

    def why(self, gang_id: str) -> str:
        """Why the gang waits."""
        assert self.scheduler is not None
        assert self.scheduler.gangs is not None
        return self.scheduler.gangs.coordinator.why(gang_id, self.scheduler.monotonic_clock.time())

    async def bound_is(self, *names: str) -> None:
        """Wait until exactly these have a node."""
        while await self.bound() != list(names):
            await asyncio.sleep(0.05)


def configuration(url: str) -> Configuration:
    """kube-scheduler's, as the base has it."""
    managed = tuple(Managed(name=name, ignored_by_scheduler=True) for name in GPUS)
    extender = ExtenderConfig(
        url_prefix=url, filter_verb="filter", prioritize_verb="prioritize", bind_verb="bind",
        node_cache_capable=True, managed_resources=managed,
    )  # fmt: skip
    profiles = (SchedulerProfile(scheduler_name=SCHEDULER),)
    return Configuration(
        kind="KubeSchedulerConfiguration", profiles=profiles, extenders=(extender,)
    )


@asynccontextmanager
async def a_cluster(folder: Path, cards: int) -> AsyncGenerator[LoopCluster]:
    async with (
        open_apiserver(folder, keep=False) as api,
        open_kube(KubeSettings(kubeconfig=str(api.kubeconfig))) as kube,
    ):
        cluster = LoopCluster(kube)
        await cluster.prepare(cards)
        limits = HttpSettings()
        async with open_scheduler(kube, FakeBus(), whole(), SystemClock(), REGISTRY) as scheduler:
            await until(lambda: scheduler.leadership.leads)
            cluster.scheduler = scheduler
            verbs = answers(scheduler.extender, scheduler.metrics)
            app = server.application(limits)
            async with (
                server.serving(app, limits, answers=verbs) as served,
                open_loop(api.kubeconfig, configuration(served.url)),
                asyncio.timeout(100),
            ):
                yield cluster


async def test_gangs_that_fit_one_at_a_time_and_a_pod_next_to_them(tmp_path: Path) -> None:
    async with a_cluster(tmp_path, cards=4) as cluster:
        await cluster.pod_group("a", 3)
        await cluster.pod_group("b", 3)
        await cluster.pod("a1", "a")
        await cluster.pod("b1", "b")
        await cluster.pod("single")
        await cluster.bound_is("single")
        for n in (2, 3):
            await cluster.pod(f"a{n}", "a")
        await cluster.bound_is("a1", "a2", "a3", "single")
        for n in (2, 3):
            await cluster.pod(f"b{n}", "b")
        await until(lambda: "0 of 3 members like" in cluster.why("volcano/default/b"))
        assert await cluster.bound() == ["a1", "a2", "a3", "single"]
