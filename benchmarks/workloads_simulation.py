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

from benchmarks.workloads_cards import divide
from benchmarks.workloads_cluster import (
    REACTION_S,
    SETTLE_S,
    SLOTS,
    START_S,
    TICK_S,
    WHOLE,
    Run,
    cards_of,
    ideal_s,
    manifest,
    node_name,
    request_of,
)
from benchmarks.workloads_counted import LATE_PERCENT, Counted
from benchmarks.workloads_packing import Packing
from benchmarks.workloads_pods import HOUR_S, Job, Serves, Workload
from benchmarks.workloads_seats import Seats
from tessera_core.fleet.arrays import Floats
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.packing.packer import Packer
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.registry.registry import DialectRegistry
from tessera_core.scheduling.reserve import Reserved, try_reserve
from tessera_schema.cards import MIB
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
        self, workload: Workload, registry: DialectRegistry, parts: Sequence[Part]
    ) -> None:
        """All cards are free and nobody has come."""
        self.workload = workload
        self.now = 0.0
        self.ledger = Ledger()
        packer = Packer()
        self._placer = Placer(self.ledger.fleet, ScreenCache(), packer)
        self._packing = Packing(self.ledger.fleet, packer)
        self.seats = Seats(workload.nodes * workload.cards, SLOTS, workload.jobs)
        self.cards = [cards_of(node, workload) for node in range(workload.nodes)]
        self.name_of = [card.id for cards in self.cards for card in cards]
        self.number_of = {name: n for n, name in enumerate(self.name_of)}
        self.counted = Counted(cards=len(self.number_of), hours=workload.hours)
        self.running: dict[int, Run] = {}
        self.waiting: list[Run] = []
        self.came: dict[str, Run] = {}
        """By uid, all pods; one that was moved is another."""
        self._parts, self.registry = parts, registry
        self._moved: dict[int, Run] = {}
        self._requests: dict[object, PodRequest] = {}
        self._coming = 0
        self._full: set[object] = set()
        self._released = True
        self._kinds = sorted({job.kind for job in workload.jobs})
        self._kind = np.array([self._kinds.index(job.kind) for job in workload.jobs] or [0])
        self._groups: dict[str, int] = {}
        for job in workload.jobs:
            self._groups[job.group] = self._groups.get(job.group, 0) + 1
        for node, cards in enumerate(self.cards):
            self.ledger.put_node(node_name(node), cards)

    def run(self) -> Counted:
        """To the end."""
        while self.now < self.workload.hours * HOUR_S:
            self._let_leave()
            self._let_come()
            self._packing.learn(self.now)
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
        return self.counted

    # -- pods

    def place_all(self) -> None:
        """Try those that wait, in the order in which they came."""
        if self._released:
            self._full, self._released = set(), False
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
        left = [self.seats.leave(seat) for seat in run.seats]
        self._release(run)
        lost = sum(part for _, _, part in left)
        self.counted.moves += 1
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
        request = replace(known, namespace=job.kind, name=job.name, uid=job.name)
        return Run(number, job, pod, request, job.at_s)

    def _rename(self, run: Run) -> None:
        """A moved pod is another pod to the ledger."""
        uid = f"{run.job.name}-{run.moves}"
        run.request = replace(run.request, name=uid, uid=uid)
        run.pod = replace(run.pod, metadata=replace(run.pod.metadata, name=uid, uid=uid))
        self.came[uid] = run
        self._moved[run.number] = run

    def _place(self, run: Run) -> bool:
        decided = try_reserve(self.ledger, self._placer, run.request, None, self.now)
        if not isinstance(decided, Reserved):
            return False
        self.ledger.binding_sent(run.request.uid)
        self.ledger.resolve_binding(run.request.uid, bound=True)
        run.grant, run.started_s = decided.grant, self.now
        for n, share in enumerate(decided.grant.shares):
            card = self.number_of[share.card]
            seat = self.seats.sit(run.number, card, self.now, START_S)
            self.seats.promised[seat] = share.cores_percent
            self.seats.memory[seat] = share.memory_bytes
            if run.began:
                self.seats.resume(seat, run.began[n])
            run.seats.append(seat)
        run.open = set(run.seats)
        if run.leaves_s == np.inf:
            run.leaves_s = self.now + START_S + run.job.stays_s
        self.running[run.number] = run
        if not run.moves:
            self._count_wait(run)
            self._packing.count(run.request, self.now)
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
        self.ledger.ended(run.request.uid)
        self._released = True

    # -- time

    def _pass(self, wants: Floats, old: Floats) -> Floats:
        seats = self.seats
        own = seats.limits()
        limits = own + seats.lent
        old = np.where(seats.job >= 0, old, 0)
        first = divide(np.minimum(wants, own + old))
        settling = divide(np.minimum(wants, own + np.minimum(old, seats.lent)))
        then = divide(np.minimum(wants, limits))
        got: Floats = (
            first * REACTION_S + settling * (SETTLE_S - REACTION_S) + then * (TICK_S - SETTLE_S)
        ) / TICK_S
        self._count(wants, got, limits)
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

    def _count(self, wants: Floats, got: Floats, limits: Floats) -> None:
        counted, seats, part = self.counted, self.seats, TICK_S / 100
        taken = seats.job >= 0
        kinds = self._kind[seats.job[taken]]
        for sums, column in ((counted.wanted, wants), (counted.got, got)):
            by_kind = np.bincount(kinds, column[taken] * part, len(self._kinds))
            for kind, amount in zip(self._kinds, by_kind.tolist(), strict=True):
                sums[kind] += amount
        allowed = np.minimum(wants, limits)
        counted.held_back += float((wants - allowed).sum()) * part
        counted.crowded += float(np.maximum(allowed - got, 0).sum()) * part
        owed = np.minimum(wants, seats.promised)
        counted.owed += float(owed.sum()) * part
        counted.missed += float(np.maximum(owed - got, 0).sum()) * part
        serves = seats.serving & (wants > 0)
        counted.serving_s += float(serves.sum()) * TICK_S
        counted.late_s += float((serves & (got < wants * LATE_PERCENT / 100)).sum()) * TICK_S
        total = self.workload.memory_mib * MIB * counted.cards
        counted.granted += float(seats.memory.sum()) / total * TICK_S
        self._count_away(part)

    def _count_away(self, part: float) -> None:
        """Pods that were moved and serve nobody until they run again."""
        for number, run in list(self._moved.items()):
            if run.grant is not None and run.started_s + START_S <= self.now:
                del self._moved[number]
            elif isinstance(run.job.wants, Serves):
                wanted = self.seats.served_elsewhere(run.number, self.now)
                self.counted.wanted[run.job.kind] += wanted * part
                self.counted.crowded += wanted * part
                self.counted.serving_s += TICK_S
                self.counted.late_s += TICK_S
