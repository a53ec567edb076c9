"""Turns of queues with evictions: by priority within a queue, and between queues.

By priority: `PreemptionPlanner` names the jobs of lower priority in the same queue that have to
go. Between queues: `reclaim` names those of queues that use more than they deserve. Who they go for
gets their cards at once, as the product promises them. Not modelled: grace periods, disruption
budgets, and how many pods may be evicted an hour.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from benchmarks.workloads_gang_cluster import EPOCH_S, GangCluster, GangRun
from benchmarks.workloads_gang_policies import Turns, by_priority, gang_of
from benchmarks.workloads_gang_queues import IN_CARDS, specs_of
from tessera_core.gangs.catalog import read_gangs
from tessera_core.gangs.queue_usage import ClusterQueues
from tessera_core.gangs.queues import VOLCANO_QUEUE
from tessera_core.gangs.reclaim import EvictionUnit, QueueParty, reclaim
from tessera_core.gangs.reservation import GangReserved, reserve_gang
from tessera_core.preemption.eviction_budgets import BARS_S
from tessera_core.preemption.eviction_trials import Preemptor
from tessera_core.preemption.potential_victims import PotentialVictim, PreemptionRules
from tessera_core.preemption.preemption import Preemption, PreemptionPlanner, PreemptionView
from tessera_schema.kube import Pod

AFTER_S: Final = 5.0
"""Seconds that a job has waited before others are evicted for it."""
_RULES: Final = PreemptionRules()


class PreemptingTurns(Turns):
    """Jobs of lower priority make room in their queue."""

    def __init__(self, cluster: GangCluster, *, reclaims: bool = False) -> None:
        """`reclaims`: queues also give back what they borrowed."""
        super().__init__(cluster)
        self._reclaims = reclaims
        self._specs = specs_of(cluster.workload, cluster.cards)
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
        victims = self._lower(run) or (self._lent(run) if self._reclaims else [])
        if not victims:
            return False
        cluster = self._cluster
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

    # -- by priority

    def _lower(self, run: GangRun) -> list[GangRun]:
        """The jobs that `PreemptionPlanner` names for this one; none where there is no choice."""
        cluster, job = self._cluster, run.job
        lower = [
            each for each in self._evictable()
            if each.job.queue == job.queue and each.job.priority < job.priority
        ]  # fmt: skip
        if self._free() + _cards(lower) < job.cards:
            return []
        queues = ClusterQueues(self._specs)
        runs = list(cluster.running.values())
        pods = [pod for each in runs for pod in self._bound(each)]
        mine = [member.pod for member in run.members]
        gangs = [gang_of(each) for each in (*runs, run) if each.job.cards > 1]
        view = PreemptionView(
            ledger=cluster.ledger, filters=cluster.filters, queues=queues, rules=_RULES,
            catalog=read_gangs((*pods, *mine), gangs),
            bound={victim.uid: victim for each in runs for victim in self._victims(each)},
        )  # fmt: skip
        preemptor = Preemptor(
            members=run.members, priority=job.priority, queue=(VOLCANO_QUEUE, job.queue)
        )
        found = PreemptionPlanner(view, cluster.unix).preempt(preemptor)
        if not isinstance(found, Preemption):
            self._not_before[job.name] = cluster.now + BARS_S[0]
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

    # -- between queues

    def _lent(self, run: GangRun) -> list[GangRun]:
        """The jobs that other queues have to give back for this one."""
        cluster = self._cluster
        used: defaultdict[str, float] = defaultdict(float)
        for each in cluster.running.values():
            used[each.job.queue] += each.job.cards
        units: defaultdict[str, list[EvictionUnit]] = defaultdict(list)
        for each in sorted(self._evictable(), key=_goes_first):
            amounts = {IN_CARDS: float(each.job.cards)}
            units[each.job.queue].append(EvictionUnit(each.job.name, amounts))
        parties = {
            spec.name: QueueParty(
                name=spec.name, used={IN_CARDS: used[spec.name]}, deserved=spec.deserved,
                units=tuple(units[spec.name]),
            )
            for spec in self._specs
        }  # fmt: skip
        taker = parties.pop(run.job.queue)
        gone = reclaim(
            taker, {IN_CARDS: float(run.job.cards)}, {IN_CARDS: float(self._free())},
            list(parties.values()), {IN_CARDS: float(cluster.cards)},
        )  # fmt: skip
        return [cluster.running[unit.name] for unit in gone]

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


def _goes_first(run: GangRun) -> tuple[float, ...]:
    """Lower priority, then what has run for the shortest time."""
    return run.job.priority, -run.started
