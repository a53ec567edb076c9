"""What the simulator knows of a pod: what it asks for, and how much of a card it wants when.

Two ways of wanting. A pod that *works* has bursts of work with pauses between: a burst goes on
until its work is done, however long that takes, so what it gets decides when it is finished. A pod
that *serves* wants what its clients ask for at that moment; what it does not get then is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tessera_core.fleet.arrays import Floats

HOUR_S = 3600.0
STEP_S = 600.0
"""Length of a step of a curve."""


@dataclass(frozen=True)
class Works:
    """Bursts of work with pauses: a training with its input stalls, a notebook with its user."""

    peak_percent: float
    """Of each card, while it computes and nothing holds it back."""
    bursts_s: tuple[float, ...]
    """Card-seconds of work on each card, burst by burst."""
    pauses_s: tuple[float, ...]
    """Before each burst."""


@dataclass(frozen=True, eq=False)
class Serves:
    """A curve in steps of `STEP_S`."""

    percents: Floats
    """Of the card."""
    from_start: bool = False
    """Whether the curve begins when the pod runs; else when the simulation does."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A pod to come."""

    name: str
    kind: str
    at_s: float
    wants: Works | Serves
    limits: Mapping[str, int | str]
    annotations: Mapping[str, str] = field(default_factory=dict)
    stays_s: float = float("inf")
    """It leaves when it has run for so long, whether its work is done or not."""
    checkpoint_s: float = 0
    """How often it saves its work, in seconds of running; 0 = nothing is lost when it moves."""
    memory_used: float = 0.8
    """Part of its memory that it uses, where `memory_mib` does not say it."""
    memory_mib: float = 0
    memory_grows_s: float = 0
    """Seconds of running until it uses that much; it begins with `memory_first` of it."""
    memory_first: float = 1
    load: str = "compute"
    """What its kernels are like, a name of `workloads_interference`."""
    owner: str = ""
    """Who makes such pods again and again, and their namespace; empty = nobody that is known."""
    controller: str = "ReplicaSet"
    """Kind of the object that makes the pod again when it is moved."""
    group: str = ""
    """Pods that came together; the work is done when all of them have finished."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A cluster and all pods that come, in order of time."""

    name: str
    nodes: int
    cards: int
    """Of each node."""
    memory_mib: int
    """Of each card."""
    hours: float
    jobs: tuple[Job, ...]
    spare_memory: bool = False
    """Best-effort pods have memory that owners do not use (`workloads_memory`)."""


def alone_s(job: Job) -> float:
    """Seconds that its work takes when nothing holds it back; how long it stays if it serves."""
    wants = job.wants
    if not isinstance(wants, Works):
        return job.stays_s
    return sum(wants.pauses_s) + sum(wants.bursts_s) * 100 / wants.peak_percent


def constant(percent: float) -> Floats:
    """A curve of one step, which goes on."""
    return np.array([percent])
