"""The parts of an agent, composed: cards, admission, the runtime's plugin, measuring, lending.

`tessera_agent.startup` opens what they stand on, and starts their tasks.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Protocol

from tessera_agent.admission.admission import ContainerAdmitter
from tessera_agent.admission.device_check import DeviceCheck
from tessera_agent.admission.later_grants import LaterGrants
from tessera_agent.admission.log_levels import LogLevelReconciler
from tessera_agent.admission.prepare import ContainerPreparer
from tessera_agent.admission.resize import LimitsReconciler
from tessera_agent.api.grant_keys import StoredGrantKeys
from tessera_agent.api.pods import NodePods
from tessera_agent.containers.closed_cards import ClosedCards
from tessera_agent.containers.holdings import ContainerRegistry
from tessera_agent.containers.hook_files import HookFiles
from tessera_agent.containers.limits import LimitsCalculator
from tessera_agent.containers.mounts import ProcMounts
from tessera_agent.containers.namespace_allowances import LabelledNamespaces, NamespaceAllowances
from tessera_agent.delivery.injector import DeviceInjector
from tessera_agent.delivery.toolkit import ToolkitGate
from tessera_agent.devices.cards import CardHealthTracker
from tessera_agent.devices.cards_publisher import CardsPublisher
from tessera_agent.devices.competing_plugins import CompetingPlugins
from tessera_agent.devices.monitor import DeviceMonitor
from tessera_agent.devices.node_annotation import CardsAnnotationWriter
from tessera_agent.devices.node_settings import NodeCardSettings
from tessera_agent.events import DeviceStatePublisher, EventPublisher
from tessera_agent.lending.bounds import LendingBounds
from tessera_agent.lending.lending import LendingLoop
from tessera_agent.lending.members import LendingMembers
from tessera_agent.lending.throttle import ThrottledNamespaces
from tessera_agent.metrics import AgentMetrics
from tessera_agent.nri_plugin.creation import CreationHandler
from tessera_agent.nri_plugin.delivery import RuntimeDelivery
from tessera_agent.nri_plugin.hidden_cards import HiddenCards
from tessera_agent.nri_plugin.plugin import CardsPlugin
from tessera_agent.readers import CardReader
from tessera_agent.reclaim.container_processes import ContainerProcesses
from tessera_agent.reclaim.reclaim import ReclaimLoop
from tessera_agent.settings import AgentSettings
from tessera_agent.usage.file_cleanup import FileCleanup
from tessera_agent.usage.hami_core import Regions
from tessera_agent.usage.limit_correction import CorrectionLoop, LimitCorrections
from tessera_agent.usage.measurement import MeasurementLoop, UsageMeasurement
from tessera_agent.usage.occupied_shares import OccupiedShares
from tessera_agent.usage.process_owners import ProcOwners
from tessera_agent.usage.sampler import Sampler
from tessera_agent.usage.usage_alerts import UsageAlerts
from tessera_core.dialect_kit.monitoring import MonitoringSpec
from tessera_core.node.usage_digests import NodeUsageDigests
from tessera_runtime.bus.outbox import Outbox
from tessera_runtime.kube.events import EventRecorder
from tessera_runtime.metrics import MetricsRegistry
from tessera_runtime.service import ServiceEnvironment


class DeliveryPath(Protocol):
    """How containers get the vendor's cards: the runtime asks, or kubelet."""

    @property
    def names(self) -> frozenset[str]:
        """The resources that kubelet allocates."""
        ...

    def problem(self) -> str:
        """Why containers cannot get cards now; empty when they can."""
        ...

    def work(self) -> Mapping[str, Callable[[], Coroutine[Any, Any, Any]]]:
        """What runs for as long as the agent does, by the name of its task."""
        ...


