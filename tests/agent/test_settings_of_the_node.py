"""Settings of the node's cards reach what it publishes, live, and leave alone what runs."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from tessera_runtime.kube.api import Body, Verb
from tessera_schema.cards import MIB, Card
from tessera_schema.node_cards import decode_node_cards
from tessera_testing.kube import FakeKube
from tests.agent.node import (
    MONITORING,
    PATH,
    SETTINGS,
    Agent,
    Script,
    a_card,
    a_cluster,
    annotation,
    running,
    until,
)

pytestmark = pytest.mark.looptime
MAPS = "/api/v1/namespaces/tessera-system/configmaps"


def a_map(text: str, **more: str) -> bytes:
    return msgspec.json.encode(
        {
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "tessera-node-settings", "namespace": "tessera-system"},
            "data": {"settings.yaml": text, **more},
        }
    )  # fmt: skip


async def write(kube: FakeKube, text: str, **more: str) -> None:
    """Create the ConfigMap."""
    await kube.call(
        Verb.POST, "/api/v1/namespaces", body=b'{"metadata": {"name": "tessera-system"}}'
    )
    await kube.call(Verb.POST, MAPS, body=a_map(text, **more))


async def change(kube: FakeKube, text: str) -> None:
    """An administrator edits it."""
    patch = msgspec.json.encode({"data": {"settings.yaml": text}})
    await kube.call(Verb.PATCH, f"{MAPS}/tessera-node-settings", body=patch, kind=Body.MERGE_PATCH)


async def published(kube: FakeKube) -> tuple[Card, ...]:
    """What the node shows."""
    text = await annotation(kube)
    return decode_node_cards(text).cards if text else ()


async def shows(kube: FakeKube, wanted: dict[str, object], most_s: float = 15) -> None:
    """Wait until the first card is so."""
    loop = asyncio.get_running_loop()
    end = loop.time() + most_s
    while True:
        cards = await published(kube)
        if cards and {name: getattr(cards[0], name) for name in wanted} == wanted:
            return
        assert loop.time() < end, cards
        await asyncio.sleep(0.1)


async def test_the_first_inventory_has_them_already() -> None:
    kube = await a_cluster()
    await write(kube, "nodes: [{slots: 3, memory_scaling: 0.5, hidden: {indexes: [1]}}]")
    async with running(kube, Script(a_card(), a_card(1))) as agent:
        await shows(kube, {"slots": 3, "memory_bytes": 1 << 33, "physical_bytes": 1 << 34})
        first, second = agent.states[0].cards
        assert (first.slots, first.hidden, second.hidden) == (3, False, True)
        assert [card.hidden for card in await published(kube)] == [False, True]


async def test_they_change_live_and_what_is_taken_away_is_published_at_once() -> None:
    kube = await a_cluster()
    await write(kube, "nodes: []")
    async with running(kube, Script(a_card())):
        await shows(kube, {"slots": 10, "hidden": False})
        await change(kube, "nodes: [{names: [worker-*], hidden: {models: [nvidia]}}]")
        await shows(kube, {"hidden": True, "healthy": True}, most_s=2)
        await change(kube, "nodes: []")
        await shows(kube, {"hidden": False})


async def test_labels_of_the_node_select() -> None:
    kube = await a_cluster()
    await write(kube, "nodes: [{labels: {pool: small}, slots: 2}]")
    async with running(kube, Script(a_card())):
        await shows(kube, {"slots": 10})
        patch = msgspec.json.encode({"metadata": {"labels": {"pool": "small"}}})
        kube.store.handle(Verb.PATCH, PATH, {}, patch, Body.MERGE_PATCH)
        await shows(kube, {"slots": 2}, most_s=SETTINGS.inventory.verify_s + 15)


async def test_what_cannot_be_read_changes_nothing_and_is_a_problem() -> None:
    kube = await a_cluster()
    await write(kube, "nodes: [{hidden: {indexes: [0]}}]")
    async with running(kube, Script(a_card())) as agent:
        await shows(kube, {"hidden": True})
        await change(kube, "nodes: [{slots: -1}]")
        await until(lambda: bool(agent.devices.state.problems))
        assert agent.devices.state.problems == (
            "ConfigMap tessera-system/tessera-node-settings: settings.yaml: nodes[0].slots: -1: "
            "write int >= 1; what was set before stays in force",
        )
        assert (await published(kube))[0].hidden


async def test_a_hidden_card_stays_hidden_when_the_settings_are_gone(tmp_path: Path) -> None:
    settings = replace(SETTINGS, folder=str(tmp_path))
    kube = await a_cluster()
    await write(kube, "nodes: [{hidden: {indexes: [0]}}]")
    async with running(kube, Script(a_card()), settings=settings) as agent:
        await shows(kube, {"hidden": True})
        await kube.call(Verb.DELETE, f"{MAPS}/tessera-node-settings")
        await until(lambda: "is gone" in "".join(agent.devices.state.problems))
    async with running(kube, Script(a_card()), settings=settings) as agent:
        await until(lambda: "is not there" in "".join(agent.devices.state.problems))
        assert (await published(kube))[0].hidden
        await kube.call(Verb.POST, MAPS, body=a_map("nodes: []"))
        await shows(kube, {"hidden": False})


async def test_what_has_no_effect_is_an_event_once() -> None:
    kube = await a_cluster()
    hamis = '{"nodeconfig": [{"name": "worker-1", "devicesplitcount": 4, "migstrategy": "mixed"}]}'
    await write(kube, "nodes: []", **{"config.json": hamis})
    async with running(kube, Script(a_card())) as agent:
        await shows(kube, {"slots": 4})
        await asyncio.sleep(60)
        assert agent.events == [
            "ConfigMap tessera-system/tessera-node-settings: config.json: "
            "nodeconfig[0].migstrategy: 'mixed': cards in MIG mode take no pods yet"
        ]
        assert agent.devices.state.problems == ()


async def test_a_card_with_unified_memory_needs_a_size() -> None:
    kube = await a_cluster()
    await write(kube, "nodes: []")
    async with running(kube, Script(a_card(memory_bytes=0))) as agent:
        await until(lambda: bool(agent.devices.state.problems))
        assert "set unified_memory_mib for this node" in agent.devices.state.problems[0]
        assert await published(kube) == ()
        await change(kube, "nodes: [{unified_memory_mib: 8192}]")
        await shows(kube, {"memory_bytes": 8192 * MIB, "physical_bytes": 0})


async def test_where_they_cannot_be_read_cards_are_published_all_the_same() -> None:
    kube = await a_cluster()
    agent = Agent(kube, Script(a_card()), MONITORING, SETTINGS)
    await agent.devices.poll()
    assert agent.states == []
    await asyncio.sleep(SETTINGS.node_settings.wait_s)
    await agent.devices.poll()
    (state,) = agent.states
    assert state.cards[0].slots == 10
    assert state.problems[0].endswith("has not been read: no settings are in force")
