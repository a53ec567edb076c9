"""Turns of queues with evictions: by priority within a queue, and between queues.

`PreemptionPlanner` names who has to go, as in the product: jobs of lower priority in the same
queue, and, with `reclaims`, jobs of queues that use more than they deserve. The product's budgets
and pauses hold. Who they go for gets their cards at once, as the product promises them. Not
modelled: grace periods and disruption budgets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from benchmarks.workloads_gang_cluster import EPOCH_S, GangCluster, GangRun
from benchmarks.workloads_gang_policies import Turns, by_priority, gang_of
from tessera_core.gangs.catalog import read_gangs
from tessera_core.gangs.queues import VOLCANO_QUEUE
from tessera_core.gangs.reservation import GangReserved, reserve_gang
from tessera_core.preemption.eviction_budgets import EvictionBudget, barred, overspent
from tessera_core.preemption.eviction_trials import Preemptor
from tessera_core.preemption.potential_victims import PotentialVictim, PreemptionRules
from tessera_core.preemption.preemption import Preemption, PreemptionPlanner, PreemptionView
from tessera_core.rebalance.plan_budget import Former
from tessera_schema.kube import Pod
from tessera_schema.plans import PlanKind, PlanPhase, PlanSpec, PlanStatus, PlanStep, PodOfPlan

AFTER_S: Final = 5.0
"""Seconds that a job has waited before others are evicted for it."""
AGAIN_S: Final = 300.0
"""Seconds after which a job for which nobody could be evicted is tried again; the scheduler tries
once a minute."""
KEEP_S: Final = 86_400.0
"""Seconds for which plans are kept."""
_RULES: Final = PreemptionRules()
_BUDGET: Final = EvictionBudget()


class PreemptingTurns(Turns):
    """Jobs of lower priority make room in their queue."""

    def __init__(self, cluster: GangCluster, *, reclaims: bool = False) -> None:
        """`reclaims`: queues also give back what they borrowed."""
        super().__init__(cluster)
        self._reclaims = reclaims
        self._plans: list[Former] = []
        self._not_before: dict[str, float] = {}
        """Job's name -> when jobs are looked for again that could make room for it."""

    def schedule(self) -> float | None:
        """Turns, then evictions, then turns for what they left."""
        again = super().schedule()
        cluster = self._cluster
        tried = [self._evict_for(run) for run in self._due()]
        if any(tried):
            again = super().schedule()
        if again is not None:
            return again
        young = [run.waits_since + AFTER_S for run in cluster.waiting.values()]
        return min((at for at in young if at > cluster.now), default=None)

    def _due(self) -> list[GangRun]:
        cluster = self._cluster
        waiting = sorted(cluster.waiting.values(), key=by_priority)
        return [
            run for run in waiting
            if max(run.waits_since + AFTER_S, self._not_before.get(run.job.name, 0.0))
            <= cluster.now
        ]  # fmt: skip

    def _evict_for(self, run: GangRun) -> bool:
        """Whether others were evicted, and the job started."""
        cluster = self._cluster
        self._not_before[run.job.name] = cluster.now + AGAIN_S
        self._plans = [plan for plan in self._plans if plan.ended > cluster.unix - KEEP_S]
        if barred(self._plans, run.job.name, cluster.unix):
            return False
        victims = self._victims_for(run)
        if not victims or not self._allowed(run, victims):
            return False
        for victim in victims:
            cluster.evict(victim, self)
        found = reserve_gang(cluster.ledger, cluster.filters, run.members, cluster.unix)
        seats = found.seats if isinstance(found, GangReserved) else {}
        if not seats:
            raise AssertionError(f"evictions for {run.job.name} did not make room: {found}")
        self._single.pop(run.job.name, None)
        cluster.start(run)
        if run.job.cards > 1:
            self._show_bound(seats)
        return True

    def _allowed(self, run: GangRun, victims: Iterable[GangRun]) -> bool:
        """Whether the product's budget takes these evictions; they count then."""
        pods = [
            PodOfPlan(
                namespace=pod.metadata.namespace, name=pod.metadata.name, uid=pod.metadata.uid,
                owner=each.job.name, gang=each.job.name if each.job.cards > 1 else "",
            )
            for each in victims for pod in self._bound(each)
        ]  # fmt: skip
        now = self._cluster.unix
        if overspent(self._plans, pods, _BUDGET, now):
            return False
        spec = PlanSpec(
            kind=PlanKind.PREEMPT, reason="", for_gang=run.job.name,
            steps=tuple(PlanStep(pod=pod) for pod in pods),
        )  # fmt: skip
        done = PlanStatus(phase=PlanPhase.DONE, steps_begun=len(pods))
        self._plans.append(Former(name="", spec=spec, status=done, started=now, ended=now))
        return True

    def _victims_for(self, run: GangRun) -> list[GangRun]:
        """The jobs that `PreemptionPlanner` names for this one; none where there is no choice."""
        cluster, job = self._cluster, run.job
        lending = self.queues.lending(cluster.now)
        runs = list(cluster.running.values())
        able = [
            each for each in self._evictable()
            if (each.job.queue == job.queue and each.job.priority < job.priority)
            or (self._reclaims and each.job.queue != job.queue)
        ]  # fmt: skip
        if self._free() + _cards(able) < job.cards:
            return []
        pods = [pod for each in runs for pod in self._bound(each)]
        mine = [member.pod for member in run.members]
        gangs = [gang_of(each) for each in (*runs, run) if each.job.cards > 1]
        view = PreemptionView(
            ledger=cluster.ledger, filters=cluster.filters, queues=lending.queues, rules=_RULES,
            catalog=read_gangs((*pods, *mine), gangs),
            bound={victim.uid: victim for each in runs for victim in self._victims(each)},
            lending=lending if self._reclaims else None,
        )  # fmt: skip
        preemptor = Preemptor(
            members=run.members, priority=job.priority, queue=(VOLCANO_QUEUE, job.queue)
        )
        found = PreemptionPlanner(view, cluster.unix).preempt(preemptor)
        if not isinstance(found, Preemption):
            return []
        owners = dict.fromkeys(victim.owner for victim in found.victims)
        return [cluster.running[owner] for owner in owners]

    def _bound(self, run: GangRun) -> Iterator[Pod]:
        for member in run.members:
            entry = self._cluster.ledger.entry(member.pod.metadata.uid)
            if entry is not None:
                spec = replace(member.pod.spec, node_name=entry.grant.node)
                yield replace(member.pod, spec=spec)

    def _victims(self, run: GangRun) -> Iterator[PotentialVictim]:
        since = EPOCH_S + run.started
        for pod in self._bound(run):
            yield PotentialVictim(pod=pod, since=since, owner_kind="Job", owner=run.job.name)

    def _free(self) -> int:
        return self._cluster.cards - self._cluster.used

    def _evictable(self) -> list[GangRun]:
        """Jobs that have run for long enough."""
        cluster = self._cluster
        return [
            run for run in cluster.running.values()
            if cluster.now - run.started >= _RULES.protect_s
        ]  # fmt: skip


def _cards(runs: Iterable[GangRun]) -> int:
    return sum(run.job.cards for run in runs)
