"""The loop, on the embedded API server, with an extender that a test writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from tessera_embedded.apiserver.server import open_apiserver
from tessera_embedded.scheduling.config import (
    Configuration,
    ExtenderConfig,
    Managed,
    SchedulerProfile,
)
from tessera_embedded.scheduling.open import open_scheduler
from tessera_embedded.scheduling.scheduler import EmbeddedScheduler
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Body, Kube, Verb
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tessera_schema.kube import Pod

CARD = "acme.com/card"


class AnExtender:
    """Answers what the test says, and remembers what it was asked."""

    def __init__(self, kube: Kube) -> None:
        self.kube = kube
        self.refuse = ""
        self.fails = False
        self.several = False
        self.asked: list[tuple[str, Any]] = []

    async def answer(self, request: web.Request) -> web.Response:
        verb, body = request.match_info["verb"], msgspec.json.decode(await request.read())
        self.asked.append((verb, body))
        if self.fails:
            return web.Response(status=500, text="broken")
        return web.json_response(await getattr(self, verb)(body))

    async def filter(self, body: Any) -> Any:
        names = body["NodeNames"]
        if self.refuse:
            return {"NodeNames": [], "FailedNodes": dict.fromkeys(names, self.refuse)}
        return {"NodeNames": names if self.several else names[-1:]}

    async def prioritize(self, body: Any) -> Any:
        return [{"Host": name, "Score": i} for i, name in enumerate(body["NodeNames"])]

    async def bind(self, body: Any) -> Any:
        path = paths.pod(body["PodNamespace"], body["PodName"], "binding")
        binding = {
            "metadata": {"name": body["PodName"], "uid": body["PodUID"]},
            "target": {"kind": "Node", "name": body["Node"]},
        }
        await self.kube.call(Verb.POST, path, body=msgspec.json.encode(binding))
        return {}


class ACluster:
    """The API server, with the scheduler on it."""

    def __init__(self, kube: Kube, extender: AnExtender, scheduler: EmbeddedScheduler) -> None:
        self.kube = kube
        self.extender = extender
        self.scheduler = scheduler

    async def node(self, name: str, **labels: str) -> None:
        """A node that the scheduler knows of as ready: it sees nodes and pods by two watches, and
        of the two the later change may come first."""
        status = {"allocatable": {"cpu": "4", "pods": "10"}, "capacity": {"cpu": "4", "pods": "10"}}
        body = {"metadata": {"name": name, "labels": labels}, "status": status}
        await self.kube.call(Verb.POST, paths.NODES, body=msgspec.json.encode(body))
        ready = b'{"spec":{"taints":null}}'  # as Kubernetes' node controller does
        await self.kube.call(Verb.PATCH, paths.node(name), body=ready, kind=Body.MERGE_PATCH)
        view = self.scheduler.view
        while name not in view.nodes or name in view.refusals(Pod()):
            await asyncio.sleep(0.02)

    async def pod(self, name: str, cards: int = 1, **spec: Any) -> None:
        limits = {CARD: str(cards)} if cards else {"cpu": "1"}
        container = {"name": "c", "image": "i", "resources": {"limits": limits}}
        body = {
            "metadata": {"name": name},
            "spec": {"schedulerName": "ours", "containers": [container], **spec},
        }
        await self.kube.call(
            Verb.POST, paths.in_core("default", "pods"), body=msgspec.json.encode(body)
        )

    async def read(self, name: str) -> Any:
        return msgspec.json.decode(await self.kube.call(Verb.GET, paths.pod("default", name)))

    async def placed(self, name: str) -> str:
        while True:
            if node := (await self.read(name))["spec"].get("nodeName"):
                return str(node)
            await asyncio.sleep(0.02)

    async def waits(self, name: str) -> str:
        while True:
            for condition in (await self.read(name))["status"].get("conditions", ()):
                if condition["type"] == "PodScheduled" and condition["status"] == "False":
                    return f"{condition['reason']}: {condition['message']}"
            await asyncio.sleep(0.02)


@asynccontextmanager
async def a_cluster(folder: Path) -> AsyncGenerator[ACluster]:
    async with open_apiserver(folder, keep=False) as server:
        settings = KubeSettings(kubeconfig=str(server.kubeconfig))
        async with open_kube(settings) as kube:
            extender = AnExtender(kube)
            app = web.Application()
            app.router.add_post("/{verb}", extender.answer)
            runner = web.AppRunner(app, access_log=None)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            config = Configuration(
                kind="KubeSchedulerConfiguration",
                profiles=(SchedulerProfile(scheduler_name="ours"),),
                extenders=(
                    ExtenderConfig(
                        url_prefix=f"http://127.0.0.1:{runner.addresses[0][1]}",
                        filter_verb="filter",
                        prioritize_verb="prioritize",
                        bind_verb="bind",
                        node_cache_capable=True,
                        managed_resources=(Managed(name=CARD, ignored_by_scheduler=True),),
                    ),
                ),
            )
            try:
                async with open_scheduler(server.kubeconfig, config) as scheduler:
                    async with asyncio.timeout(120):
                        yield ACluster(kube, extender, scheduler)
            finally:
                await runner.cleanup()


async def test_one_node_is_answered_and_the_extender_binds(tmp_path: Path) -> None:
    async with a_cluster(tmp_path) as cluster:
        await cluster.node("n1")
        await cluster.node("n2")
        await cluster.pod("p")
        assert await cluster.placed("p") == "n2"
    assert [verb for verb, _ in cluster.extender.asked] == ["filter", "bind"]
    asked = cluster.extender.asked[0][1]
    assert asked["Nodes"] is None
    assert asked["NodeNames"] == ["n1", "n2"]
    assert asked["Pod"]["metadata"]["name"] == "p"


async def test_scores_are_requested_when_several_nodes_are_left(tmp_path: Path) -> None:
    async with a_cluster(tmp_path) as cluster:
        cluster.extender.several = True
        for name in ("n1", "n2", "n3"):
            await cluster.node(name)
        await cluster.pod("p")
        assert await cluster.placed("p") == "n3"
    assert [verb for verb, _ in cluster.extender.asked] == ["filter", "prioritize", "bind"]


async def test_a_pod_that_names_no_managed_resource_is_placed_without_it(tmp_path: Path) -> None:
    async with a_cluster(tmp_path) as cluster:
        await cluster.node("n1")
        await cluster.pod("p", cards=0)
        assert await cluster.placed("p") == "n1"
    assert cluster.extender.asked == []


async def test_a_pod_that_waits_says_why_and_is_woken_by_a_node(tmp_path: Path) -> None:
    async with a_cluster(tmp_path) as cluster:
        await cluster.node("n1")
        await cluster.node("other", kind="x")
        cluster.extender.refuse = "CardInsufficientMemory"
        await cluster.pod("p", nodeSelector={"kind": "y"})
        no_node = "Unschedulable: 0/2 nodes are available: 2 node(s) didn't match Pod's node "
        assert (await cluster.waits("p")).startswith(no_node)
        await cluster.pod("q")
        assert await cluster.waits("q") == (
            "Unschedulable: 0/2 nodes are available: 2 CardInsufficientMemory."
        )
        cluster.extender.refuse = ""
        note = b'{"metadata":{"annotations":{"wake":"1"}}}'
        await cluster.kube.call(Verb.PATCH, paths.node("n1"), body=note, kind=Body.MERGE_PATCH)
        assert await cluster.placed("q") == "other"
    offered = [
        body["Pod"]["metadata"]["name"] for verb, body in cluster.extender.asked if verb == "filter"
    ]
    assert "p" not in offered


async def test_an_error_is_tried_again_without_any_change(tmp_path: Path) -> None:
    async with a_cluster(tmp_path) as cluster:
        await cluster.node("n1")
        cluster.extender.fails = True
        await cluster.pod("p")
        assert (await cluster.waits("p")).startswith("SchedulerError: failed filter with extender")
        cluster.extender.fails = False
        assert await cluster.placed("p") == "n1"
