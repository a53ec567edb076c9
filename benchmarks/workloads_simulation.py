"""A cluster in virtual time: pods come, are placed, want and get GPU time, and end.

Placement is the scheduler's own: the manifests go through admission, and `try_reserve` puts them
into a real ledger. Time passes in ticks of `TICK_S`; what pods want is a mean over a tick. A pod
that finds no place waits and is tried again when something has been released, first come first
served, without holding up others. What a policy does beyond that it does in `before` and `after`
of its parts.

Not modelled: the network, the processor, time-outs of users, and what happens within a tick but for
one thing: loans change while a tick runs. One that is taken back ends after `REACTION_S`, one that
is given begins after `SETTLE_S`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from msgspec.structs import replace

from benchmarks.workloads_bounds import Bound, placement_of
from benchmarks.workloads_cards import OPEN, CardModel
from benchmarks.workloads_cluster import (
    SLOTS,
    START_S,
    TICK_S,
    WHOLE,
    Run,
    ideal_s,
    manifest,
    request_of,
)
from benchmarks.workloads_counted import Counted
from benchmarks.workloads_counting import TickCounter
from benchmarks.workloads_memory import SEATS, SparePlacement, has_no_grant
from benchmarks.workloads_placement import SchedulerPlacement
from benchmarks.workloads_pods import HOUR_S, Job, Serves, Workload
from benchmarks.workloads_seats import Seats
from benchmarks.workloads_time import TimeDivision
from tessera_core.fleet.arrays import Floats
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.requests import PodRequest


class Part(Protocol):
    """What a policy does in addition to placement; several make one."""

    def before(self, world: Simulation, wants: Floats) -> None:
        """A tick begins in which pods want this."""

    def after(self, world: Simulation, wants: Floats, got: Floats) -> None:
        """It has passed, and this is what they got."""


class Simulation:
    """One run of one policy on one workload."""

    def __init__(
        self, workload: Workload, registry: DialectRegistry, parts: Sequence[Part],
        model: CardModel = OPEN, bound: Bound | None = None,
    ) -> None:  # fmt: skip
        """All cards are free and nobody has come. A bound divides time, and may place, in the
        cluster's stead."""
        self.workload, self.registry, self.model = workload, registry, model
        self.now = 0.0
        scheduler = SchedulerPlacement(workload)
        self.ledger, self.cards = scheduler.ledger, scheduler.cards
        self.name_of, self.number_of = scheduler.name_of, scheduler.number_of
        self._bound = bound
        self._placement = placement_of(bound, scheduler)
        self.spare: SparePlacement | None = None
        shape = bound.seats(workload, registry) if bound else (len(self.name_of), SLOTS)
        if workload.spare_memory and bound is None:
            shape = (len(self.name_of), SEATS)
            self._placement = self.spare = SparePlacement(scheduler, workload, len(self.name_of))
        self.seats = Seats(*shape, workload.jobs)
        if self.spare is not None:
            self.spare.seats = self.seats
        self.time = TimeDivision(self.seats, model, workload, bound)
        self.counted = Counted(cards=len(self.number_of), hours=workload.hours)
        self._tick = TickCounter(self.counted, workload)
        self.running: dict[int, Run] = {}
        self.waiting: list[Run] = []
        self.came: dict[str, Run] = {}
        """By uid, all pods; one that was moved is another."""
        self._parts = parts
        self._moved: dict[int, Run] = {}
        self._requests: dict[object, PodRequest] = {}
        self._coming = 0
        self._full: set[object] = set()
        self._released = True
        self._groups: dict[str, int] = {}
        for job in workload.jobs:
            self._groups[job.group] = self._groups.get(job.group, 0) + 1

    def run(self) -> Counted:
        """To the end."""
        while self.now < self.workload.hours * HOUR_S:
            self._let_leave()
            self._let_come()
            self._placement.learn(self.now)
            self.place_all()
            wants = self.seats.wants(self.now, TICK_S)
            old = self.seats.lent.copy()
            for part in self._parts:
                part.before(self, wants)
            got = self._pass(wants, old)
            self.now += TICK_S
            for part in self._parts:
                part.after(self, wants, got)
        for run in self.waiting:
            if not run.moves:
                self._count_wait(run)
                self.counted.unplaced += 1
            else:
                self.counted.again_s += self.now - run.came_s
        return self.counted

    # -- pods

    def place_all(self) -> None:
        """Try those that wait, in the order in which they came."""
        if self._released:
            self._full, self._released = set(), False
        if self.spare is not None:
            self._full -= {run.request.containers for run in self.waiting if has_no_grant(run)}
        still = []
        for run in self.waiting:
            shape = run.request.containers
            if shape in self._full or not self._place(run):
                self._full.add(shape)
                still.append(run)
        self.waiting = still

    def place_first(self, uid: str) -> None:
        """Try this pod before the others."""
        run = self.came[uid]
        if run in self.waiting and self._place(run):
            self.waiting.remove(run)

    def move(self, run: Run) -> None:
        """Evict the pod; another one of its kind waits in its stead, its work since the last
        checkpoint lost."""
        self.counted.moves += 1
        self._put_back(run)

    def end_spare(self, run: Run) -> None:
        """Owners need its memory: the pod waits again, its work since the last checkpoint lost."""
        self.counted.ended += 1
        self._put_back(run)

    def _put_back(self, run: Run) -> None:
        left = [self.seats.leave(seat) for seat in run.seats]
        self._release(run)
        lost = sum(part for _, _, part in left)
        self.counted.lost += lost
        again = Run(
            run.number, run.job, run.pod, run.request, self.now, leaves_s=run.leaves_s,
            moves=run.moves + 1, began=[(burst, work) for burst, work, _ in left],
        )  # fmt: skip
        self._rename(again)
        self.waiting.append(again)

    def _let_come(self) -> None:
        jobs = self.workload.jobs
        while self._coming < len(jobs) and jobs[self._coming].at_s <= self.now:
            run = self._arrived(self._coming, jobs[self._coming])
            self.waiting.append(run)
            self.came[run.request.uid] = run
            self._coming += 1

    def _arrived(self, number: int, job: Job) -> Run:
        pod = manifest(job)
        shape = (frozenset(job.limits.items()), frozenset(job.annotations.items()))
        if shape not in self._requests:
            self._requests[shape] = request_of(self.registry, job)
        known = self._requests[shape]
        request = replace(known, namespace=pod.metadata.namespace, name=job.name, uid=job.name)
        return Run(number, job, pod, request, job.at_s)

    def _rename(self, run: Run) -> None:
        """A moved pod is another pod to the ledger."""
        uid = f"{run.job.name}-{run.moves}"
        run.request = replace(run.request, name=uid, uid=uid)
        run.pod = replace(run.pod, metadata=replace(run.pod.metadata, name=uid, uid=uid))
        self.came[uid] = run
        self._moved[run.number] = run

    def _place(self, run: Run) -> bool:
        granted = self._placement.place(run, self.now)
        if granted is None:
            return False
        run.started_s = self.now
        for n, held in enumerate(granted):
            seat = self.seats.sit(run.number, held.card, self.now, START_S)
            self.seats.promised[seat] = held.cores_percent
            self.seats.memory[seat] = held.memory_bytes
            self.seats.rest[seat] = held.best_effort
            self.seats.spare[seat] = held.spare
            if run.began:
                self.seats.resume(seat, run.began[n])
            run.seats.append(seat)
        run.open = set(run.seats)
        if run.leaves_s == np.inf:
            run.leaves_s = self.now + START_S + run.job.stays_s
        self.running[run.number] = run
        if not run.moves:
            self._count_wait(run)
        else:
            self.counted.again_s += max(self.now - run.came_s, 0)
        return True

    def _let_leave(self) -> None:
        for run in [run for run in self.running.values() if run.leaves_s <= self.now]:
            self._end(run)

    def _end(self, run: Run) -> None:
        for seat in run.seats:
            self.seats.leave(seat)
        self._release(run)

    def _release(self, run: Run) -> None:
        del self.running[run.number]
        self._placement.release(run)
        self._released = True

    # -- time

    def _pass(self, wants: Floats, old: Floats) -> Floats:
        seats = self.seats
        got, limits = self.time.pass_tick(wants, old)
        self._tick.count(seats, wants, got, limits)
        self._tick.count_memory(seats, self.now)
        if self._bound is None:
            self._tick.count_latency(seats, wants, limits, self.time.room(wants, limits), self.now)
        self._count_away()
        ended = seats.work(got, self.now, TICK_S)
        for seat in ended:
            run = self.running[int(seats.job[seat])]
            run.open.discard(seat)
            if not run.open:
                self._finish(run)
        return got

    def _finish(self, run: Run) -> None:
        self._end(run)
        group = run.job.group
        self._groups[group] -= 1
        self.counted.stretches.append((self.now + TICK_S - run.job.at_s) / ideal_s(run.job))
        if not (group and self._groups[group]):
            self.counted.finished[run.job.kind] += 1

    # -- counting

    def _count_wait(self, run: Run) -> None:
        waited_s = max(self.now - TICK_S - run.came_s, 0)
        self.counted.waits_s.append(waited_s)
        if run.request.containers[0].requests[0].cores_percent >= WHOLE:
            self.counted.whole_waits_s.append(waited_s)

    def _count_away(self) -> None:
        """Pods that were moved and serve nobody until they run again."""
        for number, run in list(self._moved.items()):
            if run.grant is not None and run.started_s + START_S <= self.now:
                del self._moved[number]
            elif isinstance(run.job.wants, Serves):
                wanted = self.seats.served_elsewhere(run.number, self.now)
                self._tick.count_away(run.job.kind, wanted)
