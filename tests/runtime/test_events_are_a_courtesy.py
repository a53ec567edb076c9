import asyncio
from typing import Any

import msgspec
import pytest

from tessera_embedded.apiserver.faults import Answer, Cut, InjectedFault
from tessera_embedded.apiserver.store import Store
from tessera_runtime.kube.events import ObjectRef, of_pod, open_events
from tessera_runtime.kube.settings import EventSettings
from tessera_testing.clock import LoopClock
from tessera_testing.kube import FakeKube
from tests.runtime.cluster import a_cluster, make_pod, until

pytestmark = pytest.mark.looptime

EVENTS = "/api/v1/events"


def written(store: Store) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = msgspec.json.decode(store.handle("GET", EVENTS).body)["items"]
    return items


async def test_an_event_is_about_its_object() -> None:
    store = a_cluster()
    pod = make_pod(store, "a")
    async with open_events(
        FakeKube(store), EventSettings(), component="tessera-agent", clock=LoopClock(), node="n1"
    ) as events:
        events.record(of_pod(pod), "HookInactive", "limits are not enforced", warning=True)
        await until(lambda: written(store))
    [event] = written(store)
    assert event["involvedObject"]["uid"] == pod.uid
    assert event["metadata"]["namespace"] == "default"
    assert (event["type"], event["reason"], event["count"]) == ("Warning", "HookInactive", 1)
    assert event["source"] == {"component": "tessera-agent", "host": "n1"}


async def test_events_of_nodes_are_stored_in_the_default_namespace() -> None:
    store = a_cluster()
    async with open_events(
        FakeKube(store), EventSettings(), component="c", clock=LoopClock()
    ) as events:
        events.record(ObjectRef("Node", "node-1"), "CardLost", "card g0 does not answer")
        await until(lambda: written(store))
    assert written(store)[0]["metadata"]["namespace"] == "default"


async def test_the_same_again_is_a_count() -> None:
    store = a_cluster()
    pod = make_pod(store, "a")
    kube = FakeKube(store)
    async with open_events(kube, EventSettings(), component="c", clock=LoopClock()) as events:
        for _ in range(100):
            events.record(of_pod(pod), "Waits", "no card is free")
            await asyncio.sleep(1)
        await asyncio.sleep(60)
    [event] = written(store)
    assert event["count"] == 100
    assert event["lastTimestamp"] > event["firstTimestamp"]
    assert len(kube.calls) <= 4


async def test_many_at_once_are_written_in_their_time_and_more_are_dropped() -> None:
    store = a_cluster()
    pod = make_pod(store, "a")
    settings = EventSettings(per_second=2, burst=10, waiting=50)
    began = asyncio.get_running_loop().time()
    async with open_events(FakeKube(store), settings, component="c", clock=LoopClock()) as events:
        for number in range(80):
            events.record(of_pod(pod), "Waits", f"reason {number}")
        await until(lambda: len(written(store)) == 50)
        assert asyncio.get_running_loop().time() - began >= 19
        assert events.dropped == 30


@pytest.mark.parametrize("effect", [Answer(500), Answer(429), Cut(), Cut(after=True)])
async def test_trouble_delays_an_event(effect: Answer | Cut) -> None:
    store = a_cluster()
    kube = FakeKube(store)
    kube.faults.add(InjectedFault("POST", ".*", effect, times=2))
    async with open_events(kube, EventSettings(), component="c", clock=LoopClock()) as events:
        events.record(ObjectRef("Node", "node-1"), "CardLost", "gone")
        await until(lambda: written(store) and not kube.faults.waiting)
        assert events.dropped == 0


async def test_a_refusal_drops_it_and_the_next_is_written() -> None:
    store = a_cluster()
    async with open_events(
        FakeKube(store), EventSettings(), component="c", clock=LoopClock()
    ) as events:
        events.record(ObjectRef("Pod", "a", "no-such-namespace", "u"), "Waits", "x")
        events.record(ObjectRef("Node", "node-1"), "CardLost", "gone")
        await until(lambda: written(store))
        assert events.dropped == 1


async def test_an_event_that_expired_is_written_again() -> None:
    store = a_cluster()
    async with open_events(
        FakeKube(store), EventSettings(), component="c", clock=LoopClock()
    ) as events:
        events.record(ObjectRef("Node", "node-1"), "CardLost", "gone")
        await until(lambda: written(store))
        [first] = written(store)
        store.handle("DELETE", f"/api/v1/namespaces/default/events/{first['metadata']['name']}")
        events.record(ObjectRef("Node", "node-1"), "CardLost", "gone")
        await until(lambda: written(store))
        assert written(store)[0]["count"] == 2


async def test_few_are_remembered() -> None:
    store = a_cluster()
    settings = EventSettings(remembered=10)
    async with open_events(FakeKube(store), settings, component="c", clock=LoopClock()) as events:
        for number in range(30):
            events.record(ObjectRef("Node", "node-1"), "Odd", f"text {number}")
        await until(lambda: len(written(store)) == 30)
        events.record(ObjectRef("Node", "node-1"), "Odd", "text 0")
        await until(lambda: len(written(store)) == 31)
