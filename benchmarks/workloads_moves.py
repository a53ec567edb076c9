"""Moves as the rebalancer proposes them: the real proposals and their budget, approved at once.

Every `PLAN_S` a round; what it proposes is carried out in the same moment. For a pod that waits
room is held by placing it before all others. How much of the expected gain came is measured as the
service does, so that plans stop by themselves when they bring too little. Resizes are not proposed:
what they would change is what lending changes. Every pod has a controller of its own that makes it
again, a ReplicaSet unless `workloads_owners` says which; notebooks say that they do not want to be
moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from benchmarks.workloads_cluster import EPOCH_S, Run
from benchmarks.workloads_hints import Hints
from benchmarks.workloads_memory import has_no_grant
from benchmarks.workloads_simulation import Simulation
from tessera_core.fleet.arrays import Floats
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_core.rebalance import plan_gains
from tessera_core.rebalance.cluster_view import ClusterView, WaitingPod, by_node
from tessera_core.rebalance.joint_fit import parts_of
from tessera_core.rebalance.movable_pods import RunningPod
from tessera_core.rebalance.plan_budget import Former, spent
from tessera_core.rebalance.proposals import EnabledPlanKinds, ProposalRules, propose
from tessera_schema.kube import Node, ObjectMeta
from tessera_schema.messages.hints import CardHint
from tessera_schema.plans import PlanKind, PlanPhase, PlanSpec, PlanStatus

PLAN_S: Final = 1800.0
A_ROUND: Final = 3
"""Plans in one round at most: the service makes a round more often, and one plan in each."""
RULES: Final = ProposalRules(kinds=EnabledPlanKinds(resize=False), shapes=2)


class Moves:
    """A part of a policy. The hints are those that placement goes by, or another part's."""

    def __init__(self, hints: Hints) -> None:
        """Nothing was planned."""
        self._hints = hints
        self._formers: list[Former] = []
        self._left: dict[str, frozenset[str]] = {}
        """Plan -> cards from which its pods went away."""
        self._kubefit: KubeSchedulerFilters | None = None
        self._due = PLAN_S

    def before(self, world: Simulation, wants: Floats) -> None:
        """Nothing: pods move between ticks."""

    def after(self, world: Simulation, wants: Floats, got: Floats) -> None:
        """A round, when it is due."""
        if world.now < self._due:
            return
        self._due += PLAN_S
        now = EPOCH_S + world.now
        self._formers = [self._measured(world, former, now) for former in self._formers]
        if plan_gains.pause(self._formers, RULES.gain, now) is not None:
            world.counted.paused += 1
            return
        for _ in range(A_ROUND):
            situation = self._situation(world, now)
            known = {former.name for former in self._formers}
            for name, spec in propose(situation, RULES, known).specs.items():
                self._carry_out(world, name, spec, now)
                break
            else:
                return

    # -- what plans see

    def _situation(self, world: Simulation, now: float) -> ClusterView:
        if self._kubefit is None:
            nodes = [Node(metadata=ObjectMeta(name=name)) for name in world.ledger.fleet.rows]
            self._kubefit = KubeSchedulerFilters(nodes, (), world.registry.resources)
        running = [_running(world, run) for run in world.running.values() if run.grant]
        waiting = (
            WaitingPod(pod=run.pod, request=run.request, since=EPOCH_S + run.came_s)
            for run in world.waiting
            if not run.moves and not (world.spare and has_no_grant(run))
        )
        return ClusterView(
            now=now, ledger=world.ledger, kubefit=self._kubefit, nodes={}, bound=lambda _: (),
            managed_resources=world.registry.resources, running={one.uid: one for one in running},
            on=by_node(running),
            waiting={one.request.uid: one for one in waiting}, hints=self._cards(),
            spent=spent(self._formers, RULES.plan.move, RULES.plan.budget, now), rules=RULES.plan,
        )  # fmt: skip

    def _cards(self) -> Mapping[str, Mapping[str, CardHint]]:
        return {
            node: {hint.card: hint for hint in published.cards}
            for node, published in self._hints.published.items()
        }

    # -- what they do

    def _carry_out(self, world: Simulation, name: str, spec: PlanSpec, now: float) -> None:
        by_uid = {run.request.uid: run for run in world.running.values()}
        movers = [by_uid[step.pod.uid] for step in spec.steps]
        left = frozenset(
            share.card for run in movers if run.grant is not None for share in run.grant.shares
        )
        status = PlanStatus(
            phase=PlanPhase.DONE, steps_begun=len(movers), steps_done=len(movers),
            before=self._contention(left),
        )  # fmt: skip
        for run in movers:
            world.move(run)
        if spec.for_pod is not None:
            world.place_first(spec.for_pod.uid)
        world.place_all()
        self._left[name] = left
        self._formers.append(Former(name=name, spec=spec, status=status, started=now, ended=now))
        world.counted.plans[spec.kind] += 1

    def _measured(self, world: Simulation, former: Former, now: float) -> Former:
        if not plan_gains.measurable(former):
            return former
        horizon_s = RULES.plan.worth.horizon_s
        if former.spec.kind is PlanKind.DEFRAGMENT and former.spec.for_pod is not None:
            run = world.came.get(former.spec.for_pod.uid)
            placed = None if run is None or run.grant is None else EPOCH_S + run.started_s
            there = run is not None and run.number in world.running
            gained = plan_gains.by_placement(former, placed, None if there else now, horizon_s, now)
        else:
            after = self._contention(self._left[former.name])
            gained = plan_gains.by_contention(former, after, horizon_s, now)
        if gained is None:
            return former
        world.counted.expected += former.spec.gain
        world.counted.gained += gained
        return replace(former, status=replace(former.status, gained=gained))

    def _contention(self, cards: frozenset[str]) -> float:
        return max(
            (h.contended_percent for hints in self._hints.published.values() for h in hints.cards
             if h.card in cards),
            default=0.0,
        )  # fmt: skip


def _running(world: Simulation, run: Run) -> RunningPod:
    grant = run.grant
    assert grant is not None  # noqa: S101  (it runs)
    return RunningPod(
        pod=run.pod, request=run.request, grant=grant, since=EPOCH_S + run.started_s,
        parts=parts_of(world.ledger.fleet, grant.node, grant.shares), owner=run.job.name,
        owner_kind=run.job.controller,
    )  # fmt: skip
