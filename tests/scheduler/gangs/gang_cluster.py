"""The cluster in memory with PodGroups, and a kube-scheduler that tries all pods that wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tessera_scheduler.gangs.settings import GangSettings, GangSwitch
from tessera_scheduler.scheduler import Scheduler
from tessera_scheduler.settings import SchedulerSettings
from tests.scheduler.fake_cluster import FakeCluster, leading, settings

CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
VOLCANO: Final = "scheduling.volcano.sh/v1beta1"
WHOLE: Final = 16000
"""MiB of a card that leave no room for another pod."""


def pod_group_definition(api: str) -> dict[str, Any]:
    """The CustomResourceDefinition of an API of PodGroups."""
    group, _, version = api.partition("/")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {
        "plural": "podgroups", "singular": "podgroup", "kind": "PodGroup",
        "listKind": "PodGroupList",
    }  # fmt: skip
    served = {
        "name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
    }  # fmt: skip
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [served]}
    return {"metadata": {"name": f"podgroups.{group}"}, "spec": spec}


class GangCluster(FakeCluster):
    """Nodes, pods and PodGroups."""

    def __init__(self, nodes: int = 1, cards: int = 4, apis: tuple[str, ...] = (VOLCANO,)) -> None:
        super().__init__(nodes, cards)
        self.errors: list[str] = []
        """What bind calls were answered."""
        for node in self.nodes:  # they are ready: new ones are tainted until they are
            self.call("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": None}})
        for api in apis:
            self.define(api)

    def define(self, api: str) -> None:
        """Install an API of PodGroups."""
        self.make(CRDS, pod_group_definition(api))

    def pod_group(self, name: str, least: int = 0, api: str = VOLCANO, **spec: Any) -> None:
        """Create a PodGroup."""
        written = {"minMember": least, **spec} if least else spec
        path = f"/apis/{api}/namespaces/default/podgroups"
        self.make(
            path,
            {
                "apiVersion": api,
                "kind": "PodGroup",
                "metadata": {"name": name},
                "spec": written,
            },
        )

    def member(self, name: str, gang: str, mib: int = WHOLE, **more: Any) -> str:
        """Create a pod of a Volcano gang; its uid."""
        notes = {"scheduling.k8s.io/group-name": gang, **more.pop("annotations", {})}
        return self.pod(name, mib, annotations=notes, schedulerName="tessera-scheduler", **more)

    def members(self, gang: str, *numbers: int) -> list[str]:
        """Pods `<gang><number>`."""
        return [self.member(f"{gang}{n}", gang) for n in numbers]

    def bound(self) -> list[str]:
        """Names of pods that have a node."""
        pods = msgspec.json.decode(self.store.handle("GET", "/api/v1/pods").body)["items"]
        return sorted(p["metadata"]["name"] for p in pods if p["spec"].get("nodeName"))

    async def schedule(self, scheduler: Scheduler, seconds: float = 10) -> None:
        """Try all pods that wait once a second, as kube-scheduler does: bind calls run by
        themselves."""
        calls: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            for _ in range(int(seconds)):
                for name in self.waiting():
                    if name in calls and not calls[name].done():
                        continue
                    nodes = self.filter(scheduler, name).node_names
                    if nodes:
                        calls[name] = group.create_task(self._bind(scheduler, name, nodes[0]))
                await asyncio.sleep(1)
            for call in calls.values():
                call.cancel()

    async def _bind(self, scheduler: Scheduler, name: str, node: str) -> None:
        error = await self.bind(scheduler, name, node)
        if error:
            self.errors.append(error)

    def waiting(self) -> list[str]:
        """Names of pods without a node."""
        pods = msgspec.json.decode(self.store.handle("GET", "/api/v1/pods").body)["items"]
        return sorted(p["metadata"]["name"] for p in pods if not p["spec"].get("nodeName"))


def whole(**more: Any) -> SchedulerSettings:
    """Settings with which gangs start whole."""
    return replace(settings(), gangs=GangSettings(scheduling=GangSwitch.ON, **more))


@asynccontextmanager
async def starting_whole(
    cluster: GangCluster, gangs: Mapping[str, Any] | None = None
) -> AsyncGenerator[Scheduler]:
    """A scheduler that leads and starts gangs whole."""
    async with leading(cluster, config=whole(**(gangs or {}))) as scheduler:
        yield scheduler
