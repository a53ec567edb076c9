"""A cluster in virtual time on which jobs wait, start together, work, are evicted and end.

Cards are the ledger's, and a job has them when the ledger says that all of its pods are bound.
Time passes from one event to the next. Not modelled: the API server, kube-scheduler's own time,
and the seconds until gates are open and members have arrived.
"""

from __future__ import annotations

import heapq
from functools import cache
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from benchmarks.workloads_gang_counted import GangCounted
from benchmarks.workloads_gang_mixes import GangJob, GangWorkload
from tessera_core.admission.admit import AdmittedPod, admit
from tessera_core.gangs.scratch import MemberRequest
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import AllocationPhase
from tessera_core.registry.registry import load
from tessera_runtime.kube.timestamps import format_time
from tessera_schema.annotation_keys import CHECKPOINT_KEY
from tessera_schema.cards import MIB, Card
from tessera_schema.kube import Container, Node, NodeStatus, ObjectMeta, Pod, PodSpec, Resources
from tessera_schema.requests import PodRequest

CARDS: Final = 8
VENDOR: Final = "nvidia"
EPOCH_S: Final = 1_760_000_000.0
"""What the simulation's start is in Unix time."""
START_S: Final = 60.0
"""From having cards to working: image, weights."""
CHECKPOINT_S: Final = 1800.0
"""Each job saves its work so often; what an eviction loses is what came since."""
GROUP_KEY: Final = "scheduling.k8s.io/group-name"
QUEUE_KEY: Final = "scheduling.volcano.sh/queue-name"
_CONTAINER: Final = Container(name="main", resources=Resources(limits={f"{VENDOR}.com/gpu": 1}))


class GangRun(Struct, kw_only=True, eq=False):
    """A job that has come, and what has become of it."""

    job: GangJob
    members: tuple[MemberRequest, ...]
    left_s: float
    """Of its work."""
    waits_since: float
    lives: int = 0
    """Times that it was evicted."""
    started: float = 0.0
    """When it got its cards, if it has."""
    waited_s: float = 0.0

    @property
    def order(self) -> tuple[float, str]:
        """First come, first served."""
        return self.job.at_s, self.job.name


class GangPolicy(Protocol):
    """What starts jobs."""

    def came(self, run: GangRun) -> None:
        """A job waits, for the first time or since it was evicted."""

    def ended(self, run: GangRun) -> None:
        """A job has ended, or was evicted."""

    def schedule(self) -> float | None:
        """Start what can be started; when to try again although nothing happens, None = never."""