class Agent:
    """One vendor's agent on one node; its parts are public."""

    def __init__(
        self,
        environment: ServiceEnvironment[AgentSettings],
        reader: CardReader,
        annotation: CardsAnnotationWriter,
        outbox: Outbox,
        events: EventRecorder,
        injector: DeviceInjector,
        toolkit: ToolkitGate,
    ) -> None:
        """Use `open_agent`."""
        settings, clock = environment.settings, environment.clock
        self.settings = settings
        self.vendor = vendor = environment.registry.vendors[settings.vendor]
        self.metrics = MetricsRegistry("agent")
        self.publisher = EventPublisher(
            outbox, events, self.metrics, NodeUsageDigests(settings.usage.publish_s),
            cluster=settings.bus.cluster, node=settings.node,
        )  # fmt: skip
        self.holdings = ContainerRegistry()
        self.keys = StoredGrantKeys(Path(settings.folder))
        self.pods = NodePods()
        self.injector = injector
        self.toolkit = toolkit
        self.files = HookFiles(Path(settings.folder), clock)

        # 1. The node's cards.
        self.card_settings = NodeCardSettings(
            environment.registry, settings.node_settings, settings.vendor, Path(settings.folder),
            self.holdings,
        )  # fmt: skip
        states = DeviceStatePublisher(outbox, settings.node, settings.vendor, self.holdings.by_card)
        self.devices = self._monitor(reader, annotation, states, events)

        # 2. Whether a container gets them, and what it gets.
        self.labelled = LabelledNamespaces()
        allowances = NamespaceAllowances(self.holdings, self.labelled)
        closed = ClosedCards(reclaims=settings.reclaim.enabled)
        self.admitter = ContainerAdmitter(
            settings.node, vendor, environment.registry.vendors, keys=self.keys, pods=self.pods,
            holdings=self.holdings, devices=self.devices, closed=closed,
        )  # fmt: skip
        limits = LimitsCalculator(environment.registry.readers, allowances, self.card_settings)
        self.preparer = ContainerPreparer(
            vendor, self.admitter, limits, self.holdings, self.files, self.publisher,
            settings.giving,
        )  # fmt: skip
        self.device_check = DeviceCheck(vendor, self.devices, self.publisher)
        regions = Regions()
        self.plugin = self._plugin(regions)
        self.delivery: DeliveryPath = RuntimeDelivery(
            vendor, self.plugin, self.keys, settings.nri, keys_wait_s=settings.keys.wait_s
        )
        """Kubelet's takes its place where kubelet gives the cards."""

        # 3. What containers use.
        sampler = Sampler(
            settings.node, vendor.name, settings.usage,
            ProcOwners(settings.usage.proc_folder, self.holdings.roots),
            ProcMounts(settings.usage.proc_folder),
        )  # fmt: skip
        self.figures = AgentMetrics(self.metrics, settings.node)
        self.occupied = OccupiedShares(self.holdings, self.pods, states)
        self.measurement = MeasurementLoop(
            UsageMeasurement(
                sampler, regions, self.holdings, self.devices, annotation, closed, clock
            ),
            self.publisher,
            UsageAlerts(self.holdings, self.pods, self.publisher),
            self.occupied,
            FileCleanup(
                self.holdings, self.pods, self.files, hooked=vendor.hooked,
                keep_s=settings.nri.keep_files_s,
            ),
            self.figures,
            interval_s=settings.usage.interval_s,
        )  # fmt: skip
        self.corrections = CorrectionLoop(
            self.holdings, self.devices, LimitCorrections(sampler.owners, clock),
            interval_s=settings.usage.interval_s,
        )  # fmt: skip

        # 4. What running containers may use: later grants, quotas, loans.
        now = asyncio.get_running_loop().time()
        self.throttled = ThrottledNamespaces(
            vendor.name, self.pods.grants, valid_s=settings.resize.throttle_s, now=now
        )
        self.limits = LimitsReconciler(
            settings.resize,
            LaterGrants(self.pods, self.admitter, self.holdings, self.files),
            self.holdings, self.devices, self.throttled, allowances, clock,
        )  # fmt: skip
        self.log_levels = LogLevelReconciler(self.card_settings, self.holdings)
        self.bounds = LendingBounds(clock, valid_s=settings.lending.bounds_s)
        members = LendingMembers(
            self.pods, self.bounds, self.throttled, allowances, sampler.evidence,
            most_percent=settings.lending.most_percent,
        )  # fmt: skip
        self.lending = LendingLoop(settings.lending, self.holdings, members, clock, self.metrics)
        self.reclaim = ReclaimLoop(
            settings.reclaim, self.holdings, closed,
            ContainerProcesses(settings.usage.proc_folder, sampler.owners), self.publisher, clock,
            self.metrics,
        )  # fmt: skip

    def problem(self) -> str:
        """Why containers cannot get cards now; empty when they can."""
        if problem := self.toolkit.problem() or self.delivery.problem():
            return problem
        if not self.keys.known.is_set():
            return "the scheduler's public keys have not been read yet"
        latest = self.devices.latest
        if not latest.complete:
            return "; ".join(latest.problems) or latest.silent or "the cards have not been seen yet"
        return ""

    def _monitor(
        self, reader: CardReader, annotation: CardsAnnotationWriter, states: DeviceStatePublisher,
        events: EventRecorder,
    ) -> DeviceMonitor:  # fmt: skip
        settings, spec = self.settings, _monitoring_spec(self.vendor.name)
        return DeviceMonitor(
            reader,
            CardHealthTracker(spec, settings.health, settings.inventory.slots),
            CompetingPlugins(spec.competing_plugins, settings.inventory),
            CardsPublisher(
                spec,
                settings.node,
                annotation,
                states,
                events,
                again_s=settings.inventory.publish_s,
            ),
            self.card_settings,
            versions=settings.reader,
            poll_s=settings.health.poll_s,
            correct_s=settings.usage.correct_s,
        )  # fmt: skip

    def _plugin(self, regions: Regions) -> CardsPlugin:
        hidden = HiddenCards(self.vendor, self.devices, self.settings.nri.exempt_namespaces)
        creation = CreationHandler(
            self.vendor, self.admitter, self.preparer, self.device_check, hidden, self.injector
        )
        return CardsPlugin(
            creation, self.preparer, self.holdings, device_check=self.device_check, hidden=hidden,
            regions=regions.running, publisher=self.publisher,
        )  # fmt: skip


def _monitoring_spec(vendor: str) -> MonitoringSpec:
    spec: MonitoringSpec = importlib.import_module(f"tessera_core.vendors.{vendor}").MONITORING
    return spec
