"""How much of a card pods use: a made workload whose pods use what Alibaba published of PAI.

In the made workloads what a pod wants is drawn apart from what it asks for, and the median pod uses
half of a card. In PAI's trace of 2020 (MLaaS in the Wild, NSDI'22; 3.03 million instances) the
median instance uses 1.5 % of its card, the mean is 10.5 %, three quarters use less than 10 %, and
97.9 % use less than they ask for. `with_pai_use` keeps when pods come, what they ask for and how
long they take alone, and draws again how much of that time they compute, and how hard.

How use is spread over a pod's life was not published. Here a pod that works computes in bursts of
one to ten times its mean, in cycles of 20 minutes; a notebook keeps its peak and its pauses, a
service the shape of its curve.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from benchmarks.workloads_pods import HOUR_S, STEP_S, Job, Serves, Workload, Works, alone_s
from tessera_core.fleet.arrays import Floats, Ints

PARTS: Final = (0.0, 0.5, 0.75, 1.0)
PERCENTS: Final = (0.1, 1.5, 10.0, 90.3)
"""Use at those parts of all pods, straight lines between them in the logarithm: median and third
quartile are the published ones, the last one makes the mean 10.5."""
OVER_REQUESTED: Final = 0.021
"""Part of the pods that use as much as they ask for, or more."""
CYCLE_S: Final = 1200.0
HIGHEST: Final = 10.0
"""Most that a burst is higher than the mean."""
_FULL: Final = 100.0
_PAUSES: Final = frozenset({"notebook"})
"""Kinds whose pauses are their users', and stay."""


def pai_percent(part: Floats) -> Floats:
    """Use in percent of a card of which that part of all pods, 0 to 1, uses less."""
    found: Floats = np.exp(np.interp(part, PARTS, np.log(PERCENTS)))
    return found


def with_pai_use(workload: Workload, requested: Callable[[Job], float], seed: int) -> Workload:
    """The same pods with other wants; `requested` is a pod's cores in percent of a card, 100 where
    it names none. The same seed gives the same workload."""
    rng = np.random.default_rng([seed, 1])
    jobs, units = workload.jobs, _units(workload.jobs)
    order = rng.permutation(len(units))
    most = np.array([requested(jobs[unit[0]]) for unit in units])
    _keep_below(order, [len(unit) for unit in units], most, rng)
    found, before = list(jobs), 0
    for number in order.tolist():
        unit = units[number]
        parts = (before + np.arange(len(unit)) + rng.random()) / len(jobs)
        height = float(np.exp(rng.uniform(0, np.log(HIGHEST))))
        for job, use in zip(unit, pai_percent(parts).tolist(), strict=True):
            found[job] = _using(jobs[job], use, height, workload.hours)
        before += len(unit)
    return replace(workload, jobs=tuple(found))


def use_percent(job: Job, hours: float) -> float:
    """What the pod wants in the mean of its life, percent of its card, were it alone."""
    if isinstance(job.wants, Works):
        return _FULL * sum(job.wants.bursts_s) / _life_s(job, hours)
    return float(_during(job, job.wants, hours).mean())


def _units(jobs: tuple[Job, ...]) -> list[list[int]]:
    """Numbers of the jobs; those that came together, or are of one owner, together."""
    found: dict[str, list[int]] = {}
    for number, job in enumerate(jobs):
        found.setdefault(job.owner or job.group or job.name, []).append(number)
    return list(found.values())


def _keep_below(order: Ints, sizes: list[int], most: Floats, rng: np.random.Generator) -> None:
    """Change places in the order, from little use to much, until no more than `OVER_REQUESTED` of
    the pods use more than they ask for. Only units of one size change places: the others stay."""
    size = np.array(sizes)
    ends = size[order].cumsum() / size.sum()
    use = pai_percent(ends)
    over = np.flatnonzero(use >= most[order])
    left = OVER_REQUESTED * size.sum()
    for place in rng.permutation(over).tolist():
        mine = order[place]
        left -= size[mine]
        if left >= 0:
            continue
        fits = (size[order] == size[mine]) & (use < most[mine]) & (use[place] < most[order])
        others = np.flatnonzero(fits)
        if len(others):
            other = int(rng.choice(others))
            order[place], order[other] = order[other], mine


def _using(job: Job, use: float, height: float, hours: float) -> Job:
    wants = job.wants
    if isinstance(wants, Serves):
        return replace(job, wants=_scaled(job, wants, use, hours))
    peak = wants.peak_percent if job.kind in _PAUSES else use * height
    peak = min(max(peak, use), _FULL)
    life_s = _life_s(job, hours)
    busy_s = life_s * use / peak
    if not any(wants.pauses_s):
        cycles = max(1, round(life_s / CYCLE_S))
        wants = Works(peak, (1.0,) * cycles, (1.0,) * cycles)
    return replace(job, wants=_stretched(wants, peak, busy_s, life_s - busy_s))


def _stretched(wants: Works, peak: float, busy_s: float, idle_s: float) -> Works:
    """Its bursts and pauses so that they take that long together."""
    bursts = busy_s * peak / _FULL / sum(wants.bursts_s)
    pauses = idle_s / sum(wants.pauses_s)
    return Works(
        peak,
        tuple(work * bursts for work in wants.bursts_s),
        tuple(pause * pauses for pause in wants.pauses_s),
    )


def _scaled(job: Job, wants: Serves, use: float, hours: float) -> Serves:
    """Its curve times a number so that its mean over the life is `use`, 100 at most."""
    curve = _during(job, wants, hours)
    low, high = 0.0, _FULL / max(float(curve[curve > 0].min(initial=_FULL)), 1e-3)
    for _ in range(40):
        times = (low + high) / 2
        below = np.minimum(curve * times, _FULL).mean() < use
        low, high = (times, high) if below else (low, times)
    return Serves(np.minimum(wants.percents * high, _FULL), wants.from_start)


def _life_s(job: Job, hours: float) -> float:
    """Seconds that it takes alone, or stays."""
    return min(alone_s(job), job.stays_s) if isinstance(job.wants, Works) else job.stays_s


def _during(job: Job, wants: Serves, hours: float) -> Floats:
    """The steps of its curve from its coming to its leaving or the end, were it placed at once."""
    began = 0.0 if wants.from_start else job.at_s
    ends = min(began + job.stays_s, max(hours * HOUR_S, began + STEP_S))
    steps = np.arange(int(began // STEP_S), int(np.ceil(ends / STEP_S)))
    found: Floats = wants.percents[np.minimum(steps, len(wants.percents) - 1)]
    return found
