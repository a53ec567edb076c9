"""A whole agent in one event loop: cards, the runtime's plugin, measuring, and what they tell.

    async with open_agent(world) as agent:
        ...

Its only sockets are the runtime's and those of the reader; `tessera_agent.main` serves the rest.
Without the API server and without the bus the runtime is answered all the same.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from tessera_agent import advertising, measuring, plugin, pods
from tessera_agent import keys as published
from tessera_agent.advertising import Advertising
from tessera_agent.bounds import Bounds
from tessera_agent.devices import Devices
from tessera_agent.devices import Outlets as DeviceOutlets
from tessera_agent.files import HookFiles
from tessera_agent.hamicore import Regions
from tessera_agent.holdings import Holdings
from tessera_agent.inventory import Inventory
from tessera_agent.judge import Judge, Knowledge
from tessera_agent.keys import Keys
from tessera_agent.lending import Lending
from tessera_agent.lending import Tools as LendingTools
from tessera_agent.measuring import Measuring
from tessera_agent.metrics import AgentMetrics
from tessera_agent.pids import ProcOwners
from tessera_agent.plugin import CardsPlugin
from tessera_agent.pods import NodePods
from tessera_agent.readers import Reader, open_reader
from tessera_agent.readers import World as ReaderWorld
from tessera_agent.resizing import Resizing
from tessera_agent.resizing import Tools as ResizingTools
from tessera_agent.settings import AgentSettings
from tessera_agent.telling import Outlets, States, Teller
from tessera_agent.throttling import Throttling
from tessera_agent.usage import Sampler
from tessera_core.advertised import names_of
from tessera_core.care import Care
from tessera_core.registry import Registry as Dialects
from tessera_kubelet.nri.plugin import Connected, Disconnected, serve
from tessera_kubelet.nri.settings import NriSettings
from tessera_kubelet.tasks import open_tasks
from tessera_runtime import logs
from tessera_runtime.bus.api import Bus
from tessera_runtime.bus.outbox import open_outbox
from tessera_runtime.clock import Clock
from tessera_runtime.errors import BadSettings
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.events import About, Events, open_events
from tessera_runtime.metrics import Registry
from tessera_schema.cards import Card

_log: Final = logs.named("tessera.agent")


class World(Struct, frozen=True, kw_only=True):
    """What an agent stands in."""

    kube: Kube
    bus: Bus
    settings: AgentSettings
    clock: Clock
    dialects: Dialects
    reader: Reader | None = None
    """None = the vendor's own."""


class Agent:
    """The parts that others may want to see."""

    def __init__(self, world: World, reader: Reader, inventory: Inventory, telling: _Telling):
        """Use `open_agent`."""
        settings, vendor = world.settings, world.dialects.vendors[world.settings.vendor]
        self.metrics = telling.metrics
        self.holdings = Holdings()
        states = States(
            telling.outlets.outbox, settings.node, settings.vendor, self.holdings.by_card
        )
        self.keys = Keys(Path(settings.folder))
        self.pods = NodePods()
        self.devices = Devices(
            reader, _care(vendor.name), settings, telling.of_devices(inventory, states)
        )
        files = HookFiles(Path(settings.folder), world.clock)
        judge = Judge(
            Knowledge(
                node=settings.node, vendor=vendor, vendors=world.dialects.vendors,
                keys=self.keys, pods=self.pods, holdings=self.holdings, cards=self.cards,
            )
        )  # fmt: skip
        regions = Regions()
        self.plugin = CardsPlugin(
            plugin.Tools(
                vendor=vendor, judge=judge, dialects=world.dialects.readers,
                holdings=self.holdings, files=files,
                teller=telling.teller, now=asyncio.get_running_loop().time,
                regioned=regions.running,
                left_alone=lambda: self.devices.left_to_others,
                exempt_namespaces=frozenset(settings.nri.exempt_namespaces),
            )
        )  # fmt: skip
        owners = ProcOwners(settings.usage.proc_folder, self.holdings.roots)
        self.measuring = Measuring(
            measuring.Tools(
                settings=settings, clock=world.clock, holdings=self.holdings, pods=self.pods,
                devices=self.devices, inventory=inventory, files=files, plugin=self.plugin,
                sampler=Sampler(settings.node, vendor.name, settings.usage, owners),
                teller=telling.teller, states=states, regions=regions,
                metrics=AgentMetrics(telling.metrics, settings.node),
            )
        )  # fmt: skip
        self.throttling = Throttling(
            vendor.name, self.pods.grants, valid_s=settings.resize.throttle_s,
            now=asyncio.get_running_loop().time(),
        )  # fmt: skip
        self.bounds = Bounds(world.clock, valid_s=settings.lending.bounds_s)
        self.lending = Lending(
            LendingTools(
                settings=settings.lending, clock=world.clock, holdings=self.holdings,
                pods=self.pods, bounds=self.bounds, throttling=self.throttling,
                metrics=telling.metrics,
            )
        )  # fmt: skip
        self.resizing = Resizing(
            ResizingTools(
                holdings=self.holdings, pods=self.pods, judge=judge, files=files,
                throttling=self.throttling, clock=world.clock, cards=self.cards,
                look_s=settings.resize.look_s, patience_s=settings.resize.patience_s,
            )
        )  # fmt: skip
        self.runtime: Connected | Disconnected = Disconnected(why="not tried yet")
        """The container runtime, as last seen."""

    def cards(self) -> Mapping[str, Card] | None:
        """The node's cards by id; None before the driver has answered."""
        seen = self.devices.seen
        return {card.id: card for card in seen.cards} if seen.complete else None

    def problem(self) -> str:
        """Why containers cannot get cards now; empty when they can."""
        if isinstance(self.runtime, Disconnected) and self.plugin.hooks:
            return f"the container runtime does not ask: {self.runtime.why}"
        if self.keys.verifier is None:
            return "the scheduler's public keys have not been read yet"
        if not self.devices.seen.complete:
            return "; ".join(self.devices.seen.problems) or "the cards have not been seen yet"
        return ""

    def observe(self, now: Connected | Disconnected) -> None:
        """The runtime is there, or is not."""
        self.runtime = now
        match now:
            case Connected():
                _log.info("runtime connected", runtime=now.runtime, version=now.version)
            case Disconnected():
                _log.warning("runtime disconnected", why=now.why)


