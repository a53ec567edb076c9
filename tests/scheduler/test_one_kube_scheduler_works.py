"""Of several replicas only the one that leads lets the kube-scheduler in its pod work: it holds the
Lease that the others' stand for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from tessera_embedded.apiserver.faults import Cut, InjectedFault
from tessera_scheduler.leadership.kube_scheduler_gate import (
    MARK,
    GateSettings,
    KubeSchedulerGate,
    open_gate,
)
from tessera_scheduler.scheduler import Scheduler
from tessera_testing.kube import FakeKube
from tests.scheduler.fake_cluster import HOME, LEASE, FakeCluster, settings, standing_by, until

MAIN = f"{LEASE}/tessera-scheduler"
pytestmark = pytest.mark.looptime
GATED = GateSettings(enabled=True, pod_uid="u-1")


@asynccontextmanager
async def a_replica(
    cluster: FakeCluster, name: str, kube: FakeKube | None = None
) -> AsyncGenerator[tuple[Scheduler, KubeSchedulerGate]]:
    config = msgspec.structs.replace(settings(), instance=name)
    kube = kube or cluster.kube
    async with (
        standing_by(cluster, kube, config) as scheduler,
        open_gate(kube, HOME, name, GATED, scheduler.leadership, cluster.clock) as gate,
    ):
        assert gate is not None
        await until(lambda: not gate.problem())
        yield scheduler, gate


def holder(cluster: FakeCluster, replica: str) -> str | None:
    """Who holds the Lease; None where there is none."""
    found = cluster.store.handle("GET", f"{LEASE}/{replica}")
    if found.code == 404:
        return None
    spec: dict[str, Any] = msgspec.json.decode(found.body)["spec"]
    return str(spec["holderIdentity"])


def take(cluster: FakeCluster, replica: str) -> None:
    """kube-scheduler does."""
    spec = {"holderIdentity": f"{replica}_kube", "leaseDurationSeconds": 15}
    cluster.call("PATCH", f"{LEASE}/{replica}", {"spec": spec})


async def test_the_gate_is_open_for_the_leader_and_closed_for_the_others() -> None:
    cluster = FakeCluster(1)
    async with a_replica(cluster, "a"):
        await until(lambda: holder(cluster, "a") == "")
        take(cluster, "a")
        async with a_replica(cluster, "b"):
            assert holder(cluster, "b") == MARK
            await asyncio.sleep(60)
            assert (holder(cluster, "a"), holder(cluster, "b")) == ("a_kube", MARK)


async def test_it_is_closed_before_anybody_leads() -> None:
    cluster = FakeCluster(1)
    cluster.fault("PUT", MAIN, Cut(), times=10_000)
    async with a_replica(cluster, "a") as (scheduler, _):
        assert not scheduler.leadership.leads
        assert holder(cluster, "a") == MARK


async def test_who_stands_by_opens_when_it_takes_over_and_the_former_closes() -> None:
    cluster = FakeCluster(1)
    of_first = FakeKube(cluster.store)
    async with a_replica(cluster, "a", of_first) as (first, _):
        await until(lambda: first.leadership.leads)
        await until(lambda: holder(cluster, "a") == "")
        take(cluster, "a")
        async with a_replica(cluster, "b") as (second, _):
            of_first.faults.add(InjectedFault("PUT", MAIN, Cut(), 10_000))
            await until(lambda: second.leadership.leads)
            await until(lambda: holder(cluster, "b") == "")
            await until(lambda: holder(cluster, "a") == MARK)


async def test_a_service_that_restarts_leaves_its_kube_scheduler_at_work() -> None:
    cluster = FakeCluster(1)
    async with a_replica(cluster, "a") as (scheduler, _):
        await until(lambda: scheduler.leadership.leads)
        await until(lambda: holder(cluster, "a") == "")
        take(cluster, "a")
    async with a_replica(cluster, "a") as (scheduler, _):
        assert holder(cluster, "a") == "a_kube"
        await until(lambda: scheduler.leadership.leads)
        assert holder(cluster, "a") == "a_kube"


async def test_the_lease_goes_with_its_pod_and_is_made_again_when_it_is_deleted() -> None:
    cluster = FakeCluster(1)
    async with a_replica(cluster, "a") as (first, _):
        await until(lambda: first.leadership.leads)
        async with a_replica(cluster, "b"):
            made = cluster.call("GET", f"{LEASE}/b")
            (owner,) = made["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["name"], owner["uid"]) == ("Pod", "b", "u-1")
            assert made["spec"]["leaseDurationSeconds"] > 86400
            cluster.call("DELETE", f"{LEASE}/b")
            await until(lambda: holder(cluster, "b") == MARK)


async def test_an_api_server_that_is_away_is_called_again() -> None:
    cluster = FakeCluster(1)
    cluster.fault("POST", LEASE, Cut(), times=5)
    async with a_replica(cluster, "a") as (first, _):
        await until(lambda: first.leadership.leads)
        await until(lambda: holder(cluster, "a") == "")
