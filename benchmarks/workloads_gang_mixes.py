"""Jobs of gangs in the queues of teams: mixes after two published traces.

Published, and followed:

- Philly (Microsoft; Jeon et al., ATC '19): a job asks for 1.75 GPUs and runs for 28,329 s on
  average (Hu et al., SC '21, table 2); virtual clusters of 8 to 64 nodes.
- Helios (SenseTime; Hu et al., SC '21, and the summary in the paper's artifact): 3.72 GPUs, 6,652 s
  and a median of 124 to 280 s; more than half of the jobs ask for one GPU, those of 8 and more use
  most of the GPU time; virtual clusters of Earth in April 2020, 8 to 128 GPUs.

Guesses: each size's part, chosen to give those means; that run times are lognormal, and Philly's
median of 13 min; that jobs of 8 and more run longer; which team asks (Zipf); priorities, which
neither trace has; a day wave. A pod has one card, and a job's pods start together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from msgspec import Struct

from tessera_core.fleet.arrays import Floats, Ints

DAY_S: Final = 86400.0
LARGE: Final = 8
"""Cards from which on jobs run longer."""
LONGEST_S: Final = DAY_S
"""No job runs for longer; in the traces some run for weeks."""
SHORTEST_S: Final = 10.0
WAVE: Final = 3.0
"""As many jobs come at noon as at midnight, times this."""
ZIPF: Final = 1.1
PRIORITIES: Final[Mapping[int, float]] = {0: 0.3, 50: 0.6, 100: 0.1}
"""Priority -> part of the jobs."""


class GangJob(Struct, frozen=True, kw_only=True):
    """What a user submits."""

    name: str
    at_s: float
    cards: int
    """Pods of one card each, which start together."""
    run_s: float
    """From the start of its work to its end, if nothing evicts it."""
    queue: str
    priority: int


class Mix(Struct, frozen=True, kw_only=True):
    """What jobs of a trace are like."""

    sizes: Mapping[int, float]
    """Cards -> part of the jobs."""
    median_s: float
    """Of a job of less than `LARGE` cards."""
    mean_s: float
    longer: float
    """Times as long jobs of `LARGE` cards and more run."""
    queues: tuple[int, ...]
    """What each team's virtual cluster has, in any unit."""


PHILLY: Final = Mix(
    sizes={1: 0.83, 2: 0.05, 4: 0.055, 8: 0.057, 16: 0.006, 32: 0.002},
    median_s=780, mean_s=28_329, longer=1.8,
    queues=(64, 32, 16, 64, 64, 16, 32, 16, 8, 8, 32),
)  # fmt: skip
HELIOS: Final = Mix(
    sizes={1: 0.615, 2: 0.10, 4: 0.08, 8: 0.16, 16: 0.026, 32: 0.01, 64: 0.009},
    median_s=180, mean_s=6_652, longer=2.0,
    queues=(112, 128, 32, 48, 96, 32, 56, 48, 16, 64, 16, 16, 24, 8, 80, 8),
)  # fmt: skip
MIXES: Final[Mapping[str, Mix]] = {"philly": PHILLY, "helios": HELIOS}


class GangWorkload(Struct, frozen=True, kw_only=True):
    """A cluster of nodes with 8 cards, its queues, and all jobs that come, in order of time."""

    name: str
    nodes: int
    queues: Mapping[str, float]
    """Queue's name -> the part of the cluster that it deserves."""
    jobs: tuple[GangJob, ...]
    span_s: float
    """In which they come."""


def make(name: str, seed: int, *, nodes: int, jobs: int, load: float) -> GangWorkload:
    """So many jobs of a mix, which come as fast as keeps `load` of the cards busy on average."""
    mix, chance = MIXES[name], np.random.default_rng(seed)
    cards = chance.choice(list(mix.sizes), jobs, p=_parts(list(mix.sizes.values())))
    run_s = _run_times(mix, cards, chance)
    span_s = float((cards * run_s).sum()) / (nodes * 8 * load)
    at_s = _arrivals(jobs, span_s, chance)
    names = [f"team-{number:02}" for number in range(len(mix.queues))]
    asking = chance.permutation(1 / np.arange(1, len(names) + 1) ** ZIPF)
    teams = chance.choice(len(names), jobs, p=asking / asking.sum())
    priorities = chance.choice(list(PRIORITIES), jobs, p=list(PRIORITIES.values()))
    made = tuple(
        GangJob(
            name=f"job-{number:05}", at_s=float(at_s[number]), cards=int(cards[number]),
            run_s=float(run_s[number]), queue=names[teams[number]],
            priority=int(priorities[number]),
        )
        for number in range(jobs)
    )  # fmt: skip
    deserved = dict(zip(names, _parts(mix.queues), strict=True))
    return GangWorkload(name=name, nodes=nodes, queues=deserved, jobs=made, span_s=span_s)


def _parts(amounts: list[float] | tuple[int, ...]) -> list[float]:
    total = sum(amounts)
    return [amount / total for amount in amounts]


def _run_times(mix: Mix, cards: Ints, chance: np.random.Generator) -> Floats:
    """Lognormal, with the mix's median and mean before the longest are cut."""
    sigma = np.sqrt(2 * np.log(mix.mean_s / mix.median_s))
    run_s = mix.median_s * np.exp(sigma * chance.standard_normal(len(cards)))
    run_s = np.where(cards >= LARGE, mix.longer * run_s, run_s)
    clipped: Floats = np.clip(run_s, SHORTEST_S, LONGEST_S)
    return clipped


def _arrivals(jobs: int, span_s: float, chance: np.random.Generator) -> Floats:
    """Times of a Poisson process with a day wave, in order."""
    grid = np.linspace(0, span_s, 10_000)
    depth = (WAVE - 1) / (WAVE + 1)
    passed = np.cumsum(1 - depth * np.cos(2 * np.pi * grid / DAY_S))
    at_s: Floats = np.interp(np.sort(chance.random(jobs)) * passed[-1], passed, grid)
    return at_s
