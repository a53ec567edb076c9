"""Every slot of every card as a seat, in columns: who sits there, what it wants, what it has left.

A pod with several cards sits once on each; its work counts as done when all of its seats are
through.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from benchmarks.workloads_cards import FULL
from benchmarks.workloads_interference import LOADS
from benchmarks.workloads_pods import STEP_S, Job, Serves, Works
from tessera_core.fleet.arrays import Bools, Floats
from tessera_core.hook.limits_file import LEAST_PERMILLE
from tessera_core.node.core_lending import FULL as WHOLE_PERMILLE
from tessera_schema.cards import MIB

NOBODY: Final = -1
Seat = tuple[int, int]
"""Card and place on it."""


class Seats:
    """The seats of all cards of the cluster."""

    def __init__(self, cards: int, slots: int, jobs: Sequence[Job]) -> None:
        """Nobody sits anywhere."""
        shape = (cards, slots)
        self._jobs = jobs
        self.job = np.full(shape, NOBODY)
        """Number of the job."""
        self.promised = np.zeros(shape)
        """Cores that it was granted, percent of the card; 0 = none in particular."""
        self.rest = np.zeros(shape, np.bool_)
        """Who is promised no cores, and has what others leave."""
        self.spare = np.zeros(shape, np.bool_)
        """Whose memory is what owners were granted and do not use."""
        self.lent = np.zeros(shape)
        """Cores that it has been lent on top."""
        self.memory = np.zeros(shape, np.int64)
        """Bytes that it was granted."""
        self.load = np.zeros(shape, np.int64)
        """What its kernels are like, a row of the table of interference."""
        self._used = np.zeros(shape)
        """Part of its memory that it uses once it has grown to that."""
        self._bytes = np.zeros(shape)
        """The same in bytes, where that is known instead."""
        self._first, self._grows_s = np.zeros(shape), np.zeros(shape)
        self.sat = np.zeros(shape)
        """When it began to use memory."""
        self._peak = np.zeros(shape)
        self._left = np.zeros(shape)
        """Card-seconds of the burst that it is in."""
        self._burst = np.zeros(shape, np.int64)
        self._wakes = np.full(shape, np.inf)
        """When it starts to want time: its start or a pause is over."""
        self._unsaved = np.zeros(shape)
        """Card-seconds since the last checkpoint."""
        self._saves = np.full(shape, np.inf)
        """When it writes the next checkpoint."""
        self._curve_from = np.zeros(shape)
        self._curve, self._curves = np.full(shape, NOBODY), _curves(jobs)
        self._row = {
            n: row for row, n in enumerate(n for n, j in enumerate(jobs) if _serves(j.wants))
        }

    # -- who sits where

    def sit(self, number: int, card: int, now: float, start_s: float) -> Seat:
        """A free seat of the card becomes the job's, which begins its first burst."""
        place = int((self.job[card] == NOBODY).argmax())
        seat, job = (card, place), self._jobs[number]
        self.job[seat] = number
        self._wakes[seat] = self.sat[seat] = now + start_s
        self.load[seat] = LOADS.index(job.load)
        self._used[seat], self._first[seat] = job.memory_used, job.memory_first
        self._grows_s[seat], self._bytes[seat] = job.memory_grows_s, job.memory_mib * MIB
        if isinstance(job.wants, Works):
            self._peak[seat] = job.wants.peak_percent
            self._saves[seat] = now + start_s + job.checkpoint_s if job.checkpoint_s else np.inf
            self._begin(seat, job.wants, 0, now + start_s)
        else:
            self._curve[seat] = self._row[number]
            self._curve_from[seat] = now + start_s if job.wants.from_start else 0
        return seat

    def resume(self, seat: Seat, left: tuple[int, float]) -> None:
        """Go on with a burst that was begun elsewhere: its number and the work left in it."""
        self._burst[seat], self._left[seat] = left

    def leave(self, seat: Seat) -> tuple[int, float, float]:
        """The burst that it was in, the work left in it with what was not saved, and that part."""
        lost = float(self._unsaved[seat]) if np.isfinite(self._saves[seat]) else 0.0
        found = int(self._burst[seat]), float(self._left[seat]) + lost, lost
        self.job[seat] = self._curve[seat] = NOBODY
        self.rest[seat] = self.spare[seat] = False
        self._wakes[seat] = self._saves[seat] = np.inf
        for column in (self.promised, self.lent, self.memory, self._peak, self._left,
                       self._unsaved):  # fmt: skip
            column[seat] = 0
        return found

    # -- what they want

    def limits(self) -> Floats:
        """The most that each may get without loans, percent of the card."""
        own = np.where(self.promised > 0, self.promised, FULL)
        return np.where(self.rest, LEAST_PERMILLE * FULL / WHOLE_PERMILLE, own)

    @property
    def serving(self) -> Bools:
        """Whose pods serve."""
        found: Bools = self._curve >= 0
        return found

    def wants(self, now: float, seconds: float) -> Floats:
        """Percent of the card that each wants in the mean of the next so many seconds."""
        awake = self._wakes <= now
        working = np.minimum(self._peak, FULL * self._left / seconds)
        serving = self.serving
        if serving.any():
            since = np.maximum(now - self._curve_from[serving], 0)
            step = np.minimum(since // STEP_S, self._curves.shape[1] - 1).astype(np.int64)
            working[serving] = self._curves[self._curve[serving], step]
        return np.where(awake, working, 0.0)

    def memory_in_use(self, now: float) -> Floats:
        """Bytes in use."""
        age_s = np.maximum(now - self.sat, 0)
        grown = np.minimum(age_s / np.maximum(self._grows_s, 1e-9), 1)
        part = np.where(self._grows_s > 0, self._first + (1 - self._first) * grown, 1.0)
        grown_up = np.where(self._bytes > 0, self._bytes, self.memory * self._used)
        found: Floats = np.where(self.sat <= now, np.minimum(grown_up * part, self.memory), 0.0)
        return found

    def served_elsewhere(self, number: int, now: float) -> float:
        """What a job that serves would be asked for now, had it a seat."""
        row = self._row.get(number)
        if row is None:
            return 0.0
        return float(self._curves[row, min(int(now // STEP_S), self._curves.shape[1] - 1)])

    # -- what they get

    def work(self, got: Floats, now: float, seconds: float) -> list[Seat]:
        """So much time passes with so much got; the seats whose last burst is done."""
        done = got * seconds / FULL
        self._left -= np.where(self._peak > 0, done, 0)
        self._save(done, now + seconds)
        ended: list[Seat] = []
        through = (self._peak > 0) & (self._left <= 1e-6) & (self._wakes <= now)
        for seat in _seats(through):
            wants = self._jobs[self.job[seat]].wants
            assert isinstance(wants, Works)  # noqa: S101  (only those have a peak)
            if not self._begin(seat, wants, int(self._burst[seat]) + 1, now + seconds):
                ended.append(seat)
        return ended

    def _begin(self, seat: Seat, wants: Works, burst: int, now: float) -> bool:
        """False when there is no such burst."""
        if burst >= len(wants.bursts_s):
            self._wakes[seat] = np.inf
            return False
        self._burst[seat], self._left[seat] = burst, wants.bursts_s[burst]
        self._wakes[seat] = now + wants.pauses_s[burst]
        return True

    def _save(self, done: Floats, now: float) -> None:
        self._unsaved += done
        for seat in _seats(self._saves <= now):
            self._unsaved[seat] = 0
            self._saves[seat] = now + self._jobs[self.job[seat]].checkpoint_s


def _seats(which: Bools) -> Iterator[Seat]:
    return zip(*(axis.tolist() for axis in np.nonzero(which)), strict=True)


def _serves(wants: Works | Serves) -> bool:
    return isinstance(wants, Serves)


def _curves(jobs: Sequence[Job]) -> Floats:
    """A row for each job that serves; the last value goes on."""
    found = [job.wants.percents for job in jobs if isinstance(job.wants, Serves)]
    rows = np.zeros((len(found), max((len(curve) for curve in found), default=1)))
    for row, curve in zip(rows, found, strict=True):
        row[: len(curve)], row[len(curve) :] = curve, curve[-1]
    return rows
