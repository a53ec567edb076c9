"""What an operator may set of the rebalancer: variables `TESSERA_<FIELD>_<SUBFIELD>`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from tessera_core.usage.hints import SignificantChanges
from tessera_core.usage.lending_bounds import LendingRules
from tessera_core.usage.smoothed import SmoothingConstants
from tessera_rebalancer.plan_settings import PlanSettings
from tessera_runtime.errors import BadSettings
from tessera_runtime.informers.grant_keys import GrantKeySettings
from tessera_runtime.service_settings import ServiceSettings

Seconds = Annotated[float, Meta(gt=0)]


class HintPublisherSettings(Struct, frozen=True, kw_only=True):
    """How often hints are published. A hint says that a card is contended within five seconds of
    the message that shows it."""

    look_s: Seconds = 1.0
    """Seconds between two looks at what was measured."""
    least_s: Seconds = 2.0
    """Seconds between two messages about one node, whatever changes."""
    again_s: Seconds = 30.0
    """Seconds after which hints are published again unchanged, so that they do not count as old:
    the scheduler drops them after 90."""


class GrantCountSettings(Struct, frozen=True, kw_only=True):
    """Which grants hints and plans count."""

    migration: bool = False
    """Count what HAMi, Volcano, Koordinator and GPU Manager wrote on running pods, as the scheduler
    does with the same setting."""


class RebalancerSettings(ServiceSettings, frozen=True, kw_only=True):
    """All settings of the rebalancer."""

    instance: str = "rebalancer"
    """This process's name in messages."""
    keys: GrantKeySettings = GrantKeySettings()
    count: GrantCountSettings = GrantCountSettings()
    smoothing: SmoothingConstants = SmoothingConstants()
    hints: HintPublisherSettings = HintPublisherSettings()
    steps: SignificantChanges = SignificantChanges()
    lending: LendingRules = LendingRules()
    plans: PlanSettings = PlanSettings()

    def check(self) -> None:
        """Raises BadSettings where numbers contradict each other."""
        lending = self.lending
        if lending.resume_percent > lending.stop_percent:
            raise BadSettings(
                f"lending.resume_percent: {lending.resume_percent:g}: write no more than "
                f"lending.stop_percent ({lending.stop_percent:g}), or lending never stops"
            )
