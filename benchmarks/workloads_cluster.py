"""Facts of the simulated cluster: how time passes, what a node is, what is known of a pod."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from benchmarks.workloads_pods import Job, Workload, Works
from benchmarks.workloads_seats import Seat
from tessera_schema.cards import MIB, Card
from tessera_schema.grants import Grant
from tessera_schema.kube import Container, ObjectMeta, Pod, PodSpec, PodStatus, Resources
from tessera_schema.requests import PodRequest

TICK_S = 60.0
REACTION_S = 1.0
"""The budget for taking back what was lent."""
SETTLE_S = 5.0
"""As long as the lender takes at most to believe in what has changed."""
START_S = 60.0
"""From being placed to wanting time: image, weights, warming up."""
SLOTS = 10
WHOLE = 100
VENDOR = "nvidia"
MODEL = "NVIDIA-A100-SXM4-80GB"
EPOCH_S = 1_760_000_000.0
"""What the simulation's start is in Unix time, for times that are published in it."""


@dataclass
class Run:
    """A job that has come, and what has become of it."""

    number: int
    job: Job
    pod: Pod
    request: PodRequest
    came_s: float
    grant: Grant | None = None
    seats: list[Seat] = field(default_factory=list)
    open: set[Seat] = field(default_factory=set)
    """Seats whose work is not done."""
    started_s: float = 0
    leaves_s: float = np.inf
    moves: int = 0
    began: list[tuple[int, float]] = field(default_factory=list)
    """What was left on each card when it was moved."""


def manifest(job: Job) -> Pod:
    """The pod as its user wrote it."""
    container = Container(name="main", resources=Resources(limits=dict(job.limits)))
    return Pod(
        metadata=ObjectMeta(
            name=job.name, namespace=job.kind, uid=job.name, annotations=dict(job.annotations)
        ),
        spec=PodSpec(containers=(container,)),
        status=PodStatus(phase="Pending"),
    )  # fmt: skip


def node_name(number: int) -> str:
    """Of a node."""
    return f"node-{number:03}"


def ideal_s(job: Job) -> float:
    """Seconds that its work takes when nothing holds it back."""
    wants = job.wants
    if not isinstance(wants, Works):
        return job.stays_s
    return START_S + sum(wants.pauses_s) + sum(wants.bursts_s) * 100 / wants.peak_percent


def cards_of(node: int, workload: Workload) -> tuple[Card, ...]:
    """The cards of a node."""
    return tuple(
        Card(
            id=f"GPU-{node:03}-{i}", index=i, vendor=VENDOR, model=MODEL, slots=SLOTS,
            memory_bytes=workload.memory_mib * MIB, numa=2 * i // workload.cards, mode="hami-core",
        )
        for i in range(workload.cards)
    )  # fmt: skip
