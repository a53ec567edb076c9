"""The stated workloads, drawn at random from a seed. None of them is a recording.

`mixed` is a shared cluster: trainings that use more or less than they ask for, services with a day
curve, notebooks. `services` is mostly inference: three regions whose days are shifted by eight
hours, spikes, and trainings that promise nothing of cores. `research` is notebooks that idle for
days together with sweeps, of which all pods arrive at once. In all of them many users ask for
memory alone, as HAMi's and Koordinator's users may, and some for whole cards. Nobody asks by what
it will use: what a pod wants is drawn apart from what it asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.workloads_pods import HOUR_S, STEP_S, Job, Serves, Workload, Works
from tessera_schema.annotation_keys import CHECKPOINT_KEY, REBALANCE_KEY

NODES, CARDS, MEMORY_MIB = 20, 4, 81920
HOURS = 48.0
KEEPS = {REBALANCE_KEY: "false"}
"""On notebooks: what is only in a notebook's memory would be gone."""
SAVES = {CHECKPOINT_KEY: "1800"}
LOSES_NOTHING = {CHECKPOINT_KEY: "0"}


@dataclass(frozen=True)
class RequestKind:
    """A way of asking for a part of a card, or for cards."""

    weight: float
    limits: Mapping[str, int | str]
    annotations: Mapping[str, str] | None = None


def _hami(mib: int, cores: int = 0) -> dict[str, int | str]:
    limits: dict[str, int | str] = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": mib}
    return {**limits, "nvidia.com/gpucores": cores} if cores else limits


def _volcano(mib: int, cores: int) -> dict[str, int | str]:
    return {
        "volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": mib, "volcano.sh/vgpu-cores": cores,
    }  # fmt: skip


def _koordinator(core: int, ratio: int) -> dict[str, int | str]:
    return {"koordinator.sh/gpu-core": core, "koordinator.sh/gpu-memory-ratio": ratio}


def _gpumanager(core: int, blocks: int) -> dict[str, int | str]:
    return {"tencent.com/vcuda-core": core, "tencent.com/vcuda-memory": blocks}


_UP_TO = "tencent.com/vcuda-core-limit"
TRAINING: Sequence[RequestKind] = (
    RequestKind(3, _hami(30000, 50)),
    RequestKind(2, _hami(20000, 30)),
    RequestKind(4, _hami(24000)),
    RequestKind(2, _koordinator(50, 50)),
    RequestKind(1, {"koordinator.sh/gpu.shared": 1, "koordinator.sh/gpu-memory": "24Gi"}),
    RequestKind(2, _gpumanager(40, 110), {_UP_TO: "100"}),
    RequestKind(1, _volcano(30000, 40)),
)
WHOLE: Sequence[RequestKind] = (
    RequestKind(4, {"nvidia.com/gpu": 1}),
    RequestKind(2, {"nvidia.com/gpu": 2}),
    RequestKind(1, {"nvidia.com/gpu": 4}),
    RequestKind(1, {"koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory-ratio": 100}),
    RequestKind(1, _gpumanager(200, 0)),
)
SOFT: Sequence[RequestKind] = (
    RequestKind(3, _hami(24000)),
    RequestKind(2, _hami(12000)),
    RequestKind(1, {"koordinator.sh/gpu.shared": 1, "koordinator.sh/gpu-memory": "20Gi"}),
)
SERVING: Sequence[RequestKind] = (
    RequestKind(3, _hami(16000, 30)),
    RequestKind(3, _hami(16000)),
    RequestKind(2, _koordinator(25, 25)),
    RequestKind(1, _gpumanager(30, 60), {_UP_TO: "60"}),
    RequestKind(1, _volcano(12000, 20)),
)
NOTEBOOK: Sequence[RequestKind] = (
    RequestKind(3, _hami(10000, 20)),
    RequestKind(3, _hami(10000)),
    RequestKind(1, _koordinator(30, 20)),
    RequestKind(1, _gpumanager(20, 40)),
)


