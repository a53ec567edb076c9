"""Statuses of PodGroups and queues on both servers, and who wrote them on the real one: the
embedded server keeps no `managedFields`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tessera_core.gang_scheduling.view import QueueDemand
from tessera_core.gang_status.elastic_quotas import REQUEST
from tessera_core.gang_status.groups import StatusGroup
from tessera_core.gang_status.patches import status_patch
from tessera_core.gang_status.writers import other_writer
from tessera_core.gangs.gang import GangOrigin
from tessera_core.gangs.queue_objects import QueueReader
from tessera_core.gangs.queues import QueueDimension
from tessera_core.registry.registry import load
from tessera_runtime.clock import SystemClock
from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tessera_runtime.kube.timestamps import parse_time
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_scheduler.gang_status.elastic_quotas import QuotaStatusWriter, StatusQuotas
from tessera_scheduler.gang_status.objects import StatusGroups, StatusQueues, group_path
from tessera_scheduler.gang_status.writes import MANAGER, StatusWrites
from tests.contract.client import ANSWER_S, Json
from tests.contract.cluster import Cluster, OpenCluster
from tests.contract.conftest import KINDS

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
APPROVED = "api-approved.kubernetes.io"
API = {
    GangOrigin.VOLCANO: "scheduling.volcano.sh/v1beta1",
    GangOrigin.KOORDINATOR: "scheduling.sigs.k8s.io/v1alpha1",
}
QUANTITIES = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}
CONDITION = {
    "type": "object",
    "properties": {
        name: {"type": "string"}
        for name in ("type", "status", "transitionID", "reason", "message")
    } | {"lastTransitionTime": {"type": "string", "format": "date-time"}},
}  # fmt: skip
COUNT = {"type": "integer", "format": "int32"}
VOLCANO_STATUS = {
    "phase": {"type": "string", "default": "Pending",
              "enum": ["Pending", "Running", "Unknown", "Inqueue", "Completed"]},
    "conditions": {"type": "array", "items": CONDITION},
    "running": COUNT, "succeeded": COUNT, "failed": COUNT,
}  # fmt: skip
KOORDINATOR_STATUS = {
    "phase": {"type": "string"}, "occupiedBy": {"type": "string"},
    "scheduleStartTime": {"type": "string", "format": "date-time", "nullable": True},
    "scheduled": COUNT, "running": COUNT, "succeeded": COUNT, "failed": COUNT,
}  # fmt: skip

CARDS = QueueDimension("nvidia", "cards")
DEMAND = QueueDemand(used={CARDS: 2}, requested={CARDS: 3}, entitled={CARDS: 4})


def a_definition(api: str, plural: str, kind: str, status: Json, **version: Any) -> Json:
    """As Volcano and Koordinator install their kinds, as far as statuses go."""
    group, _, name = api.partition("/")
    spec = {
        "type": "object",
        "properties": {
            "minMember": COUNT, "queue": {"type": "string"}, "minResources": QUANTITIES,
            "min": QUANTITIES, "max": QUANTITIES,
        },
    }  # fmt: skip
    schema = {
        "type": "object",
        "properties": {"spec": spec, "status": {"type": "object", "properties": status}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": {APPROVED: "unapproved"}},
        "spec": {
            "group": group, "scope": "Cluster" if kind == "Queue" else "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [{
                "name": name, "served": True, "storage": True,
                "schema": {"openAPIV3Schema": schema}, **version,
            }],
        },
    }  # fmt: skip


class Gangs:
    """PodGroups on a server, by their path."""

    def __init__(self, cluster: Cluster, origin: GangOrigin, kube: Kube) -> None:
        self.cluster = cluster
        self.groups = StatusGroups(origin)
        self.kube = kube
        self.path = cluster.path("podgroups", f"apis/{API[origin]}")
        self.writes = StatusWrites(kube, lambda: 60.0, 5.0)

    async def make(self, status: Json | None = None, manager: str = "creator") -> StatusGroup:
        """Create a PodGroup in somebody's name."""
        body: Json = {
            "apiVersion": API[self.groups.origin], "kind": "PodGroup",
            "metadata": {"name": "g"}, "spec": {"minMember": 2},
        }  # fmt: skip
        whole = body if status is None else {**body, "status": status}
        query = {"fieldManager": manager}
        raw = msgspec.json.encode(whole)
        return self.groups.read(await self.kube.call(Verb.POST, self.path, query=query, body=raw))

    async def read(self) -> StatusGroup:
        return self.groups.read(await self.kube.call(Verb.GET, f"{self.path}/g"))

    async def write(self, group: StatusGroup, status: Json) -> bool:
        """Whether it was written."""
        patch = status_patch(group, status)
        assert group_path(group) == f"{self.path}/g"
        return not await self.writes.all([(group, patch)], lambda *_: None)

    async def other(self, status: Json, manager: str) -> None:
        answer = await self.cluster.admin.patch(
            f"{self.path}/g", {"status": status}, fieldManager=manager
        )
        assert answer.status == 200, answer