class _Telling:
    """Where everything goes that is told."""

    def __init__(self, settings: AgentSettings, events: Events, outlets: Outlets) -> None:
        self.metrics = Registry("agent")
        self.teller = Teller(outlets, self.metrics)
        self.outlets = outlets
        self._events = events
        self._node = About("Node", settings.node, uid=settings.node)

    def of_devices(self, inventory: Inventory, states: States) -> DeviceOutlets:
        return DeviceOutlets(
            inventory=inventory, tell=states.tell,
            tell_event=lambda sentence: self._events.tell(self._node, "Cards", sentence),
        )  # fmt: skip


@asynccontextmanager
async def open_agent(world: World) -> AsyncGenerator[Agent]:
    """An agent that looks after its node's cards until left. Raises BadSettings."""
    settings = world.settings
    if settings.vendor not in world.dialects.vendors:
        known = ", ".join(sorted(world.dialects.vendors))
        raise BadSettings(f"vendor: {settings.vendor!r}: write one of {known}")
    inventory = Inventory(world.kube, settings.inventory, settings.node, settings.vendor)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        instance = f"{settings.node}.{settings.vendor}"
        outbox = await enter(
            open_outbox(world.bus, world.clock, "agent", instance, settings=settings.outbox)
        )
        events = await enter(
            open_events(
                world.kube, settings.events, component="tessera-agent", clock=world.clock,
                node=settings.node,
            )
        )  # fmt: skip
        reader = world.reader
        if reader is None:
            around = ReaderWorld(
                node=lambda: inventory.node, registry=world.dialects, clock=world.clock
            )
            reader = await enter(open_reader(settings.vendor, settings.reader, around))
        outlets = Outlets(
            outbox=outbox, events=events, cluster=settings.bus.cluster, node=settings.node,
            vendor=settings.vendor, now=asyncio.get_running_loop().time,
        )  # fmt: skip
        agent = Agent(world, reader, inventory, _Telling(settings, events, outlets))
        await agent.keys.load()
        await agent.devices.look()
        tasks = await enter(open_tasks())
        _begin(tasks, agent, world, inventory)
        yield agent


def _begin(tasks: asyncio.TaskGroup, agent: Agent, world: World, inventory: Inventory) -> None:
    settings = world.settings
    key_watcher = published.watcher(world.kube, agent.keys, settings.keys.namespace, settings.kube)
    pod_watcher = pods.watcher(world.kube, agent.pods, settings.node, settings.kube)
    nri = settings.nri
    name = nri.name or ("tessera" if agent.plugin.hooks else f"tessera-{settings.vendor}")
    plugin_settings = NriSettings(name=name, index=nri.index)
    advertised = Advertising(
        world.kube, settings.inventory,
        advertising.About(
            node=settings.node, names=names_of(world.dialects, settings.vendor),
            shown=lambda: inventory.node, has_cards=lambda: bool(agent.devices.seen.cards),
            left_to_others=lambda: agent.devices.left_to_others,
        ),
    )  # fmt: skip
    for what, work in {
        "inventory": inventory.keep(),
        "advertising": advertised.keep(),
        "devices": agent.devices.watch(),
        "grant keys": key_watcher.run(),
        "grant keys on disk": agent.keys.keep(),
        "pod watcher": pod_watcher.run(),
        "pods that are gone": agent.measuring.follow_pods(),
        "measuring": agent.measuring.run(),
        "resizing": agent.resizing.run(),
        "news of quotas": agent.throttling.follow(world.bus, settings.bus.cluster),
        "lending": agent.lending.run(),
        "bounds of lending": agent.bounds.follow(world.bus, settings.node),
        "runtime": serve(nri.socket, agent.plugin, plugin_settings, agent.observe),
    }.items():
        tasks.create_task(work, name=what)


def _care(vendor: str) -> Care:
    care: Care = importlib.import_module(f"tessera_core.vendors.{vendor}").CARE
    return care
