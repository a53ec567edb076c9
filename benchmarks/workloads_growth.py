"""Memory that grows: pods begin with a part of what they will use, and need hours to reach it.

In the workloads as made a pod uses all of its memory from its first second, so that nothing can be
seen of what is granted, not yet used, and needed later. How memory grows on real cards was not
published in a form that could be used; the numbers here are guesses. A training allocates most of
it in its first steps and some more with its longest samples and its checkpoints, a service's cache
fills with its requests, a notebook grows with every cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from benchmarks.workloads_pods import HOUR_S, Workload

FIRST: Final[Mapping[str, tuple[float, float]]] = {
    "training": (0.6, 0.9), "batch": (0.6, 0.9), "inference": (0.3, 0.8), "notebook": (0.05, 0.4),
}  # fmt: skip
"""Part of its memory with which a pod of a kind begins: least and most."""
HOURS: Final[Mapping[str, tuple[float, float]]] = {
    "training": (0.1, 1.0), "batch": (0.1, 1.0), "inference": (1.0, 12.0), "notebook": (2.0, 24.0),
}  # fmt: skip
"""Hours until it uses all of it."""
_ALL: Final = (1.0, 1.0)


def with_growth(workload: Workload, seed: int) -> Workload:
    """The same pods with memory that grows. The same seed gives the same workload."""
    rng, found = np.random.default_rng([seed, 4]), []
    for job in workload.jobs:
        first = float(rng.uniform(*FIRST.get(job.kind, _ALL)))
        grows_s = float(rng.uniform(*HOURS.get(job.kind, _ALL))) * HOUR_S
        found.append(replace(job, memory_first=first, memory_grows_s=grows_s))
    return replace(workload, jobs=tuple(found))
