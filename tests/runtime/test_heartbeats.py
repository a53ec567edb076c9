"""The Lease of an agent: renewed while it is alive, whatever becomes of the object."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import pytest

from tessera_embedded.apiserver.faults import Answer, InjectedFault
from tessera_embedded.apiserver.store import Store
from tessera_runtime.background import running_in_background
from tessera_runtime.errors import BadSettings
from tessera_runtime.kube.heartbeat import (
    Heartbeat,
    HeartbeatSettings,
    agent_lease_name,
    agent_of_lease,
)
from tessera_runtime.kube.lease_object import OwnerReference
from tessera_testing.clock import LoopClock
from tessera_testing.kube import FakeKube
from tests.runtime.cluster import a_cluster, must

pytestmark = pytest.mark.looptime

SETTINGS = HeartbeatSettings(namespace="default")
NAME = agent_lease_name("nvidia", "node-1")
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
LEASE = f"{LEASES}/{NAME}"


def lease(store: Store) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = msgspec.json.decode(store.handle("GET", LEASE).body)
    return found


@asynccontextmanager
async def beating(
    store: Store, *, alive: bool = True, kube: FakeKube | None = None
) -> AsyncGenerator[Heartbeat]:
    heartbeat = Heartbeat(
        kube or FakeKube(store), SETTINGS, lease=NAME, identity="agent-1", clock=LoopClock(),
        owner=lambda: OwnerReference("v1", "Node", "node-1", "u1"),
        random=random.Random(1),  # noqa: S311  (reproducible)
    )  # fmt: skip
    async with running_in_background(heartbeat.run(lambda: alive), "heartbeat"):
        yield heartbeat


async def test_the_lease_is_made_at_once_and_renewed() -> None:
    store = a_cluster()
    async with beating(store) as heartbeat:
        async with asyncio.timeout(1):
            await heartbeat.announced.wait()
        first = lease(store)
        await asyncio.sleep(600)
        assert 30 <= heartbeat.renewals <= 34
        last = lease(store)
    assert first["spec"]["leaseTransitions"] == last["spec"]["leaseTransitions"] == 1
    assert first["spec"]["acquireTime"] == last["spec"]["acquireTime"]
    assert first["spec"]["renewTime"] != last["spec"]["renewTime"]
    assert last["spec"]["leaseDurationSeconds"] == 45
    assert last["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "u1"}
    ]


async def test_each_start_is_counted_in_the_lease() -> None:
    store = a_cluster()
    for starts in (1, 2, 3):
        async with beating(store) as heartbeat:
            await heartbeat.announced.wait()
            await asyncio.sleep(100)
            assert lease(store)["spec"]["leaseTransitions"] == starts


async def test_an_agent_that_is_not_alive_renews_nothing() -> None:
    store = a_cluster()
    async with beating(store, alive=False) as heartbeat:
        await asyncio.sleep(600)
        assert not heartbeat.announced.is_set()
    assert store.handle("GET", LEASE).code == 404


async def test_a_lease_that_was_deleted_or_written_by_hand_is_renewed_all_the_same() -> None:
    store = a_cluster()
    async with beating(store) as heartbeat:
        await heartbeat.announced.wait()
        must(store, "DELETE", LEASE)
        await asyncio.sleep(21)
        assert lease(store)["spec"]["leaseTransitions"] == 1
        must(store, "PATCH", LEASE, {"metadata": {"labels": {"a": "b"}}})
        before = lease(store)["spec"]["renewTime"]
        await asyncio.sleep(21)
        assert lease(store)["spec"]["renewTime"] != before


async def test_it_goes_on_trying_and_is_not_announced_while_it_may_not_write() -> None:
    store = a_cluster()
    kube = FakeKube(store)
    kube.faults.add(InjectedFault("*", LEASES + ".*", Answer(403, "Forbidden"), times=10))
    async with beating(store, kube=kube) as heartbeat:
        await asyncio.sleep(60)
        assert not heartbeat.announced.is_set()
        await asyncio.sleep(120)
        assert heartbeat.announced.is_set()


async def test_after_a_gap_that_counts_as_silence_it_resumes() -> None:
    store = a_cluster()
    kube = FakeKube(store)
    async with beating(store, kube=kube) as heartbeat:
        await heartbeat.resumed.wait()
        heartbeat.resumed.clear()
        began = heartbeat.since_s
        kube.faults.add(
            InjectedFault("*", LEASES + ".*", Answer(503, "ServiceUnavailable"), times=1)
        )
        await asyncio.sleep(120)
        assert (heartbeat.since_s, heartbeat.resumed.is_set()) == (began, False)
        kube.faults.add(
            InjectedFault("*", LEASES + ".*", Answer(503, "ServiceUnavailable"), times=8)
        )
        async with asyncio.timeout(300):
            await heartbeat.resumed.wait()
        assert heartbeat.since_s > began + 120


def test_names_say_whose_lease_it_is() -> None:
    assert agent_of_lease("agent.nvidia.a.b.example") == ("nvidia", "a.b.example")
    assert agent_of_lease(agent_lease_name("mthreads", "n1")) == ("mthreads", "n1")
    for other in ("tessera-scheduler", "agent.", "agent.nvidia", "agent.nvidia.", "agent..n1"):
        assert agent_of_lease(other) is None
    assert agent_lease_name("nvidia", "n" * 250) == ""


def test_one_renewal_may_fail() -> None:
    with pytest.raises(BadSettings, match=r"heartbeat\.lasts_s: 40: write more than twice"):
        HeartbeatSettings(lasts_s=40).check()
