"""Lists, watches, gaps, and the audit."""

import asyncio

import msgspec
import pytest

from tessera_core.machines.allocation import AllocationPhase
from tessera_core.slices import at_once
from tessera_embedded.apiserver.faults import Answer, Delay
from tessera_schema.cards import MIB
from tests.scheduler.fake_cluster import (
    FakeCluster,
    counted,
    leading,
    phase,
    settings,
    until,
)

pytestmark = pytest.mark.looptime


async def test_running_pods_are_counted_before_the_first_answer() -> None:
    cluster = FakeCluster(1)
    for name in ("a", "b"):
        cluster.pod(name, 7000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        await cluster.place(scheduler, "b")
        before = dict(scheduler.ledger.charges_on("n0"))
    async with leading(cluster) as scheduler:
        assert dict(scheduler.ledger.charges_on("n0")) == before == cluster.truth_on("n0")
        cluster.pod("c", 7000)
        assert not cluster.filter(scheduler, "c").node_names


async def test_what_changed_during_a_gap_is_found_by_the_next_list() -> None:
    cluster = FakeCluster(2)
    uids = {name: cluster.pod(name, 7000) for name in ("a", "b")}
    async with leading(cluster) as scheduler:
        for name in uids:
            await cluster.place(scheduler, name)
        cluster.fault("GET", "/api/v1/pods", Answer(410))
        cluster.kube.cut_watches()
        cluster.delete("a")
        await asyncio.sleep(0.001)
        await until(lambda: counted(scheduler, 'relists_total{kind="pods"}') >= 3, 60)
        assert phase(scheduler, uids["a"]) is None
        assert phase(scheduler, uids["b"]) is AllocationPhase.BOUND
        assert dict(scheduler.ledger.charges_on("n0")) == cluster.truth_on("n0")
        await until(lambda: cluster.bus.said(f"tessera.v1.*.allocation.*.{uids['a']}.released"), 5)


async def test_a_pod_that_was_bound_and_deleted_while_a_list_was_made_does_not_stay() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 7000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        started = scheduler.monotonic_clock.time() - 100
        cluster.kube.event_delay_s = 10_000
        cluster.delete("a")
        at_once(scheduler.pod_cache.on_list([], started, scheduler.monotonic_clock.time()))
        assert phase(scheduler, uid) is AllocationPhase.BOUND
        await until(lambda: phase(scheduler, uid) is None, 5)


async def test_events_that_come_twice_and_late_change_nothing() -> None:
    cluster = FakeCluster(1)
    cluster.kube.event_times, cluster.kube.event_delay_s = 3, 0.5
    async with leading(cluster) as scheduler:
        for n in range(5):
            cluster.pod(f"p{n}", 7000)
            await cluster.place(scheduler, f"p{n}")
            await asyncio.sleep(0.3)
            cluster.delete(f"p{n}")
            await asyncio.sleep(0.3)
            await until(lambda: scheduler.ledger.charges_on("n0") == {}, 5)


async def test_a_pod_of_another_form_closes_its_node_and_is_not_taken_for_gone() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 7000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        raw = cluster.call("GET", cluster.path("a"))
        raw["spec"]["tolerations"] = "of another form"
        odd = scheduler.pod_reader.read(msgspec.json.encode(raw))
        started = scheduler.monotonic_clock.time() + 1
        at_once(scheduler.pod_cache.on_list([odd], started, started + 1))
        assert phase(scheduler, uid) is AllocationPhase.BOUND
        cluster.pod("b", 1000)
        assert cluster.filter(scheduler, "b").failed_and_unresolvable_nodes == {"n0": "NodeBlocked"}


async def test_the_audit_finds_and_corrects_what_no_event_showed() -> None:
    cluster = FakeCluster(2)
    uids = {name: cluster.pod(name, 7000) for name in ("a", "b")}
    async with leading(cluster, config=settings(audit_s=50)) as scheduler:
        for name in uids:
            await cluster.place(scheduler, name)
        await asyncio.sleep(60)
        assert counted(scheduler, 'audit_cards_differing{against="api"}') == 0
        cluster.kube.event_delay_s = 10_000
        cluster.delete("a")
        scheduler.ledger.ended(uids["b"])
        scheduler.ledger.fleet.cards.memory_used[0, 0] += 5
        await until(lambda: counted(scheduler, 'audit_cards_differing{against="columns"}') == 1, 60)
        assert counted(scheduler, 'audit_cards_differing{against="api"}') == 1
        await until(lambda: phase(scheduler, uids["a"]) is None, 10)


async def test_the_audit_waits_for_events_that_are_on_their_way() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 7000)
    async with leading(cluster, config=settings(audit_s=50)) as scheduler:
        await cluster.place(scheduler, "a")
        cluster.kube.event_delay_s = 3
        await asyncio.sleep(48)
        cluster.delete("a")
        await asyncio.sleep(2.5)
        assert phase(scheduler, uid) is AllocationPhase.BOUND
        await until(lambda: counted(scheduler, "audit_timestamp_seconds") > 0, 20)
        assert counted(scheduler, 'audit_cards_differing{against="api"}') == 0


async def test_pods_are_read_after_the_nodes_however_long_those_take() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 9000)
    cluster.bind_elsewhere("a", "n0")
    cluster.fault("GET", "/api/v1/nodes", Delay(4))
    async with leading(cluster, config=settings(migration=True)) as scheduler:
        assert scheduler.ledger.charges_on("n0")["GPU-n0-0"].memory_bytes == 9000 * MIB