class Draw:
    """Draws jobs of every kind from one seed."""

    def __init__(self, seed: int, hours: float, load: float = 1.0) -> None:
        """The same arguments draw the same jobs; arrivals are multiplied by `load`."""
        self.rng = np.random.default_rng(seed)
        self.hours, self.load = hours, load
        self._named = 0

    def times(self, per_h: float) -> Iterator[float]:
        """Of arrivals, at random, so many an hour in the mean."""
        count = int(self.rng.poisson(per_h * self.load * self.hours))
        yield from np.sort(self.rng.uniform(0, self.hours * HOUR_S, count)).tolist()

    def training(
        self, at_s: float, asks: Sequence[RequestKind] = TRAINING, mean_h: float = 3.0
    ) -> Job:
        """Steady, or with stalls of its input between bursts."""
        rng, whole = self.rng, asks is WHOLE
        peak = rng.uniform(85, 100) if whole else rng.uniform(30, 100)
        work_s = self._lognormal(mean_h * HOUR_S, 0.8) * peak / 100
        bursts, pauses = [work_s], [0.0]
        if rng.random() < 0.5:
            bursts, pauses = self._phases(work_s, 0.3 * HOUR_S * peak / 100, 240)
        return self._job("training", at_s, Works(peak, tuple(bursts), tuple(pauses)), asks, SAVES)

    def sweep(self, at_s: float, mean_h: float = 1.5) -> list[Job]:
        """Pods that come together, alike but for how long they take."""
        rng = self.rng
        ask, peak = self._request_kind(TRAINING), rng.uniform(40, 100)
        group = f"sweep-{self._named}"
        found = []
        for _ in range(int(rng.choice([4, 8, 8, 16, 32]))):
            work_s = self._lognormal(mean_h * HOUR_S, 0.4) * peak / 100
            wants = Works(float(peak), (work_s,), (0.0,))
            found.append(self._job("batch", at_s, wants, (ask,), SAVES, group=group))
        return found

    def notebook(self, at_s: float, mean_h: float = 30.0) -> Job:
        """Idle for hours, a few bursts while its user is there, idle for a night."""
        rng = self.rng
        peak, stays_s = rng.uniform(60, 100), self._lognormal(mean_h * HOUR_S, 0.6)
        bursts: list[float] = []
        pauses: list[float] = []
        total = 0.0
        while total < stays_s:
            away = rng.random() < 0.15
            pauses.append(rng.exponential(10 * HOUR_S if away else 0.4 * HOUR_S))
            bursts.append(rng.exponential(420) * peak / 100)
            total += pauses[-1]
        wants = Works(float(peak), tuple(bursts), tuple(pauses))
        return self._job("notebook", at_s, wants, NOTEBOOK, KEEPS, stays_s=stays_s)

    def service(
        self, at_s: float, shift_h: float = 0.0, mean_h: float = 40.0, spikes_a_day: float = 2.0
    ) -> Job:
        """A day curve with its least at night, noise, and spikes of half an hour at most."""
        rng = self.rng
        steps = int(self.hours * HOUR_S / STEP_S) + 1
        hour = np.arange(steps) * STEP_S / HOUR_S
        day = 0.5 - 0.45 * np.cos(2 * np.pi * (hour - 3 - shift_h - rng.normal(0, 1)) / 24)
        noise = np.exp(rng.normal(0, 0.15, steps))
        curve = rng.uniform(15, 70) * day * noise
        for at in rng.integers(0, steps, rng.poisson(spikes_a_day * self.hours / 24)):
            curve[at : at + int(rng.integers(1, 4))] *= rng.uniform(2, 4)
        wants = Serves(np.clip(curve, 0, 100))
        stays_s = self._lognormal(mean_h * HOUR_S, 0.7)
        return self._job("inference", at_s, wants, SERVING, LOSES_NOTHING, stays_s=stays_s)

    def _phases(self, work_s: float, burst_s: float, pause_s: float) -> tuple[list[float], ...]:
        count = max(1, round(work_s / burst_s))
        parts = self.rng.dirichlet(np.full(count, 4.0)) * work_s
        return parts.tolist(), [0.0, *self.rng.exponential(pause_s, count - 1).tolist()]

    def _lognormal(self, mean: float, sigma: float) -> float:
        return float(self.rng.lognormal(np.log(mean) - sigma**2 / 2, sigma))

    def _request_kind(self, asks: Sequence[RequestKind]) -> RequestKind:
        weights = np.array([ask.weight for ask in asks])
        return asks[int(self.rng.choice(len(asks), p=weights / weights.sum()))]

    def _job(
        self, kind: str, at_s: float, wants: Works | Serves, asks: Sequence[RequestKind],
        notes: Mapping[str, str], *, group: str = "", stays_s: float = float("inf"),
    ) -> Job:  # fmt: skip
        ask = self._request_kind(asks)
        self._named += 1
        return Job(
            name=f"{kind}-{self._named}", kind=kind, at_s=at_s, wants=wants, limits=ask.limits,
            annotations={**(ask.annotations or {}), **notes}, stays_s=stays_s, group=group,
            checkpoint_s=float(notes.get(CHECKPOINT_KEY, 0)),
            memory_used=float(self.rng.uniform(0.3, 0.95)),
        )  # fmt: skip


def mixed(draw: Draw) -> list[Job]:
    """A bit of everything."""
    return [
        *(draw.training(t) for t in draw.times(17)),
        *(draw.training(t, WHOLE, 4) for t in draw.times(2.5)),
        *(draw.service(t) for t in draw.times(3.5)),
        *(draw.notebook(t) for t in draw.times(3.5)),
        *(job for t in draw.times(0.25) for job in draw.sweep(t)),
    ]


def services(draw: Draw) -> list[Job]:
    """Mostly inference, in three regions, together with trainings without promised cores."""
    shifts = (0.0, 8.0, 16.0)
    return [
        *(draw.service(t, shifts[n % 3], 36, 4) for n, t in enumerate(draw.times(11))),
        *(draw.training(t, SOFT, 3) for t in draw.times(12)),
    ]


def research(draw: Draw) -> list[Job]:
    """Notebooks that idle for days, and sweeps."""
    return [
        *(draw.notebook(t, 40) for t in draw.times(9)),
        *(job for t in draw.times(2.1) for job in draw.sweep(t)),
        *(draw.training(t) for t in draw.times(5)),
    ]


MADE: Mapping[str, Callable[[Draw], list[Job]]] = {
    "mixed": mixed, "services": services, "research": research,
}  # fmt: skip


def make(
    name: str, seed: int, *, nodes: int = NODES, hours: float = HOURS, load: float = 1.0
) -> Workload:
    """The workload of that name. Arrivals grow with the number of nodes, and with `load`; fewer
    than usual are some of the usual ones."""
    arrivals = load * nodes / NODES
    draw = Draw(seed, hours, max(arrivals, 1.0))
    jobs = MADE[name](draw)
    kept = draw.rng.random(len(jobs)) < arrivals
    jobs = [job for job, keep in zip(jobs, kept, strict=True) if keep]
    return Workload(
        name=name, nodes=nodes, cards=CARDS, memory_mib=MEMORY_MIB, hours=hours,
        jobs=tuple(sorted(jobs, key=lambda job: job.at_s)),
    )  # fmt: skip
