"""What an operator may set of the rebalancer: variables `TESSERA_<FIELD>_<SUBFIELD>`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from tessera_core.usage.hints import SignificantChanges
from tessera_core.usage.lending_bounds import LendingRules
from tessera_core.usage.smoothed import SmoothingConstants
from tessera_rebalancer.plans.settings import PlanSettings
from tessera_runtime.bus.outbox import OutboxSettings
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.dialect_config import DialectsSettings
from tessera_runtime.errors import BadSettings
from tessera_runtime.http.server import HttpSettings
from tessera_runtime.informers.grant_keys import GrantKeySettings
from tessera_runtime.kube.settings import EventSettings, KubeSettings
from tessera_runtime.service import ProcessSettings
from tessera_runtime.tracing.tracing import TelemetrySettings

Seconds = Annotated[float, Meta(gt=0)]


class HintPublisherSettings(Struct, frozen=True, kw_only=True):
    """How often hints are told. A card that becomes contended is told of within five seconds of the
    message that shows it."""

    look_s: Seconds = 1.0
    """Seconds between two looks at what was measured."""
    least_s: Seconds = 2.0
    """Seconds between two messages about one node, whatever changes."""
    again_s: Seconds = 30.0
    """Seconds after which hints are told again unchanged, so that they are not taken for old: the
    scheduler lets go of them after 90."""


class GrantCountSettings(Struct, frozen=True, kw_only=True):
    """What is counted as held."""

    migration: bool = False
    """Count what HAMi, Volcano, Koordinator and GPU Manager wrote on running pods, as the scheduler
    does with the same setting."""


class RebalancerSettings(Struct, frozen=True, kw_only=True):
    """Everything."""

    instance: str = "rebalancer"
    """This process's name in messages."""
    process: ProcessSettings = ProcessSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    dialects: DialectsSettings = DialectsSettings()
    kube: KubeSettings = KubeSettings()
    bus: BusSettings = BusSettings(arrange=False)
    outbox: OutboxSettings = OutboxSettings()
    keys: GrantKeySettings = GrantKeySettings()
    count: GrantCountSettings = GrantCountSettings()
    smoothing: SmoothingConstants = SmoothingConstants()
    hints: HintPublisherSettings = HintPublisherSettings()
    steps: SignificantChanges = SignificantChanges()
    lending: LendingRules = LendingRules()
    plans: PlanSettings = PlanSettings()
    events: EventSettings = EventSettings()
    http: HttpSettings = HttpSettings(port=8080)
    """Health and metrics."""

    def check(self) -> None:
        """Raises BadSettings where numbers contradict each other."""
        lending = self.lending
        if lending.resume_percent > lending.stop_percent:
            raise BadSettings(
                f"lending.resume_percent: {lending.resume_percent:g}: write no more than "
                f"lending.stop_percent ({lending.stop_percent:g}), or lending never stops"
            )
