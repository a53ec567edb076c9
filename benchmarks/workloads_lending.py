"""Lending as agents do it: the real lender of each card, run when something has changed on it.

An agent asks its lender ten times a second; for days and all cards that would be a hundred million
times. Here it is asked every `STEP_S` for `SETTLE_S` after what is wanted on a card has changed,
while the model of the card says what the hooks would have counted; what it says last holds until
the next change. While it settles, a loan that is taken back ends after `REACTION_S`, and one that
is given begins when it has settled.
A card on which nobody could use a loan is not asked about, as in the agent.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from benchmarks.workloads_cluster import SETTLE_S, Run
from benchmarks.workloads_hints import Hints
from benchmarks.workloads_simulation import Simulation
from tessera_core.dialect_kit.lending_terms import WrittenTerms
from tessera_core.fleet.arrays import Bools, Floats, Ints
from tessera_core.node.core_lending import FULL, CounterSample, Lender, LendingTimings
from tessera_core.registry.lending import terms_of

STEP_S: Final = 0.5
QUIET: Final = 4
"""After so many steps without a change the lender has said what it has to say."""
KERNEL_S: Final = 0.005
"""How long one launch keeps the card busy."""
_SECOND: Final = 1_000_000_000


class Lending:
    """A part of a policy."""

    def __init__(self, hints: Hints | None = None) -> None:
        """The hints' bounds say how far lending may take a pod; where they do not, its dialect
        does, and the whole card where that says nothing."""
        self._hints = hints
        self._said: dict[str, float] = {}
        self._lenders: dict[int, Lender] = {}
        self._before: Floats | None = None
        self._who: Ints | None = None
        self._gpu_s = self._throttled_s = self._launches = np.zeros((0, 0))

    def before(self, world: Simulation, wants: Floats) -> None:
        """What is lent in this tick."""
        seats = world.seats
        if self._before is None or self._who is None:
            self._before, self._who = np.full_like(wants, -1), np.full_like(seats.job, -1)
            self._gpu_s, self._throttled_s = np.zeros_like(wants), np.zeros_like(wants)
            self._launches = np.zeros_like(wants)
        changed = ((wants != self._before) | (seats.job != self._who)).any(1)
        self._before, self._who = wants, seats.job.copy()
        asked = np.flatnonzero(changed & (self._useful(world, wants) | (seats.lent > 0).any(1)))
        if len(asked):
            self._settle(world, wants, asked)

    def after(self, world: Simulation, wants: Floats, got: Floats) -> None:
        """Nothing: the lenders see what the card did in the steps in which they are asked."""

    def _useful(self, world: Simulation, wants: Floats) -> Bools:
        """Cards on which a pod with a limit is held back."""
        promised = world.seats.promised
        limited = world.seats.rest | ((promised > 0) & (promised < 100))
        held_back: Bools = limited & (wants > promised)
        return np.asarray(held_back.any(1))

    def _settle(self, world: Simulation, wants: Floats, asked: Ints) -> None:
        seats, own = world.seats, world.seats.limits()
        at_s, quiet = world.now, np.zeros(len(asked), np.int64)
        got, known = np.zeros_like(wants[asked]), np.full_like(wants[asked], -1)
        for _ in range(int(SETTLE_S / STEP_S)):
            wanted = wants[asked]
            limits = own[asked] + seats.lent[asked]
            fresh = np.flatnonzero((limits != known).any(1))
            if len(fresh):
                got[fresh] = world.time.divide(wanted[fresh], limits[fresh], asked[fresh])
                known = limits
            self._count(asked, wanted, limits, got)
            at_s += STEP_S
            for card in asked.tolist():
                self._consider(world, card, at_s)
            changed = (own[asked] + seats.lent[asked] != limits).any(1)
            quiet = np.where(changed, 0, quiet + 1)
            left = quiet < QUIET
            asked, quiet, got, known = asked[left], quiet[left], got[left], known[left]

    def _count(self, asked: Ints, wanted: Floats, limits: Floats, got: Floats) -> None:
        """What the hooks would have counted in a step."""
        self._gpu_s[asked] += got * STEP_S / 100
        held = np.where(wanted > limits, 1 - limits / np.maximum(wanted, 1e-9), 0)
        self._throttled_s[asked] += held * STEP_S
        self._launches[asked] += np.ceil(got * STEP_S / 100 / KERNEL_S)

    def _consider(self, world: Simulation, card: int, at_s: float) -> None:
        lender = self._lenders.setdefault(card, Lender(LendingTimings()))
        readings = self._readings(world, card)
        loans = lender.decide(list(readings.values()), at_s).loans
        for place, reading in readings.items():
            world.seats.lent[card, place] = loans[reading.key] * 100 / FULL

    def _readings(self, world: Simulation, card: int) -> dict[int, CounterSample]:
        """Place -> what the agent reads there."""
        seats = world.seats
        rows = (seats.job, seats.promised, seats.rest, seats.lent, self._gpu_s, self._throttled_s,
                self._launches)  # fmt: skip
        found = {}
        name = world.name_of[card]
        for place, (job, promised, rest, lent, gpu_s, throttled_s, launches) in enumerate(
            zip(*(row[card].tolist() for row in rows), strict=True)
        ):
            if job < 0:
                continue
            run = world.running[job]
            uid = run.request.uid
            found[place] = CounterSample(
                key=uid,
                rest=rest,
                granted_permille=int(promised * FULL / 100),
                most_permille=int(self._bound(world, run, name) * FULL / 100),
                lent_permille=round(lent * FULL / 100),
                gpu_ns=int(gpu_s * _SECOND),
                throttled_ns=int(throttled_s * _SECOND),
                launches=int(launches),
            )
        return found

    def _bound(self, world: Simulation, run: Run, card: str) -> float:
        """The hints' bound; without one what the dialect says, once for each pod."""
        hint = self._hints.most.get((run.request.uid, card)) if self._hints else None
        if hint is not None:
            return hint
        if run.request.uid not in self._said:
            self._said[run.request.uid] = _most(world, run)
        return self._said[run.request.uid]


def _most(world: Simulation, run: Run) -> float:
    """How far its dialect lets the pod grow; all of the card where that says nothing."""
    shares = () if run.grant is None else run.grant.shares
    names = [share.dialect for share in shares]
    return terms_of(world.registry.readers, names, WrittenTerms(pod=run.pod)).ceiling_percent
