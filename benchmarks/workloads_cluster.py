"""Facts of the simulated cluster: how time passes, what a node is, what is known of a pod."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from benchmarks.workloads_pods import Job, Workload, Works, alone_s
from benchmarks.workloads_seats import Seat
from tessera_core.admission.admit import AdmittedPod, admit
from tessera_core.registry.registry import DialectRegistry
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
            name=job.name, namespace=job.owner or job.kind, uid=job.name,
            annotations=dict(job.annotations),
        ),
        spec=PodSpec(containers=(container,)),
        status=PodStatus(phase="Pending"),
    )  # fmt: skip


def node_name(number: int) -> str:
    """Of a node."""
    return f"node-{number:03}"


def ideal_s(job: Job) -> float:
    """Seconds from its coming to its end when nothing holds it back."""
    return alone_s(job) + START_S * isinstance(job.wants, Works)


class Unreadable(Exception):
    """A job's manifest is not admitted; the message says why."""


def request_of(registry: DialectRegistry, job: Job) -> PodRequest:
    """What admission makes of its manifest. Raises Unreadable."""
    admitted = admit(registry, manifest(job))
    if not isinstance(admitted, AdmittedPod):
        raise Unreadable(f"pod {job.name}: {getattr(admitted, 'message', 'no card asked')}")
    return admitted.request


def requested_percent(registry: DialectRegistry, job: Job) -> float:
    """Cores that it asks for, percent of a card; all of it where it names none."""
    return request_of(registry, job).containers[0].requests[0].cores_percent or float(WHOLE)


def cards_of(node: int, workload: Workload) -> tuple[Card, ...]:
    """The cards of a node."""
    return tuple(
        Card(
            id=f"GPU-{node:03}-{i}", index=i, vendor=VENDOR, model=MODEL, slots=SLOTS,
            memory_bytes=workload.memory_mib * MIB, numa=2 * i // workload.cards, mode="hami-core",
        )
        for i in range(workload.cards)
    )  # fmt: skip