@asynccontextmanager
async def defined(cluster: Cluster, definition: Json, path: str) -> AsyncGenerator[None]:
    """The kind is served at the path for the length of the block, and gone after it: all tests of
    a session share the real server."""
    own = f"{DEFINITIONS}/{definition['metadata']['name']}"
    await cluster.make(DEFINITIONS, definition)
    try:
        async with asyncio.timeout(ANSWER_S):
            while (await cluster.admin.get(path)).status != 200:
                await asyncio.sleep(0.05)
        yield
    finally:
        await cluster.admin.delete(own)
        async with asyncio.timeout(ANSWER_S):
            while (await cluster.admin.get(own)).status != 404:
                await asyncio.sleep(0.05)


@asynccontextmanager
async def gangs_on(
    open_cluster: OpenCluster, folder: Path, origin: GangOrigin
) -> AsyncGenerator[Gangs]:
    volcano = origin is GangOrigin.VOLCANO
    status = VOLCANO_STATUS if volcano else KOORDINATOR_STATUS
    definition = a_definition(API[origin], "podgroups", "PodGroup", status)
    token = folder / "token"
    async with open_cluster() as cluster:
        token.write_text(cluster.server.token)
        settings = KubeSettings(
            url=cluster.server.url, token_file=token, ca_file=cluster.server.ca_path
        )
        async with open_kube(settings) as kube:
            gangs = Gangs(cluster, origin, kube)
            async with defined(cluster, definition, gangs.path):
                yield gangs


@pytest.mark.parametrize("origin", list(API))
async def test_a_status_is_a_part_of_the_object_and_is_patched_there(
    open_cluster: OpenCluster, tmp_path: Path, origin: GangOrigin
) -> None:
    async with gangs_on(open_cluster, tmp_path, origin) as gangs:
        made = await gangs.make()
        condition = {
            "type": "Unschedulable", "status": "True", "transitionID": "1", "message": "m",
            "reason": "NotEnoughResources", "lastTransitionTime": "2026-03-01T10:00:00Z",
        }  # fmt: skip
        volcano = origin is GangOrigin.VOLCANO
        status = {"phase": "Inqueue", "conditions": [condition]} if volcano else {
            "phase": "Scheduling", "scheduled": 1, "scheduleStartTime": "2026-03-01T10:00:00Z",
        }  # fmt: skip
        assert await gangs.write(made, status)
        written = await gangs.read()
        assert written.status == status
        assert written.spec == made.spec
        below = await gangs.cluster.admin.patch(f"{gangs.path}/g/status", {"status": {}})
        assert below.status == 404
        assert not await gangs.write(made, {**status, "phase": "Running"})
        assert (await gangs.read()).status == status
        assert await gangs.write(written, {**status, "phase": "Running"})


