"""Where kubelet asks a device plugin, it does not say for which container: equal pods start one by
one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tessera_embedded.apiserver.faults import Answer
from tessera_scheduler.scheduler import Scheduler
from tessera_schema.decisions import DecisionRecord
from tessera_schema.node_cards import ALLOCATE, NodeCardsAnnotation, encode_node_cards
from tessera_testing.builders import a_card
from tests.scheduler.fake_cluster import (
    BINDING,
    CARDS,
    FakeCluster,
    cards_on,
    leading,
    settings,
    until,
)

pytestmark = pytest.mark.looptime
CLOSED = "NodeStartingEqualPod"
ADMITTED = {"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"}
RUNS = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
MT_CARDS = "cards.tessera.dev/mthreads"
A_PART = {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "2"}


def allocating(cluster: FakeCluster, *nodes: str) -> None:
    """The agents of these nodes give cards through kubelet."""
    for node in nodes:
        text = encode_node_cards(NodeCardsAnnotation(cards=tuple(cards_on(node)), giving=ALLOCATE))
        cluster.note(f"/api/v1/nodes/{node}", {CARDS: text})


def a_cluster(nodes: int = 1) -> FakeCluster:
    cluster = FakeCluster(nodes)
    allocating(cluster, *cluster.nodes)
    return cluster


def asking(cluster: FakeCluster, name: str, limits: dict[str, str]) -> str:
    """A pod of one container; its uid."""
    container = {"name": "c", "image": "i", "resources": {"limits": limits}}
    made = cluster.make(
        "/api/v1/namespaces/default/pods",
        {"metadata": {"name": name}, "spec": {"containers": [container]}},
    )
    uid: str = made["metadata"]["uid"]
    return uid


def report(cluster: FakeCluster, name: str, status: dict[str, Any]) -> None:
    """As kubelet does."""
    cluster.call("PATCH", f"{cluster.path(name)}/status", {"status": status})


def why(scheduler: Scheduler, uid: str) -> DecisionRecord:
    record = scheduler.decisions.record(uid, scheduler.ledger.fleet)
    assert record is not None
    return record


async def test_an_equal_pod_goes_to_another_node_and_the_next_one_waits() -> None:
    cluster = a_cluster(2)
    for name in ("a", "b"):
        cluster.pod(name, 300)
    uid = cluster.pod("c", 500)
    async with leading(cluster) as scheduler:
        first, second = await cluster.place(scheduler, "a"), await cluster.place(scheduler, "b")
        assert {first, second} == {"n0", "n1"}
        answer = cluster.filter(scheduler, "c")
        assert answer.failed_and_unresolvable_nodes == {"n0": CLOSED, "n1": CLOSED}
        record = why(scheduler, uid)
        assert record.message == f"0/2 nodes have room: 2 {CLOSED}"
        alert = {r.node: r.message for r in record.reasons}
        assert alert[first].startswith("default/a is starting there and asks for as much")
        assert alert[second].startswith("default/b is starting there and asks for as much")
        assert "nvidia.com/gpu: 1" in alert[first]


async def test_a_pod_with_another_amount_does_not_wait() -> None:
    cluster = FakeCluster(1, 2)
    text = encode_node_cards(NodeCardsAnnotation(cards=tuple(cards_on("n0", 2)), giving=ALLOCATE))
    cluster.note("/api/v1/nodes/n0", {CARDS: text})
    cluster.pod("a", 300)
    asking(cluster, "b", {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "300"})
    async with leading(cluster) as scheduler:
        assert await cluster.place(scheduler, "a") == "n0"
        assert await cluster.place(scheduler, "b") == "n0"


async def test_where_the_runtime_is_called_nobody_waits() -> None:
    cluster = FakeCluster(1)
    async with leading(cluster) as scheduler:
        for name in ("a", "b", "c"):
            cluster.pod(name, 300)
            assert await cluster.place(scheduler, name) == "n0"


async def test_the_node_opens_when_kubelet_has_admitted_the_pod_and_others_are_woken() -> None:
    cluster = a_cluster()
    for name in ("a", "b"):
        cluster.pod(name, 300)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        assert cluster.filter(scheduler, "b").node_names == ()
        await asyncio.sleep(5)
        assert cluster.filter(scheduler, "b").node_names == ()
        before = cluster.call("GET", "/api/v1/nodes/n0")["metadata"]["resourceVersion"]
        report(cluster, "a", ADMITTED)
        await asyncio.sleep(5)
        after = cluster.call("GET", "/api/v1/nodes/n0")["metadata"]
        assert "tessera.dev/wake" in after["annotations"]
        assert after["resourceVersion"] != before
        assert cluster.filter(scheduler, "b").node_names == ("n0",)


async def test_a_vendors_own_plugin_needs_until_a_container_starts() -> None:
    cluster = FakeCluster(1)
    cards = (a_card("MT-0", vendor="mthreads", mib=49152),)
    cluster.note(
        "/api/v1/nodes/n0", {MT_CARDS: encode_node_cards(NodeCardsAnnotation(cards=cards))}
    )
    for name in ("a", "b"):
        asking(cluster, name, A_PART)
    async with leading(cluster) as scheduler:
        assert await cluster.place(scheduler, "a") == "n0"
        report(cluster, "a", ADMITTED)
        await asyncio.sleep(1)
        assert cluster.filter(scheduler, "b").failed_and_unresolvable_nodes == {"n0": CLOSED}
        report(cluster, "a", RUNS)
        await asyncio.sleep(1)
        assert cluster.filter(scheduler, "b").node_names == ("n0",)


@pytest.mark.parametrize("end", ["deleted", "ends"])
async def test_the_node_opens_when_the_pod_is_gone(end: str) -> None:
    cluster = a_cluster()
    for name in ("a", "b"):
        cluster.pod(name, 300)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        if end == "deleted":
            cluster.delete("a")
        else:
            cluster.finish("a")
        await asyncio.sleep(1)
        assert cluster.filter(scheduler, "b").node_names == ("n0",)


async def test_a_reservation_closes_the_node_until_it_has_run_out() -> None:
    cluster = a_cluster()
    for name in ("a", "b"):
        cluster.pod(name, 300)
    async with leading(cluster) as scheduler:
        assert cluster.filter(scheduler, "a").node_names == ("n0",)
        assert cluster.filter(scheduler, "a").node_names == ("n0",)  # it does not wait for itself
        assert cluster.filter(scheduler, "b").node_names == ()
        await asyncio.sleep(35)
        assert cluster.filter(scheduler, "b").node_names == ("n0",)


async def test_a_binding_whose_outcome_is_not_known_closes_the_node() -> None:
    cluster = a_cluster()
    for name in ("a", "b"):
        cluster.pod(name, 300)
    async with leading(cluster) as scheduler:
        assert cluster.filter(scheduler, "a").node_names == ("n0",)
        cluster.fault("POST", BINDING, Answer(500), 9)
        assert "is not known" in await cluster.bind(scheduler, "a", "n0")
        assert cluster.filter(scheduler, "b").node_names == ()


async def test_the_next_leader_knows_it_from_the_pods() -> None:
    cluster = a_cluster()
    for name in ("a", "b"):
        cluster.pod(name, 300)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
    async with leading(cluster) as scheduler:
        assert cluster.filter(scheduler, "b").failed_and_unresolvable_nodes == {"n0": CLOSED}
        report(cluster, "a", ADMITTED)
        await asyncio.sleep(1)
        assert cluster.filter(scheduler, "b").node_names == ("n0",)


async def test_a_pod_that_was_offered_several_nodes_is_not_bound_to_a_closed_one() -> None:
    cluster = a_cluster(2)
    cluster.pod("a", 300)
    wish: dict[str, Any] = {"preference": {"matchExpressions": []}, "weight": 1}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    cluster.pod("b", 300, affinity=affinity)
    cluster.pod("c", 300, affinity=affinity)
    async with leading(cluster) as scheduler:
        for name in ("b", "c"):
            assert len(cluster.filter(scheduler, name).node_names or ()) == 2
        node = await cluster.place(scheduler, "a")
        (other,) = {"n0", "n1"} - {node}
        assert "default/a is starting there" in await cluster.bind(scheduler, "b", node)
        assert cluster.filter(scheduler, "b").node_names == (other,)
        assert await cluster.bind(scheduler, "b", other) == ""
        assert "default/b is starting there" in await cluster.bind(scheduler, "c", other)


async def test_a_node_that_begins_to_allocate_is_closed_for_what_is_on_its_way() -> None:
    cluster = FakeCluster(2)
    for name in ("a", "b", "c"):
        cluster.pod(name, 300)
    async with leading(cluster) as scheduler:
        (reserved,) = cluster.filter(scheduler, "a").node_names or ()
        bound = await cluster.place(scheduler, "b")
        assert reserved == bound  # nothing keeps them apart yet
        allocating(cluster, *cluster.nodes)
        await asyncio.sleep(1)
        (other,) = {"n0", "n1"} - {bound}
        assert cluster.filter(scheduler, "c").node_names == (other,)
        cluster.delete("b")
        await asyncio.sleep(1)
        assert await cluster.bind(scheduler, "a", reserved) == ""


async def test_a_node_that_is_given_by_the_runtime_again_is_open() -> None:
    cluster = a_cluster()
    for name in ("a", "b"):
        cluster.pod(name, 300)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        assert cluster.filter(scheduler, "b").node_names == ()
        cluster.publish("n0", cards_on("n0"))
        await asyncio.sleep(1)
        assert cluster.filter(scheduler, "b").node_names == ("n0",)


def events(cluster: FakeCluster) -> list[str]:
    found = cluster.call("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    return [event["note"] for event in found if event["reason"] == "StartsTooLong"]


async def test_a_pod_that_takes_too_long_raises_an_alert_and_is_no_longer_waited_for() -> None:
    cluster = a_cluster()
    cards = (a_card("MT-0", vendor="mthreads", mib=49152),)
    cluster.note(
        "/api/v1/nodes/n0", {MT_CARDS: encode_node_cards(NodeCardsAnnotation(cards=cards))}
    )
    for name in ("a", "b"):
        asking(cluster, name, A_PART)
    async with leading(cluster, config=settings(start_s=60)) as scheduler:
        await cluster.place(scheduler, "a")
        report(cluster, "a", ADMITTED)
        await asyncio.sleep(50)
        assert cluster.filter(scheduler, "b").node_names == ()
        await until(lambda: events(cluster), 30)
        (alert,) = events(cluster)
        assert "has not started on n0 within 60 s of its binding" in alert
        assert "others no longer wait for it" in alert
        assert cluster.filter(scheduler, "b").node_names == ("n0",)


async def test_one_that_kubelet_never_reported_raises_an_alert_and_is_waited_for() -> None:
    cluster = a_cluster()
    for name in ("a", "b"):
        cluster.pod(name, 300)
    async with leading(cluster, config=settings(start_s=60)) as scheduler:
        await cluster.place(scheduler, "a")
        await until(lambda: events(cluster), 90)
        (alert,) = events(cluster)
        assert "kubelet has not reported it" in alert
        assert cluster.filter(scheduler, "b").node_names == ()
        measured = scheduler.metrics.alerts.labels("StartsTooLong")
        assert measured._value.get() == 1


ASKS = {
    "hami.io": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "300"},
    "volcano.sh": {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "300"},
}


@pytest.mark.parametrize("giving", ["", ALLOCATE])
@pytest.mark.parametrize("system", list(ASKS))
async def test_what_other_programs_wait_for_is_written_where_our_agent_gives(
    giving: str, system: str
) -> None:
    cluster = a_cluster() if giving else FakeCluster(1)
    asking(cluster, "a", ASKS[system])
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        notes = cluster.read("a").metadata.annotations
        assert notes[f"{system}/bind-phase"] == "success"


async def test_where_a_plugin_of_another_system_gives_it_is_left_to_that() -> None:
    cluster = FakeCluster(1)
    register = "GPU-n0-0,10,16384,100,NVIDIA-A10,0,true,0,hami-core:"
    cluster.note("/api/v1/nodes/n0", {CARDS: None, "hami.io/node-nvidia-register": register})
    cluster.pod("a", 300)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        notes = cluster.read("a").metadata.annotations
        assert notes["hami.io/bind-phase"] == "allocating"