class GangCluster:
    """One run of one policy."""

    def __init__(self, workload: GangWorkload) -> None:
        """All cards are free and nobody has come."""
        self.workload = workload
        self.now = 0.0
        self.ledger = Ledger()
        self.waiting: dict[str, GangRun] = {}
        self.running: dict[str, GangRun] = {}
        self.nodes = [f"node-{number:03}" for number in range(workload.nodes)]
        for node in self.nodes:
            cards = [
                Card(id=f"{node}-{n}", index=n, vendor=VENDOR, memory_bytes=81920 * MIB, slots=10)
                for n in range(CARDS)
            ]
            self.ledger.put_node(node, cards)
        self.filters = KubeSchedulerFilters(
            [Node(metadata=ObjectMeta(name=node), status=NodeStatus()) for node in self.nodes],
            managed=load().resources,
        )
        self.cards = len(self.nodes) * CARDS
        self.counted = GangCounted(workload, self.cards)
        self._ends: list[tuple[float, str, int]] = []
        """Time, job, its life."""
        self._coming = 0

    @property
    def unix(self) -> float:
        """The time as objects and the ledger have it."""
        return EPOCH_S + self.now

    @property
    def used(self) -> int:
        """Cards that jobs have."""
        return sum(run.job.cards for run in self.running.values())

    def run(self, policy: GangPolicy) -> GangCounted:
        """Until the last job has ended."""
        again: float | None = None
        while True:
            times = [again, self._next_end(), self._next_arrival()]
            due = min((at for at in times if at is not None), default=None)
            if due is None:
                break
            self.counted.pass_time(self, max(due, self.now))
            self.now = max(due, self.now)
            self._let_end(policy)
            self._let_come(policy)
            again = policy.schedule()
        self.counted.stuck = len(self.waiting)
        return self.counted

    # -- what policies do

    def start(self, run: GangRun) -> None:
        """The ledger has reserved cards for all of its pods: they are bound."""
        for member in run.members:
            uid = member.pod.metadata.uid
            if self._reserved(uid):
                self.ledger.binding_sent(uid)
                self.ledger.resolve_binding(uid, bound=True)
        del self.waiting[run.job.name]
        self.running[run.job.name] = run
        run.started = self.now
        run.waited_s += self.now - run.waits_since
        heapq.heappush(self._ends, (self.now + START_S + run.left_s, run.job.name, run.lives))
        if not run.lives:
            self.counted.started(run.job, run.waited_s)

    def evict(self, run: GangRun, policy: GangPolicy) -> None:
        """All of its pods go; its controller makes others, which go on from its last save."""
        worked_s = max(self.now - run.started - START_S, 0.0)
        saved_s = worked_s // CHECKPOINT_S * CHECKPOINT_S
        self.counted.evicted(run.job, self.now - run.started - saved_s)
        self._leave(run, policy)
        again = GangRun(
            job=run.job, members=members_of(run.job, run.lives + 1), lives=run.lives + 1,
            left_s=run.left_s - saved_s, waits_since=self.now, waited_s=run.waited_s,
        )  # fmt: skip
        self._wait(again, policy)

    # -- events

    def _reserved(self, uid: str) -> bool:
        entry = self.ledger.entry(uid)
        return entry is not None and entry.phase is AllocationPhase.RESERVED

    def _next_end(self) -> float | None:
        while self._ends:
            at, name, lives = self._ends[0]
            run = self.running.get(name)
            if run is not None and run.lives == lives:
                return at
            heapq.heappop(self._ends)
        return None

    def _next_arrival(self) -> float | None:
        jobs = self.workload.jobs
        return jobs[self._coming].at_s if self._coming < len(jobs) else None

    def _let_end(self, policy: GangPolicy) -> None:
        while (at := self._next_end()) is not None and at <= self.now:
            run = self.running[heapq.heappop(self._ends)[1]]
            self._leave(run, policy)
            self.counted.ended(self.now)

    def _let_come(self, policy: GangPolicy) -> None:
        while (at := self._next_arrival()) is not None and at <= self.now:
            job = self.workload.jobs[self._coming]
            self._coming += 1
            run = GangRun(
                job=job, members=members_of(job, 0), left_s=job.run_s, waits_since=self.now
            )
            self._wait(run, policy)

    def _wait(self, run: GangRun, policy: GangPolicy) -> None:
        self.waiting[run.job.name] = run
        policy.came(run)

    def _leave(self, run: GangRun, policy: GangPolicy) -> None:
        del self.running[run.job.name]
        for member in run.members:
            self.ledger.ended(member.pod.metadata.uid)
        policy.ended(run)


def members_of(job: GangJob, life: int) -> tuple[MemberRequest, ...]:
    """The pods that the job's controller makes, each for one whole card."""
    created = format_time(EPOCH_S + job.at_s)
    gang = {GROUP_KEY: job.name} if job.cards > 1 else {}
    notes = {**gang, QUEUE_KEY: job.queue, CHECKPOINT_KEY: f"{CHECKPOINT_S:g}"}
    return tuple(
        _admitted(
            Pod(
                metadata=ObjectMeta(
                    name=name, uid=name, namespace=job.queue, annotations=notes,
                    creation_timestamp=created,
                ),
                spec=PodSpec(containers=(_CONTAINER,), priority=job.priority),
            )
        )
        for name in (f"{job.name}-{life}-{number:02}" for number in range(job.cards))
    )  # fmt: skip


def _admitted(pod: Pod) -> MemberRequest:
    meta = pod.metadata
    request = replace(_request(), namespace=meta.namespace, name=meta.name, uid=meta.uid)
    return MemberRequest(pod, request)


@cache
def _request() -> PodRequest:
    """What admission makes of a pod of any job."""
    admitted = admit(load(), Pod(spec=PodSpec(containers=(_CONTAINER,))))
    if not isinstance(admitted, AdmittedPod):
        raise TypeError(f"a pod for one card is not admitted: {admitted}")
    return admitted.request
