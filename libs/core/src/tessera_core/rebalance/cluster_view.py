"""The cluster as plans see it: the ledger, the nodes as kube-scheduler sees them, who runs and who
waits. It is read, never changed; trials are made on copies of the fleet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from tessera_core.fleet.arrays import Bools
from tessera_core.fleet.charges import charges
from tessera_core.fleet.fleet import Fleet
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters, Refusals
from tessera_core.ledger.ledger import Ledger
from tessera_core.rebalance.disruption_budgets import Disruption, forbidden
from tessera_core.rebalance.movable_pods import MoveRules, RunningPod, cost, not_now, untouchable
from tessera_core.rebalance.plan_budget import BudgetRules, Spent, overspent
from tessera_core.slices import Slices
from tessera_core.usage.smoothed import SmoothContainer
from tessera_schema.grants import Share
from tessera_schema.kube import Node, Pod
from tessera_schema.messages.hints import CardHint
from tessera_schema.requests import PodRequest


class WorthRules(Struct, frozen=True, kw_only=True):
    """What a change must be worth."""

    horizon_s: float = 3600.0
    """Seconds after the change for which its gain is counted."""
    times: float = 1.5
    """How many times its cost a plan's gain must be."""
    wait_s: float = 120.0
    """Seconds that a pod must have waited before others are moved for it: most find room."""


class PlanRules(Struct, frozen=True, kw_only=True):
    """What proposals go by."""

    move: MoveRules = MoveRules()
    budget: BudgetRules = BudgetRules()
    worth: WorthRules = WorthRules()


class WaitingPod(Struct, frozen=True, kw_only=True):
    """A pod that asks for cards and has no node."""

    pod: Pod
    request: PodRequest
    since: float
    """Unix time of its creation."""

    @property
    def priority(self) -> int:
        """The pod's."""
        return self.pod.spec.priority or 0


class ClusterView(Struct, frozen=True, kw_only=True):
    """One moment."""

    now: float
    ledger: Ledger
    kubefit: KubeSchedulerFilters
    """All nodes with all that is bound to them."""
    nodes: Mapping[str, Node]
    bound: Callable[[str], Iterable[Pod]]
    """Node -> the pods bound to it, with cards or without."""
    managed_resources: frozenset[str]
    """Resources of dialects."""
    running: Mapping[str, RunningPod]
    """By uid."""
    on: Callable[[str], Iterable[RunningPod]]
    """Node -> those that hold cards of it."""
    waiting: Mapping[str, WaitingPod]
    """By uid."""
    disruptions: Sequence[Disruption] = ()
    hints: Mapping[str, Mapping[str, CardHint]] = {}
    """Node -> card -> hint, of those that are fresh."""
    measured: Iterable[SmoothContainer] = ()
    """Containers of which something was measured lately."""
    spent: Spent = Spent()
    rules: PlanRules = PlanRules()

    def stays(self, one: RunningPod) -> str:
        """Why a pod is not moved now; empty when it may be."""
        moves = self.rules.move
        cooling = self.spent.cooling.get(one.owner or one.uid, 0)
        return (
            untouchable(one, moves)
            or not_now(one, moves, cooling, self.now)
            or ("another plan is about it" if one.uid in self.spent.busy else "")
            or forbidden(self.disruptions, (one.pod,))
        )

    def stay(self, pods: Sequence[RunningPod]) -> str:
        """Why these pods are not all moved now; empty when they may be."""
        each = (f"{one.pod.name}: {why}" for one in pods if (why := self.stays(one)))
        return next(each, "") or (
            overspent(self.spent, self.rules.budget, pods)
            or forbidden(self.disruptions, [one.pod for one in pods])
        )

    def cost(self, pods: Iterable[RunningPod]) -> float:
        """Card-seconds that moving these pods loses."""
        return sum(cost(one, self.rules.move, self.now) for one in pods)


def charge(fleet: Fleet, node: str, shares: Iterable[Share], sign: int) -> None:
    """Put these shares on a copy of the fleet, or with sign -1 take them off."""
    for card, amount in charges(shares).items():
        fleet.charge(node, card, amount, sign)


def take_off(
    fleet: Fleet, situation: ClusterView, pods: Iterable[RunningPod], sign: int = -1
) -> None:
    """Take what these pods hold off a copy of the fleet; with sign 1 put it back."""
    for one in pods:
        entry = situation.ledger.entry(one.uid)
        for card, amount in (entry.charges if entry is not None else {}).items():
            fleet.charge(one.grant.node, card, amount, sign)


class Movable(Struct, frozen=True, kw_only=True):
    """The pods that may be moved just now."""

    on: Mapping[str, Sequence[str]]
    """Their uids, by node."""
    without: Fleet
    """The fleet as it would be without all of them."""
    fleet: Fleet
    """As it was when they were sought."""


def movable(situation: ClusterView) -> Slices[Movable]:
    """All pods that may be moved, a pod in each slice. What pods and nodes do meanwhile does no
    harm: a pod that has gone leaves more room than is thought, a node that has gone has none."""
    on: dict[str, list[str]] = {}
    fleet, without = situation.ledger.fleet.snapshot(), situation.ledger.fleet.snapshot()
    for one in situation.running.values():
        if one.grant.node in without.rows and not situation.stays(one):
            on.setdefault(one.grant.node, []).append(one.uid)
            take_off(without, situation, (one,))
        yield
    return Movable(on=on, without=without, fleet=fleet)


def by_node(running: Iterable[RunningPod]) -> Callable[[str], Sequence[RunningPod]]:
    """Node -> the pods that hold cards of it."""
    found: dict[str, list[RunningPod]] = {}
    for one in running:
        found.setdefault(one.grant.node, []).append(one)
    return lambda node: found.get(node, ())


class Seats:
    """Nodes as kube-scheduler would see them when some pods have gone and others have come."""

    def __init__(self, situation: ClusterView, gone: Iterable[RunningPod]) -> None:
        """These pods have gone; nobody has come."""
        self._situation = situation
        self._gone = {one.uid for one in gone}
        self._changed: dict[str, KubeSchedulerFilters] = {}
        for node in {one.grant.node for one in gone}:
            self._rebuilt(node)

    def refusals(self, pod: Pod) -> Refusals:
        """Node -> why it does not take the pod, for other reasons than cards."""
        refused = {
            node: why
            for node, why in self._situation.kubefit.refusals(pod).items()
            if node not in self._changed
        }
        for fit in self._changed.values():
            refused.update(fit.refusals(pod))
        return refused

    def rows(self, fleet: Fleet, pod: Pod) -> Bools:
        """The rows that take the pod as far as kube-scheduler is concerned."""
        refused = self.refusals(pod)
        rows = np.zeros(len(fleet.names), np.bool_)
        rows[[row for node, row in fleet.rows.items() if node not in refused]] = True
        return rows

    def take(self, pod: Pod, node: str) -> None:
        """The pod comes to the node."""
        self._rebuilt(node).take(pod, node)

    def _rebuilt(self, node: str) -> KubeSchedulerFilters:
        if node not in self._changed:
            known = self._situation.nodes.get(node)
            there = (
                pod for pod in self._situation.bound(node) if pod.metadata.uid not in self._gone
            )
            nodes = () if known is None else (known,)
            self._changed[node] = KubeSchedulerFilters(
                nodes, there, self._situation.managed_resources
            )
        return self._changed[node]
