"""A node of a cluster in memory, and a reader that says what a test wants."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from tessera_agent.containers.holdings import ContainerRegistry
from tessera_agent.devices import node_settings
from tessera_agent.devices.cards import CardHealthTracker
from tessera_agent.devices.cards_publisher import CardsPublisher
from tessera_agent.devices.competing_plugins import CompetingPlugins
from tessera_agent.devices.monitor import DeviceMonitor
from tessera_agent.devices.node_annotation import CardsAnnotationWriter
from tessera_agent.devices.node_settings import NodeCardSettings
from tessera_agent.devices.settings import HealthSettings, InventorySettings
from tessera_agent.readers import CardReader, DriverSilent
from tessera_agent.settings import AgentSettings
from tessera_core.dialect_kit.monitoring import MonitoringSpec
from tessera_core.dialect_kit.readings import CardReading, Readings
from tessera_core.registry.registry import load
from tessera_core.vendors import nvidia
from tessera_runtime.kube.api import Body, Verb
from tessera_runtime.kube.events import ObjectRef
from tessera_schema.cards import Card
from tessera_schema.kube import Node
from tessera_schema.messages.device_reports import DeviceState
from tessera_schema.node_cards import NodeCardsAnnotation, decode_node_cards, encode_node_cards
from tessera_testing.clock import LoopClock
from tessera_testing.kube import FakeKube, a_store

NODE = "worker-1"
REGISTRY = load()
PATH = f"/api/v1/nodes/{NODE}"
KEY = "cards.tessera.dev/nvidia"
MONITORING = replace(nvidia.MONITORING, competing_plugins=())
SETTINGS = AgentSettings(
    node=NODE, vendor="nvidia", folder="/proc/none",
    health=HealthSettings(patience_s=15, recover_polls=3),
    inventory=InventorySettings(write_s=10, verify_s=60, publish_s=30, slots=10),
)  # fmt: skip


async def a_cluster(annotations: dict[str, str] | None = None, **status: Any) -> FakeKube:
    """An API server with the node."""
    kube = FakeKube(a_store(LoopClock()))
    node = {
        "apiVersion": "v1", "kind": "Node", "status": status,
        "metadata": {"name": NODE, "annotations": annotations or {}},
    }  # fmt: skip
    await kube.call(Verb.POST, "/api/v1/nodes", body=msgspec.json.encode(node))
    kube.calls.clear()
    return kube


async def annotation(kube: FakeKube, key: str = KEY) -> str:
    """What the node shows; empty = nothing."""
    node = msgspec.json.decode(kube.store.handle(Verb.GET, PATH).body)
    return str(node["metadata"].get("annotations", {}).get(key, ""))


async def healthy_cards(kube: FakeKube) -> dict[str, bool]:
    """Card's id -> whether the node shows it as healthy."""
    text = await annotation(kube)
    return {card.id: card.healthy for card in decode_node_cards(text).cards} if text else {}


def writes(kube: FakeKube) -> int:
    """Patches so far."""
    return sum(verb is Verb.PATCH for verb, _ in kube.calls)


async def scribble(kube: FakeKube, value: str | None, key: str = KEY) -> None:
    """Somebody else changes the annotation."""
    patch = msgspec.json.encode({"metadata": {"annotations": {key: value}}})
    kube.store.handle(Verb.PATCH, PATH, {}, patch, Body.MERGE_PATCH)


def text_of(*cards: Card) -> str:
    """The annotation that shows these cards."""
    return encode_node_cards(NodeCardsAnnotation(cards=cards))


def a_card(index: int = 0, **more: Any) -> CardReading:
    """A card as its driver shows it."""
    return replace(
        CardReading(id=f"GPU-{index}", index=index, model="NVIDIA A", memory_bytes=1 << 34), **more
    )  # fmt: skip


class Script:
    """A reader whose next answers are what a test puts here; the last one stays."""

    def __init__(self, *cards: CardReading) -> None:
        self.answer: Readings | DriverSilent = Readings(cards=cards, driver="570", session=1)
        self.polls = 0
        self.of_times = 0
        """Polls of times only."""

    def show(self, *cards: CardReading) -> None:
        """From now on these cards answer."""
        self.answer = Readings(cards=cards, driver="570", session=1)

    async def poll(self, *, times_only: bool = False) -> Readings | DriverSilent:
        """See Reader."""
        self.polls += 1
        self.of_times += times_only
        return self.answer


class FixedNode:
    """A `NodeSource` that a test fills."""

    def __init__(self, node: Node | None) -> None:
        self.node = node


class Agent:
    """The part of an agent that looks after cards."""

    def __init__(
        self, kube: FakeKube, reader: CardReader, care: MonitoringSpec, settings: AgentSettings
    ) -> None:
        self.states: list[DeviceState] = []
        self.events: list[str] = []
        """Warnings."""
        self.good: list[str] = []
        """Events of type Normal."""
        self.holdings = ContainerRegistry()
        self.settings = NodeCardSettings(
            REGISTRY, settings.node_settings, care.vendor, Path(settings.folder), self.holdings
        )
        self.inventory = CardsAnnotationWriter(kube, settings.inventory, NODE, care.vendor)
        publisher = CardsPublisher(
            care, NODE, self.inventory, self, self, again_s=settings.inventory.publish_s
        )
        self.devices = DeviceMonitor(
            reader,
            CardHealthTracker(care, settings.health, settings.inventory.slots),
            CompetingPlugins(care.competing_plugins, settings.inventory),
            publisher,
            self.settings,
            versions=settings.reader,
            poll_s=settings.health.poll_s,
            correct_s=settings.usage.correct_s,
        )

    def publish(self, state: DeviceState) -> None:
        """See `StateOutlet`."""
        self.states.append(state)

    def record(self, about: ObjectRef, reason: str, message: str, *, warning: bool = False) -> None:
        """See `EventOutlet`."""
        assert (about.kind, about.name, reason) == ("Node", NODE, "Cards")
        (self.events if warning else self.good).append(message)


@asynccontextmanager
async def running(
    kube: FakeKube,
    reader: CardReader,
    care: MonitoringSpec = MONITORING,
    settings: AgentSettings = SETTINGS,
) -> AsyncGenerator[Agent]:
    """An agent that polls and publishes until the block ends."""
    agent = Agent(kube, reader, care, settings)
    await agent.settings.load()
    watched = node_settings.watcher(kube, agent.settings, settings.node_settings, settings.kube)
    async with asyncio.TaskGroup() as group:
        tasks: list[asyncio.Task[Any]] = [
            group.create_task(agent.inventory.keep(), name="inventory"),
            group.create_task(agent.devices.watch(), name="devices"),
            group.create_task(watched.run(), name="settings of cards"),
            group.create_task(agent.settings.keep(), name="settings of cards on disk"),
        ]
        yield agent
        for task in tasks:
            task.cancel()


async def until(true: Callable[[], bool], most_s: float = 1000) -> float:
    """Seconds until something is so, looked at ten times a second."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not true():
        assert loop.time() < began + most_s
        await asyncio.sleep(0.1)
    return loop.time() - began


def cards_of(state: DeviceState) -> Sequence[tuple[str, bool]]:
    """Id and health."""
    return [(card.id, card.healthy) for card in state.cards]
