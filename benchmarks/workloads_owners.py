"""Who makes the pods: controllers, of which the product moves some, and owners that come again.

*Controllers*: in the workloads as made every pod but a notebook can be moved. In a real cluster a
training is a Job's, and a Job counts an eviction as a failure, so the product leaves it alone until
it is marked otherwise. `with_controllers` says so.

*Owners*: what a made pod wants is drawn apart from all others. In PAI about 65 % of the tasks are
runs of one that ran at least five times (MLaaS in the Wild, NSDI'22), and runs of one task are
alike. `with_owners` gives such pods an owner, which is their namespace, and all pods of an owner
ask for the same and want about as much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from benchmarks.workloads_pods import Job, Serves, Workload, Works

CONTROLLERS: Final[Mapping[str, str]] = {
    "training": "Job", "batch": "Job", "inference": "ReplicaSet", "notebook": "StatefulSet",
}  # fmt: skip
RECURRING: Final = 0.65
"""Part of the pods that have an owner."""
RUNS: Final = 8
"""Of one owner, in the mean."""
NOISE: Final = 0.1
"""How much runs of one owner differ in what they want: the deviation of its logarithm."""
_FULL: Final = 100.0


def with_controllers(workload: Workload) -> Workload:
    """The same pods, of controllers as a cluster has them."""
    jobs = (replace(job, controller=CONTROLLERS.get(job.kind, "")) for job in workload.jobs)
    return replace(workload, jobs=tuple(jobs))


def with_owners(workload: Workload, seed: int) -> Workload:
    """The same pods, of which most come again and again. The same seed gives the same workload."""
    rng, found = np.random.default_rng([seed, 3]), list(workload.jobs)
    for kind in sorted({job.kind for job in workload.jobs}):
        units = _units(workload.jobs, kind)
        count = max(1, round(RECURRING * len(units) / RUNS))
        first: dict[int, Job] = {}
        for unit in units:
            owner, noise = int(rng.integers(count)), float(np.exp(rng.normal(0, NOISE)))
            if rng.random() >= RECURRING:
                continue
            model = first.setdefault(owner, workload.jobs[unit[0]])
            for number in unit:
                like = _like(model, workload.jobs[number], noise)
                found[number] = replace(like, owner=f"{kind}-owner-{owner}")
    return replace(workload, jobs=tuple(found))


def _units(jobs: Sequence[Job], kind: str) -> list[list[int]]:
    """Numbers of the jobs of a kind; those of a group together."""
    found: dict[str, list[int]] = {}
    for number, job in enumerate(jobs):
        if job.kind == kind:
            found.setdefault(job.group or job.name, []).append(number)
    return list(found.values())


def _like(model: Job, job: Job, noise: float) -> Job:
    """The job, as hungry as the model and asking for the same; its length and its pauses stay."""
    wants = job.wants
    if isinstance(wants, Works) and isinstance(model.wants, Works):
        peak = min(model.wants.peak_percent * noise, _FULL)
        part = peak / wants.peak_percent
        wants = Works(peak, tuple(work * part for work in wants.bursts_s), wants.pauses_s)
    elif isinstance(wants, Serves) and isinstance(model.wants, Serves):
        part = model.wants.percents.mean() / max(float(wants.percents.mean()), 1e-9) * noise
        wants = Serves(np.minimum(wants.percents * part, _FULL), wants.from_start)
    return replace(
        job, wants=wants, limits=model.limits, annotations=model.annotations, load=model.load,
        memory_used=model.memory_used, checkpoint_s=model.checkpoint_s,
    )  # fmt: skip
