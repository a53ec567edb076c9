"""Who starts next: two plain lines to compare with, and Tessera's turns of queues.

All of them find room by the same search, for all pods of a job or for none. The lines put jobs of
one card and gangs into one order, and know no queues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Final

from msgspec.structs import replace

from benchmarks.workloads_gang_cluster import GangCluster, GangRun
from benchmarks.workloads_gang_queues import specs_of
from tessera_core.gang_scheduling.attempt import WAITING
from tessera_core.gang_scheduling.coordinator import GangCoordinator
from tessera_core.gang_scheduling.queues import SchedulingQueues
from tessera_core.gang_scheduling.registry import GangBundle, GangRegistry
from tessera_core.gangs.gang import Gang, GangMember, GangOrigin
from tessera_core.gangs.queue_turns import cluster_totals
from tessera_core.gangs.queue_usage import amounts_of
from tessera_core.gangs.queues import QueueAmounts
from tessera_core.gangs.reservation import GangReservation, GangReserved, Seats, reserve_gang
from tessera_core.gangs.scratch import MemberRequest
from tessera_core.machines.gang import GangPhase
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.quota.allowance import minimum_usage
from tessera_core.scheduling.reserve import Reserved, try_reserve
from tessera_schema.kube import Pod

_STEPS: Final = 1_000_000
"""Fits of a step: nobody waits for an answer here."""
Order = Callable[[GangRun], tuple[object, ...]]


def by_age(run: GangRun) -> tuple[object, ...]:
    """First come, first served."""
    return run.order


def by_priority(run: GangRun) -> tuple[object, ...]:
    """Higher priority first, then first come, first served."""
    return -run.job.priority, *run.order


class Line:
    """All jobs in one order."""

    def __init__(self, cluster: GangCluster, order: Order, *, passing: bool) -> None:
        """`passing`: a job that does not fit is passed by those that do."""
        self._cluster = cluster
        self._order = order
        self._passing = passing

    def came(self, run: GangRun) -> None:
        """It is in the line."""

    def ended(self, run: GangRun) -> None:
        """Its cards are free."""

    def schedule(self) -> float | None:
        """From the head on, all that fit."""
        cluster, too_many = self._cluster, inf
        for run in sorted(cluster.waiting.values(), key=self._order):
            if run.job.cards >= too_many:
                continue
            found = reserve_gang(cluster.ledger, cluster.filters, run.members, cluster.unix)
            if isinstance(found, GangReserved):
                cluster.start(run)
            elif self._passing:
                too_many = run.job.cards  # cards are equal: no larger one fits either
            else:
                break
        return None


class Turns:
    """As the scheduler does it. Gangs wait for their turn, by the share of their queue; a pod of no
    gang is placed by kube-scheduler as soon as there is room, by priority and age."""

    def __init__(self, cluster: GangCluster) -> None:
        """With a queue for each team."""
        self._cluster = cluster
        self._gangs = GangRegistry(lambda pod: bool(pod.spec.containers))
        self.requests: dict[str, MemberRequest] = {}
        """Of all pods that are there, by uid."""
        self._amounts: dict[str, QueueAmounts] = {}
        """What each of them counts in its queue."""
        self._single: dict[str, GangRun] = {}
        self._placer = Placer(cluster.ledger.fleet, ScreenCache())
        totals = cluster_totals(cluster.ledger.fleet, ())
        self.queues = SchedulingQueues(self._gangs, cluster.ledger, self._requested, lambda: totals)
        for spec in specs_of(cluster.workload, cluster.cards):
            self.queues.put_queue(spec)
        self.coordinator = GangCoordinator(
            self._gangs, cluster.ledger, self._search, queues=self.queues
        )

    def _requested(self, pod: Pod) -> QueueAmounts:
        return self._amounts[pod.metadata.uid]

    def _search(self, bundle: GangBundle, members: Sequence[GangMember]) -> GangReservation | str:
        del bundle
        wanted = [self.requests[member.pod.metadata.uid] for member in members]
        return GangReservation(self._cluster.ledger, self._cluster.filters, wanted)

    def came(self, run: GangRun) -> None:
        """Watches show its PodGroup and its pods."""
        for member in run.members:
            uses = {} if member.request is None else minimum_usage(member.request)
            self.requests[member.pod.metadata.uid] = member
            self._amounts[member.pod.metadata.uid] = amounts_of(member.pod, uses)
        if run.job.cards == 1:
            self._single[run.job.name] = run
            self.queues.put_pod(run.members[0].pod)
            return
        self._gangs.put_group(gang_of(run))
        for member in run.members:
            self._gangs.put_pod(member.pod)

    def ended(self, run: GangRun) -> None:
        """Watches show that its pods have gone."""
        for member in run.members:
            uid = member.pod.metadata.uid
            self._gangs.drop_pod(uid)
            self.queues.drop_pod(uid)
            del self.requests[uid], self._amounts[uid]
        if run.job.cards > 1:
            self._gangs.drop_group(gang_of(run).id)

    def schedule(self) -> float | None:
        """Pods of no gang first: kube-scheduler tries them at once, gangs are searched for later.
        The time until which gangs that do not fit are left alone."""
        self._place_single()
        while self.coordinator.step(self._cluster.unix, _STEPS):
            self._bind_reserved()
        self._bind_reserved()
        return self._next_search()

    def _place_single(self) -> None:
        cluster = self._cluster
        for run in sorted(self._single.values(), key=by_priority):
            member = run.members[0]
            if member.request is None or self.queues.problem_of_pod(member.pod):
                continue
            found = try_reserve(cluster.ledger, self._placer, member.request, None, cluster.unix)
            if not isinstance(found, Reserved):
                return  # all of them ask for the same
            del self._single[run.job.name]
            cluster.start(run)

    def _bind_reserved(self) -> None:
        """All members of gangs that hold cards arrive, and get their nodes."""
        cluster, now = self._cluster, self._cluster.unix
        for known in self.coordinator.bundles():
            if known.attempt.phase is not GangPhase.RESERVED:
                continue
            seats = dict(known.attempt.seats)
            for uid in seats:
                self.coordinator.arrive(uid, now)
            (members,) = known.bundle.gangs
            if len(self.coordinator.effects().released) != members.gang.min:
                raise AssertionError(f"gang {members.gang.key} did not start whole")
            cluster.start(cluster.waiting[members.gang.name])
            self._show_bound(seats)

    def _show_bound(self, seats: Seats) -> None:
        """Watches show that a gang's pods have nodes."""
        for uid, seat in seats.items():
            pod = self.requests[uid].pod
            self._gangs.put_pod(replace(pod, spec=replace(pod.spec, node_name=seat.node)))

    def _next_search(self) -> float | None:
        version = self._cluster.ledger.generation + self.queues.version
        cluster = self._cluster
        times = [
            known.attempt.not_before for known in self.coordinator.bundles()
            if known.attempt.phase in WAITING and known.attempt.not_before > cluster.unix
            and known.attempt.searched_at != version
        ]  # fmt: skip
        return cluster.now + min(times) - cluster.unix if times else None


def gang_of(run: GangRun) -> Gang:
    """The PodGroup of a job of several pods."""
    job, meta = run.job, run.members[0].pod.metadata
    return Gang(
        origin=GangOrigin.VOLCANO, namespace=job.queue, name=job.name, min=job.cards,
        total=job.cards, queue=job.queue, queue_field="spec.queue",
        created=meta.creation_timestamp or "", source=f"PodGroup {job.name}: spec.minMember",
    )  # fmt: skip
