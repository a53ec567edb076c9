"""A cluster in which pods and gangs of two queues and three priorities are evicted for each other,
and come again."""

from __future__ import annotations

from random import Random
from typing import Final

from msgspec.structs import replace

from tessera_scheduler.preemption.settings import PreemptionSettings, PreemptionSwitch
from tests.machine.evictions.jobs import (
    GROUPS_OF,
    NAMESPACES,
    PODS_OF,
    QUEUES,
    Job,
    a_queue,
    job_of,
)
from tests.machine.gangs.gang_simulation import SETTINGS, GangSimulation
from tests.scheduler.gangs.gang_cluster import CRDS, VOLCANO
from tests.scheduler.gangs.test_queues_hold import QUEUES as QUEUE_OBJECTS
from tests.scheduler.gangs.test_queues_hold import definition

PREEMPTION: Final = PreemptionSettings(
    mode=PreemptionSwitch.ON, protect_s=5, after_s=2, evict_s=20, promise_s=200
)
SLOWEST_S: Final = 25.0
"""The most seconds that a pod takes to end."""


class EvictionSimulation(GangSimulation):
    """Nodes with two cards each, two queues that deserve a part of the cards each, and jobs."""

    def __init__(self, chance: Random, *, nodes: int, reclaims: bool) -> None:
        """With `reclaims` queues give back what they borrow."""
        preemption = replace(PREEMPTION, reclaim=reclaims)
        settings = replace(SETTINGS, preemption=preemption)
        super().__init__(chance, nodes=nodes, settings=settings)
        self.jobs: dict[str, Job] = {}
        """All that ever were, by name."""
        self.evicted: set[str] = set()
        """Names of pods that were evicted, and are not made again yet."""
        self.deserved = {name: chance.randint(0, 2 * nodes) for name in QUEUES}
        """Cards that each queue deserves; the cluster may have fewer."""
        self.weights = {name: chance.randint(1, 3) for name in QUEUES}
        self._leaves: dict[str, float] = {}
        """Uid of a pod that was deleted -> when it will have ended."""
        for namespace in NAMESPACES:
            self.cluster.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        self.cluster.call("POST", CRDS, definition(VOLCANO, "queues", "Queue", "Cluster"))
        for name in QUEUES:
            queue = a_queue(name, self.deserved[name], self.weights[name])
            self.cluster.call("POST", QUEUE_OBJECTS, queue)

    def mend_groups(self) -> None:
        """PodGroups come with their jobs, and stay."""

    def has_ended(self, uid: str) -> bool:
        """Whether a pod that was deleted has ended: at once, or within its time."""
        now = self.loop.time()
        if uid not in self._leaves:
            self._leaves[uid] = now + self.chance.choice((0.0, 2.0, 10.0, SLOWEST_S))
        return now >= self._leaves[uid]

    # -- users

    def begin(self, job: Job, *, gated: bool) -> None:
        """Create a job's pods, and its PodGroup."""
        self.jobs[job.name] = job
        if job.least:
            self.cluster.call("POST", GROUPS_OF.format(job.namespace), job.group())
        for name in job.names:
            self._create(job, name, gated=gated)

    def end_job(self, job: Job, grace_s: int) -> None:
        """Delete its pods; none is made again."""
        self.evicted -= set(job.names)
        for uid, pod in list(self.cluster.truth.pods.items()):
            if job_of(pod.metadata.name) == job.name:
                self.cluster.delete(uid, grace_s)

    def come_again(self) -> list[str]:
        """Make pods again that were evicted and have ended, as their controllers do; their
        names."""
        there = {pod.metadata.name for pod in self.cluster.truth.pods.values()}
        names = sorted(self.evicted - there)
        for name in names:
            self._create(self.jobs[job_of(name)], name, gated=False)
        self.evicted -= set(names)
        return names

    def _create(self, job: Job, name: str, *, gated: bool) -> None:
        self.cluster.call("POST", PODS_OF.format(job.namespace), job.pod(name, gated=gated))

    def job_of(self, uid: str) -> Job | None:
        """Of a living pod."""
        pod = self.cluster.truth.pods.get(uid)
        return None if pod is None else self.jobs.get(job_of(pod.metadata.name))
