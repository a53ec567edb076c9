"""A whole agent in one event loop: cards, the runtime's plugin, measuring, and what they tell.

    async with open_agent(world) as agent:
        ...

Its only sockets are the runtime's, or kubelet's, and those of the reader; `tessera_agent.main`
serves the rest. Without the API server and without the bus the runtime is answered all the same.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from tessera_agent import nri_plugin
from tessera_agent.admission import prepare
from tessera_agent.admission.admission import AdmissionDependencies, ContainerAdmitter
from tessera_agent.admission.device_check import DeviceCheck
from tessera_agent.admission.prepare import ContainerPreparer
from tessera_agent.admission.resize import LimitsDependencies as ResizingTools
from tessera_agent.admission.resize import LimitsReconciler
from tessera_agent.api.grant_keys import StoredGrantKeys
from tessera_agent.api.pods import NodePods
from tessera_agent.containers.holdings import ContainerRegistry
from tessera_agent.containers.hook_files import HookFiles
from tessera_agent.containers.mounts import ProcMounts
from tessera_agent.containers.namespace_allowances import LabelledNamespaces, Reach
from tessera_agent.devices.message_key import a_speaker
from tessera_agent.devices.monitor import DeviceMonitor, DeviceOutlets
from tessera_agent.devices.node_annotation import CardsAnnotationWriter
from tessera_agent.events import DeviceStatePublisher, EventOutlets, EventPublisher
from tessera_agent.lending.bounds import LendingBounds
from tessera_agent.lending.lending import LendingDependencies as LendingTools
from tessera_agent.lending.lending import LendingLoop
from tessera_agent.lending.throttle import ThrottledNamespaces
from tessera_agent.metrics import AgentMetrics
from tessera_agent.nri_plugin import CardsPlugin
from tessera_agent.readers import CardReader, open_reader
from tessera_agent.readers import ReaderEnvironment as ReaderWorld
from tessera_agent.readers.device_handover import device_handover_by
from tessera_agent.settings import AgentSettings
from tessera_agent.tasks import begin
from tessera_agent.usage import measurement
from tessera_agent.usage.hami_core import Regions
from tessera_agent.usage.measurement import UsageMeasurement
from tessera_agent.usage.process_owners import ProcOwners
from tessera_agent.usage.sampler import Sampler
from tessera_core.dialect_kit.monitoring import MonitoringSpec
from tessera_kubelet.background import open_tasks
from tessera_kubelet.nri.plugin import Connected, Disconnected
from tessera_runtime import logs
from tessera_runtime.bus.outbox import open_outbox
from tessera_runtime.errors import BadSettings
from tessera_runtime.kube.events import EventRecorder, ObjectRef, open_events
from tessera_runtime.metrics import MetricsRegistry
from tessera_runtime.service import ServiceEnvironment
from tessera_schema.cards import Card
from tessera_schema.node_cards import ALLOCATE

if TYPE_CHECKING:
    from tessera_agent.device_plugin.device_plugin import KubeletDelivery

_log: Final = logs.named("tessera.agent")


class Agent:
    """The parts that others may want to see."""

    def __init__(
        self,
        world: ServiceEnvironment[AgentSettings],
        reader: CardReader,
        inventory: CardsAnnotationWriter,
        telling: _Telling,
    ):
        """Use `open_agent`."""
        settings, vendor = world.settings, world.registry.vendors[world.settings.vendor]
        self.metrics = telling.metrics
        self.holdings = ContainerRegistry()
        states = DeviceStatePublisher(
            telling.outlets.outbox, settings.node, settings.vendor, self.holdings.by_card
        )
        self.keys = StoredGrantKeys(Path(settings.folder))
        self.pods = NodePods()
        self.devices = DeviceMonitor(
            reader, _care(vendor.name), settings, telling.of_devices(inventory, states)
        )
        self.files = files = HookFiles(Path(settings.folder), world.clock)
        self.judge = judge = ContainerAdmitter(
            AdmissionDependencies(
                node=settings.node,
                vendor=vendor,
                vendors=world.registry.vendors,
                keys=self.keys,
                pods=self.pods,
                holdings=self.holdings,
                cards=self.cards,
            )
        )
        self.labelled = LabelledNamespaces()
        reach = Reach(self.holdings, self.labelled)
        regions = Regions()
        self.preparing = ContainerPreparer(
            prepare.PreparerDependencies(
                vendor=vendor, judge=judge, dialects=world.registry.readers,
                holdings=self.holdings, files=files, reach=reach, teller=telling.teller,
                now=asyncio.get_running_loop().time,
                stands=prepare.STANDS[settings.giving],
            )
        )  # fmt: skip
        self.disagreeing = DeviceCheck(vendor, self.cards, telling.teller)
        self.plugin = CardsPlugin(
            nri_plugin.NriPluginDependencies(
                vendor=vendor, judge=judge, dialects=world.registry.readers,
                holdings=self.holdings, preparing=self.preparing,
                disagreeing=self.disagreeing,
                teller=telling.teller, now=asyncio.get_running_loop().time,
                regioned=regions.running,
                left_alone=lambda: self.devices.left_to_others,
                exempt_namespaces=frozenset(settings.nri.exempt_namespaces),
            )
        )  # fmt: skip
        self.kubelet: KubeletDelivery | None = None
        """Where kubelet gives the cards, and not the runtime."""
        owners = ProcOwners(settings.usage.proc_folder, self.holdings.roots)
        mounts = ProcMounts(settings.usage.proc_folder)
        sampler = Sampler(settings.node, vendor.name, settings.usage, owners, mounts)
        self.measuring = UsageMeasurement(
            measurement.MeasurementDependencies(
                settings=settings, clock=world.clock, holdings=self.holdings, pods=self.pods,
                devices=self.devices, inventory=inventory, files=files, hooks=self.plugin.hooks,
                synchronized=self._synchronized,
                sampler=sampler,
                teller=telling.teller, states=states, regions=regions,
                metrics=AgentMetrics(telling.metrics, settings.node),
            )
        )  # fmt: skip
        self.throttling = ThrottledNamespaces(
            vendor.name, self.pods.grants, valid_s=settings.resize.throttle_s,
            now=asyncio.get_running_loop().time(),
        )  # fmt: skip
        self.bounds = LendingBounds(world.clock, valid_s=settings.lending.bounds_s)
        self.lending = LendingLoop(
            LendingTools(
                settings=settings.lending, clock=world.clock, holdings=self.holdings,
                pods=self.pods, bounds=self.bounds, throttling=self.throttling, reach=reach,
                evidence=sampler.evidence, metrics=telling.metrics,
            )
        )  # fmt: skip
        self.resizing = LimitsReconciler(
            ResizingTools(
                holdings=self.holdings, pods=self.pods, judge=judge, files=files,
                throttling=self.throttling, reach=reach, clock=world.clock, cards=self.cards,
                look_s=settings.resize.look_s, patience_s=settings.resize.patience_s,
            )
        )  # fmt: skip
        self.runtime: Connected | Disconnected = Disconnected(why="not tried yet")
        """The container runtime, as last seen."""

    def cards(self) -> Mapping[str, Card] | None:
        """The node's cards by id; None before the driver has answered."""
        seen = self.devices.seen
        return {card.id: card for card in seen.cards} if seen.complete else None

    def _synchronized(self) -> int:
        return (self.kubelet.lives if self.kubelet else self.plugin).synchronized

    def problem(self) -> str:
        """Why containers cannot get cards now; empty when they can."""
        if self.kubelet is not None:
            if problem := self.kubelet.problem():
                return problem
        elif isinstance(self.runtime, Disconnected) and self.plugin.hooks:
            return f"the container runtime does not ask: {self.runtime.why}"
        if self.keys.verifier is None:
            return "the scheduler's public keys have not been read yet"
        if not self.devices.seen.complete:
            seen = self.devices.seen
            return "; ".join(seen.problems) or seen.silent or "the cards have not been seen yet"
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

    def __init__(
        self, settings: AgentSettings, events: EventRecorder, outlets: EventOutlets
    ) -> None:
        self.metrics = MetricsRegistry("agent")
        self.teller = EventPublisher(outlets, self.metrics)
        self.outlets = outlets
        self._events = events
        self._node = ObjectRef("Node", settings.node, uid=settings.node)

    def of_devices(
        self, inventory: CardsAnnotationWriter, states: DeviceStatePublisher
    ) -> DeviceOutlets:
        return DeviceOutlets(
            inventory=inventory,
            tell=states.publish,
            tell_event=lambda sentence: self._events.record(self._node, "Cards", sentence),
            tell_problem=lambda words: self._events.record(
                self._node, "Cards", words, warning=True
            ),
        )