async def test_what_a_queue_has_allocated_is_written_by_its_status_alone(
    open_cluster: OpenCluster, tmp_path: Path
) -> None:
    api = API[GangOrigin.VOLCANO]
    status = {"state": {"type": "string"}, "allocated": QUANTITIES, "running": COUNT}
    definition = a_definition(api, "queues", "Queue", status, subresources={"status": {}})
    path = f"/apis/{api}/queues"
    async with (
        gangs_on(open_cluster, tmp_path, GangOrigin.VOLCANO) as gangs,
        defined(gangs.cluster, definition, path),
    ):
        name = gangs.cluster.own
        body: Json = {"apiVersion": api, "kind": "Queue", "metadata": {"name": name}}
        await gangs.cluster.make(path, body)
        await gangs.cluster.admin.patch(f"{path}/{name}/status", {"status": {"state": "Open"}})
        assert await gangs.writes.queue(name, {"cpu": "1500m", "nvidia.com/gpu": "2"})
        assert await gangs.writes.queue(name, {"cpu": None, "nvidia.com/gpu": "1"})
        queue = StatusQueues.read(await gangs.kube.call(Verb.GET, f"{path}/{name}"))
        assert queue.allocated == {"nvidia.com/gpu": "1"}
        assert queue.queue.status.state == "Open"


@pytest.mark.parametrize("other", ["", "koord-scheduler"])
async def test_what_is_used_of_a_quota_is_written_unless_another_scheduler_writes_it(
    open_cluster: OpenCluster, tmp_path: Path, kind: str, other: str
) -> None:
    api = API[GangOrigin.KOORDINATOR]
    definition = a_definition(api, "elasticquotas", "ElasticQuota", {"used": QUANTITIES})
    async with gangs_on(open_cluster, tmp_path, GangOrigin.KOORDINATOR) as gangs:
        path = gangs.cluster.path("elasticquotas", f"apis/{api}")
        async with defined(gangs.cluster, definition, path):
            body: Json = {
                "apiVersion": api, "kind": "ElasticQuota",
                "metadata": {"name": "team"}, "spec": {"max": {"nvidia.com/gpu": 8}},
            }  # fmt: skip
            await gangs.cluster.make(path, body)
            before: Json = {"used": {"cpu": "4"}} if other else {}
            answer = await gangs.cluster.admin.patch(
                f"{path}/team", {"status": before}, fieldManager=other or "creator"
            )
            assert answer.status == 200, answer
            quotas = StatusQuotas()
            raw = await gangs.kube.call(Verb.GET, f"{path}/team")
            quotas.on_list([quotas.read(raw)], 0, 0)
            clock = MonotonicClock(SystemClock(), asyncio.get_running_loop())
            writer = QuotaStatusWriter(
                quotas, lambda: {"team": DEMAND}, QueueReader(load()), gangs.writes, clock
            )
            await writer.write()
            written = quotas.read(await gangs.kube.call(Verb.GET, f"{path}/team"))
            left_alone = kind == "real" and bool(other)
            assert writer.others == left_alone
            assert written.status.used == (
                before["used"] if left_alone else {"nvidia.com/gpu": "2"}
            )
            noted = '{"nvidia.com/gpu":"3"}'
            assert written.metadata.annotations.get(REQUEST) == (None if left_alone else noted)


async def test_another_writer_is_noticed_and_those_who_create_are_none(
    open_cluster: OpenCluster, tmp_path: Path, kind: str
) -> None:
    assert kind in KINDS
    async with gangs_on(open_cluster, tmp_path, GangOrigin.VOLCANO) as gangs:

        async def other(after_s: float = 0) -> str:
            now = datetime.now(UTC).timestamp() + after_s
            return other_writer(await gangs.read(), MANAGER, now, parse_time)

        made = await gangs.make({"phase": "Pending"}, "vc-controller-manager")
        assert await other() == ""
        assert await gangs.write(made, {"phase": "Inqueue"})
        assert await other() == ""
        await gangs.other({"phase": "Running"}, "vc-scheduler")
        real = kind == "real"
        assert await other() == ("vc-scheduler" if real else "")
        assert await other(700) == ""
        again = await gangs.read()
        assert await gangs.write(again, {"phase": "Completed"})
        assert await other() == ""
