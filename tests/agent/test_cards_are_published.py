"""The node's annotation follows the cards: what is lost at once, what is gained in its turn."""

import asyncio

import pytest
from msgspec.structs import replace

from tessera_agent.events import DeviceStatePublisher
from tessera_agent.readers import DriverSilent
from tessera_core.dialect_kit.readings import CardReading, Fault
from tessera_embedded.apiserver.faults import Answer, Effect, Hang
from tessera_embedded.apiserver.faults import InjectedFault as ApiFault
from tessera_runtime.bus.outbox import open_outbox
from tessera_schema.cards import Card
from tessera_schema.messages.device_reports import DeviceState, decode_device
from tessera_schema.node_cards import decode_node_cards
from tessera_schema.subjects import DEVICES_BUCKET
from tessera_testing.bus import FakeBus
from tessera_testing.clock import LoopClock
from tests.agent.node import (
    KEY,
    SETTINGS,
    Script,
    a_card,
    a_cluster,
    annotation,
    cards_of,
    healthy_cards,
    running,
    scribble,
    text_of,
    writes,
)  # fmt: skip

pytestmark = pytest.mark.looptime


def broken(index: int = 0, code: int = 94) -> CardReading:
    return a_card(index, faults=(Fault(code=code, what=f"XID {code}"),))


async def test_what_the_driver_shows_is_on_the_node() -> None:
    kube = await a_cluster()
    async with running(kube, Script(a_card(0), a_card(1))) as agent:
        await asyncio.sleep(2)
        cards = decode_node_cards(await annotation(kube)).cards
        assert [(c.id, c.model, c.slots, c.vendor) for c in cards] == [
            ("GPU-0", "NVIDIA A", 10, "nvidia"), ("GPU-1", "NVIDIA A", 10, "nvidia"),
        ]  # fmt: skip
        assert cards_of(agent.states[0]) == [("GPU-0", True), ("GPU-1", True)]
        assert agent.states[0].driver == "570"
        assert agent.events == []


async def test_nothing_is_written_while_nothing_changes() -> None:
    kube = await a_cluster()
    async with running(kube, Script(a_card())) as agent:
        await asyncio.sleep(600)
        assert writes(kube) == 1
        assert 20 <= len(agent.states) <= 22


async def test_health_is_taken_away_at_once_and_published() -> None:
    kube, script = await a_cluster(), Script(a_card(0), a_card(1))
    async with running(kube, script) as agent:
        await asyncio.sleep(1.5)
        script.answer = Script(broken(0), a_card(1)).answer
        await asyncio.sleep(1.1)
        assert await healthy_cards(kube) == {"GPU-0": False, "GPU-1": True}
        assert cards_of(agent.states[-1]) == [("GPU-0", False), ("GPU-1", True)]
        assert agent.events == ["card 0 (GPU-0) is unhealthy: XID 94"]


async def test_a_card_that_goes_while_another_is_written_goes_at_once_too() -> None:
    kube, script = await a_cluster(), Script(a_card(0), a_card(1))
    async with running(kube, script):
        await asyncio.sleep(1.5)
        kube.latency_s = 1.2
        script.answer = Script(broken(0), a_card(1)).answer
        await asyncio.sleep(1)
        script.answer = Script(a_card(0), broken(1)).answer
        await asyncio.sleep(4)
        assert await healthy_cards(kube) == {"GPU-0": False, "GPU-1": False}


async def test_health_comes_back_in_its_turn() -> None:
    kube, script = await a_cluster(), Script(a_card())
    async with running(kube, script) as agent:
        await asyncio.sleep(1.5)
        script.answer = Script(broken()).answer
        await asyncio.sleep(1.1)
        script.show(a_card())
        await asyncio.sleep(5)
        assert await healthy_cards(kube) == {"GPU-0": False}
        assert agent.devices.latest.cards[0].healthy
        await asyncio.sleep(6)
        assert await healthy_cards(kube) == {"GPU-0": True}
        assert agent.good == ["card 0 (GPU-0) takes pods again"]


async def test_a_card_that_flaps_does_not_flood_the_api_server() -> None:
    kube, script = await a_cluster(), Script(a_card())
    async with running(kube, script):
        for _ in range(60):
            script.answer = Script(broken()).answer
            await asyncio.sleep(1)
            script.show(a_card())
            await asyncio.sleep(4)
        assert writes(kube) <= 2 * 300 / 10


