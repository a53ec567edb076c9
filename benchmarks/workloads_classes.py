"""Work that is promised no cores: a part of the jobs of a made workload is best-effort.

Who says so is not known of any real cluster. Here it is drawn among pods that work and ask for a
part of a card: services and notebooks have users who wait, and a whole card has nobody who leaves
anything. What they ask for otherwise stays: their memory counts, their cores do not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from benchmarks.workloads_cluster import WHOLE, Unreadable, request_of
from benchmarks.workloads_pods import Job, Workload, Works
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.annotation_keys import BEST_EFFORT, CLASS_KEY

_USERS: Final = frozenset({"notebook"})
"""Kinds that work, with a user who waits for them."""


def with_best_effort(
    workload: Workload, registry: DialectRegistry, part: float, seed: int
) -> Workload:
    """The same pods, that part of those that may be best-effort, 0 to 1. Pods that came together,
    or are of one owner, are of one class. The same seed gives the same workload."""
    rng, chosen = np.random.default_rng([seed, 5]), dict[str, bool]()
    found = []
    for job in workload.jobs:
        unit = job.owner or job.group or job.name
        if unit not in chosen:
            chosen[unit] = bool(rng.random() < part)
        found.append(_best_effort(registry, job) if chosen[unit] else job)
    return replace(workload, jobs=tuple(found))


def _best_effort(registry: DialectRegistry, job: Job) -> Job:
    """As it is where it may not be best-effort."""
    if not isinstance(job.wants, Works) or job.kind in _USERS:
        return job
    if request_of(registry, job).containers[0].requests[0].cores_percent >= WHOLE:
        return job
    other = replace(job, annotations={**job.annotations, CLASS_KEY: BEST_EFFORT})
    try:
        request_of(registry, other)
    except Unreadable:
        return job
    return other
