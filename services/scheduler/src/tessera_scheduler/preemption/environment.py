"""What preemption stands on."""

from __future__ import annotations

from msgspec import Struct

from tessera_core.registry.registry import DialectRegistry
from tessera_runtime.clock import Clock
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.events import EventRecorder
from tessera_runtime.kube.settings import KubeSettings
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_scheduler.events import SchedulerPlanEvents
from tessera_scheduler.leadership.leader import Leadership
from tessera_scheduler.preemption.settings import PreemptionSettings


class PreemptionEnvironment(Struct, frozen=True, kw_only=True):
    """The API server, the clocks, and how they are used."""

    kube: Kube
    calls: KubeSettings
    registry: DialectRegistry
    recorder: EventRecorder
    clock: Clock
    monotonic_clock: MonotonicClock
    settings: PreemptionSettings
    leadership: Leadership
    plan_events: SchedulerPlanEvents