async def test_what_somebody_else_writes_is_undone() -> None:
    kube = await a_cluster()
    async with running(kube, Script(a_card())) as agent:
        await asyncio.sleep(20)
        for value in ("garbage", None, text_of()):
            await scribble(kube, value)
            await asyncio.sleep(61)
            assert await healthy_cards(kube) == {"GPU-0": True}
        assert agent.inventory.overwritten == 3


async def test_an_api_server_that_is_away_is_waited_for() -> None:
    kube, script = await a_cluster(), Script(a_card())
    kube.pause()
    async with running(kube, script) as agent:
        await asyncio.sleep(100)
        assert script.polls > 90
        assert KEY in agent.states[-1].problems[-1]
        kube.resume()
        await asyncio.sleep(70)
        assert await healthy_cards(kube) == {"GPU-0": True}
        assert agent.states[-1].problems == ()


@pytest.mark.parametrize("effect", [Answer(403, "Forbidden"), Answer(429), Answer(500), Hang()])
async def test_a_write_that_fails_is_tried_again(effect: Effect) -> None:
    kube = await a_cluster()
    kube.faults.add(ApiFault("PATCH", r".*/nodes/.*", effect, times=3))
    async with running(kube, Script(a_card())):
        await asyncio.sleep(60)
        assert await healthy_cards(kube) == {"GPU-0": True}


async def test_nothing_is_said_of_cards_before_the_driver_has_spoken() -> None:
    there = text_of(Card(id="GPU-0", index=0, vendor="nvidia", memory_bytes=1 << 34))
    kube, script = await a_cluster({KEY: there}), Script()
    script.answer = DriverSilent(why="not loaded")
    async with running(kube, script) as agent:
        await asyncio.sleep(14)
        assert (writes(kube), agent.states) == (0, [])
        assert agent.events == []  # drivers take some seconds after every start
        await asyncio.sleep(4)
        assert "the driver does not answer: not loaded" in agent.events
        assert await healthy_cards(kube) == {"GPU-0": False}
        assert cards_of(agent.states[-1]) == [("GPU-0", False)]


async def test_a_card_that_an_earlier_agent_published_and_that_is_gone_takes_no_pods() -> None:
    old = [Card(id=f"GPU-{i}", index=i, vendor="nvidia", memory_bytes=1 << 34) for i in (0, 1)]
    kube = await a_cluster({KEY: text_of(*old)})
    async with running(kube, Script(a_card(0))):
        await asyncio.sleep(15)
        assert await healthy_cards(kube) == {"GPU-0": True, "GPU-1": False}


async def test_a_node_without_cards_shows_none() -> None:
    kube = await a_cluster()
    async with running(kube, Script()) as agent:
        await asyncio.sleep(2)
        assert await annotation(kube) == text_of()
        assert agent.states[0].cards == ()


async def test_an_old_driver_is_a_problem_that_is_reported_once() -> None:
    kube, script = await a_cluster(), Script(a_card())
    script.answer = replace(script.answer, driver="418.40")
    async with running(kube, script) as agent:
        await asyncio.sleep(100)
        assert agent.events == [
            "the NVIDIA driver is version 418.40, sharing needs 440 or newer: upgrade it"
        ]
        assert agent.states[-1].problems == tuple(agent.events)


async def test_a_version_that_cannot_be_read_may_be_set_by_an_operator() -> None:
    kube = await a_cluster()
    settings = replace(SETTINGS, reader=replace(SETTINGS.reader, toolkit="0.9"))
    async with running(kube, Script(a_card()), settings=settings) as agent:
        await asyncio.sleep(2)
        assert "the NVIDIA container toolkit is version 0.9" in agent.events[0]


async def test_the_bus_keeps_the_last_state() -> None:
    bus, state = FakeBus(), DeviceState(node="worker.1", vendor="nvidia", driver="570")
    async with open_outbox(bus, LoopClock(), "agent", "worker.1") as outbox:
        states = DeviceStatePublisher(outbox, "worker.1", "nvidia", tuple)
        states.publish(replace(state, driver="560"))
        states.publish(state)
        await outbox.emptied()
    message = bus.values(DEVICES_BUCKET)["worker_1.nvidia"]
    assert (decode_device(message.data), message.envelope.type) == (
        replace(state, held=()),
        "dev.tessera.device.state",
    )


async def test_the_annotation_is_no_larger_than_it_must_be() -> None:
    kube = await a_cluster()
    async with running(kube, Script(*(a_card(i) for i in range(16)))):
        await asyncio.sleep(2)
        assert len(await annotation(kube)) < 8192
