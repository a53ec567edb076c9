"""What an operator may set of plans: variables `TESSERA_PLANS_<FIELD>_<SUBFIELD>`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from tessera_core.rebalance.cluster_view import PlanRules, WorthRules
from tessera_core.rebalance.movable_pods import MoveRules
from tessera_core.rebalance.plan_budget import HOUR_S, BudgetRules
from tessera_core.rebalance.plan_gains import GainRules
from tessera_core.rebalance.proposals import EnabledPlanKinds, ProposalRules
from tessera_core.rebalance.relieve_contention import ContentionRules
from tessera_core.rebalance.resize_proposals import ResizeRules
from tessera_runtime.errors import BadSettings
from tessera_schema.plans import PlanKind

Seconds = Annotated[float, Meta(gt=0)]


class PaceSettings(Struct, frozen=True, kw_only=True):
    """How long things take, and how long is too long."""

    round_s: Seconds = 15.0
    """Seconds between two looks at who waits, what is contended, and which plans still hold."""
    look_s: Seconds = 1.0
    """Seconds between two looks at a pod that is to go."""
    again_s: Seconds = 5.0
    """Seconds until an eviction that a disruption budget forbids is asked for again; more where the
    API server says so."""
    evict_s: Seconds = 300.0
    """Seconds after which an eviction that is forbidden all the time is given up, and the plan with
    it."""
    gone_s: Seconds = 900.0
    """Seconds in which an evicted pod must have ended; its own grace is part of them."""
    reserve_s: Seconds = 600.0
    """Seconds from its start for which a plan keeps the room that it makes; the scheduler gives it
    up after 900."""
    resize_s: Seconds = 60.0
    """Seconds in which the scheduler must have answered a resize."""
    keep_s: Seconds = 86_400.0
    """Seconds after its end for which a plan is kept; budgets, cool-downs and gains are read from
    those that are kept, so at least as long as any of these."""
    install_s: Seconds = 60.0
    """Seconds between two looks for RebalancePlan's definition while it is not installed."""


class PlanSettings(Struct, frozen=True, kw_only=True):
    """What is planned, what is approved by policy, and at which pace."""

    on: bool = True
    """Off = nothing is proposed and nothing carried out; what has started waits."""
    dry_run: bool = False
    """All plans are only shown."""
    approve: tuple[PlanKind, ...] = ()
    """Kinds that are approved by policy; the others wait for a person."""
    kinds: EnabledPlanKinds = EnabledPlanKinds()
    move: MoveRules = MoveRules()
    budget: BudgetRules = BudgetRules()
    worth: WorthRules = WorthRules()
    contention: ContentionRules = ContentionRules()
    resizes: ResizeRules = ResizeRules()
    gain: GainRules = GainRules()
    pace: PaceSettings = PaceSettings()

    def check(self) -> None:
        """Raises BadSettings where numbers contradict each other."""
        read = max(HOUR_S, self.move.cool_down_s, self.gain.pause_s + self.worth.horizon_s)
        if self.pace.keep_s < read:
            raise BadSettings(
                f"plans.pace.keep_s: {self.pace.keep_s:g}: write {read:g} or more, for which "
                "budgets, cool-downs and gains are read from the plans that are kept"
            )

    @property
    def rules(self) -> ProposalRules:
        """The rules as `tessera_core.rebalance.proposals` takes them."""
        return ProposalRules(
            plan=PlanRules(move=self.move, budget=self.budget, worth=self.worth),
            contention=self.contention, resizes=self.resizes, gain=self.gain, kinds=self.kinds,
        )  # fmt: skip