@asynccontextmanager
async def open_agent(
    world: ServiceEnvironment[AgentSettings], reader: CardReader | None = None
) -> AsyncGenerator[Agent]:
    """An agent that looks after its node's cards until left; `reader` None = the vendor's own.
    Raises BadSettings."""
    settings = world.settings
    if settings.vendor not in world.registry.vendors:
        known = ", ".join(sorted(world.registry.vendors))
        raise BadSettings(f"vendor: {settings.vendor!r}: write one of {known}")
    by_kubelet = device_handover_by(settings)
    speaker = await a_speaker(Path(settings.folder), settings.vendor)
    inventory = CardsAnnotationWriter(
        world.kube,
        settings.inventory,
        settings.node,
        settings.vendor,
        UNSET if by_kubelet is None else ALLOCATE,
        speaker.public,
    )
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        instance = f"{settings.node}.{settings.vendor}"
        outbox = await enter(
            open_outbox(
                world.bus,
                world.clock,
                "agent",
                instance,
                settings=settings.outbox,
                sign=speaker.sign,
            )
        )
        events = await enter(
            open_events(
                world.kube, settings.events, component="tessera-agent", clock=world.clock,
                node=settings.node,
            )
        )  # fmt: skip
        if reader is None:
            around = ReaderWorld(
                node=lambda: inventory.node, registry=world.registry, clock=world.clock
            )
            reader = await enter(open_reader(settings.vendor, settings.reader, around))
        outlets = EventOutlets(
            outbox=outbox, events=events, cluster=settings.bus.cluster, node=settings.node,
            vendor=settings.vendor, now=asyncio.get_running_loop().time,
        )  # fmt: skip
        telling = _Telling(settings, events, outlets)
        agent = Agent(world, reader, inventory, telling)
        await agent.keys.load()
        await agent.devices.poll()
        if by_kubelet is not None:
            from tessera_agent.device_plugin import (
                device_plugin,  # it brings gRPC, which others do without
            )

            tools = device_plugin.DevicePluginDependencies(
                settings=settings, dialects=world.registry, kube=world.kube, clock=world.clock,
                judge=agent.judge, preparing=agent.preparing, holdings=agent.holdings,
                pods=agent.pods, files=agent.files, teller=telling.teller, cards=agent.cards,
                devices=agent.devices, handing=by_kubelet,
            )  # fmt: skip
            agent.kubelet = await enter(device_plugin.open_kubelet_delivery(tools))
        tasks = await enter(open_tasks())
        begin(tasks, agent, world, inventory)
        yield agent


def _care(vendor: str) -> MonitoringSpec:
    care: MonitoringSpec = importlib.import_module(f"tessera_core.vendors.{vendor}").MONITORING
    return care
