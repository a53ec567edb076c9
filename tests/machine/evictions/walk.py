"""A walk of evictions: pods and gangs come, run, end and come again, and the leader ends between
any two steps of a plan, by a seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from tessera_embedded.apiserver.faults import Answer, Cut, Delay, Hang, InjectedFault
from tests.machine.evictions.eviction_simulation import EvictionSimulation
from tests.machine.evictions.invariants import EvictionInvariants
from tests.machine.evictions.jobs import NAMESPACES, PRIORITIES, QUEUES, Job, job_of
from tests.machine.evictions.quiet import Quiet
from tests.machine.gangs.disturbances import FAULTS, Disturbances

MOST_PODS: Final = 24
HOUR_S: Final = 3700.0
OF_A_PLAN: Final = ("/rebalanceplans", "/status", "/eviction", "/binding")
"""What the paths have in them of the writes that bring a plan further."""
_PLANS_FAIL: Final[Sequence[tuple[InjectedFault, ...]]] = (
    (InjectedFault("POST", ".*/rebalanceplans", Cut(after=True)),),
    (InjectedFault("POST", ".*/rebalanceplans", Delay(4)),),
    (InjectedFault("PATCH", ".*/rebalanceplans/.*", Cut(after=True)),),
    (InjectedFault("PATCH", ".*/rebalanceplans/.*", Hang()),),
    (InjectedFault("PATCH", ".*/rebalanceplans/.*", Answer(500), 2),),
    (InjectedFault("GET", ".*/rebalanceplans", Answer(500), 3),),
    (InjectedFault("POST", ".*/eviction", Hang()),),
    (InjectedFault("POST", ".*/eviction", Delay(4), 2),),
    (InjectedFault("POST", ".*/eviction", Answer(429, retry_after_s=1), 40),),
    (InjectedFault("POST", ".*/eviction", Answer(500), 2),),
)


class EvictionWalk(Disturbances):
    """Of one world."""

    def __init__(self, seed: int) -> None:
        """In one of four walks queues give nothing back."""
        random = Random(seed)  # noqa: S311  (a walk that can be repeated)
        world = EvictionSimulation(random, nodes=random.randint(2, 3), reclaims=seed % 4 != 3)
        super().__init__(random, world)
        self.jobs = world
        self.invariants = EvictionInvariants(world)
        self.quiet = Quiet(world, self.invariants)
        self.faults = (*FAULTS, *_PLANS_FAIL)
        self._made = 0

    @property
    def moves(self) -> list[tuple[int, Callable[[], object]]]:
        """See `Disturbances`."""
        return [
            (16, self.pod_is_made), (8, self.gang_is_made), (4, self.job_ends),
            (3, self.pod_is_deleted), (3, self.job_that_waits_goes), (12, self.evicted_come_again),
            (1, self.an_hour_goes_by), (1, self.node_goes), (1, self.card_fails),
            (3, self.member_is_passed_over), (4, self.all_are_tried), (2, self.node_is_not_offered),
            (2, self.kube_scheduler_restarts), (1, self.kube_scheduler_stops),
            (6, self.binding_fails), (10, self.calls_fail), (4, self.events_are_late),
            (3, self.watches_break), (4, self.crash_comes), (10, self.plan_is_cut_short),
            (3, self.scheduler_changes), (2, self.lease_is_lost), (6, self.schedulers_go_on),
            (4, self.scheduler_starts), (12, self.things_are_mended), (10, self.nothing_happens),
        ]  # fmt: skip

    @property
    def counts(self) -> Counter[str]:
        """See `Disturbances`."""
        return self.invariants.seen + self.world.crashes

    def note(self) -> None:
        """See `Disturbances`."""

    def check(self) -> None:
        """See `Disturbances`."""
        self.invariants.check()

    async def end(self) -> None:
        """See `Disturbances`."""
        await self.quiet.comes()

    # -- users

    def pod_is_made(self) -> str:
        return self._begin("s", 0)

    def gang_is_made(self) -> str:
        return self._begin("g", self.random.choice((2, 2, 3)))

    def _begin(self, letter: str, least: int) -> str:
        self._made += 1
        job = Job(
            name=f"{letter}{self._made}", namespace=self.random.choice(NAMESPACES),
            queue=self.random.choice(QUEUES), priority=self.random.choice(PRIORITIES),
            halves=self.random.choice((1, 2, 2)), least=least,
        )  # fmt: skip
        if len(self.world.cluster.truth.pods) + len(job.names) > MOST_PODS:
            return "too many pods"
        self.jobs.begin(job, gated=self.random.random() < 0.8)
        return f"{job}"

    def job_ends(self) -> str | None:
        """It has done its work."""
        return self._end(0, bound=True)

    def job_that_waits_goes(self) -> str | None:
        return self._end(self.random.choice((0, 30)), bound=False)

    def _end(self, grace_s: int, *, bound: bool) -> str | None:
        pods = self.pods(bound=bound)
        if not pods:
            return None
        job = self.jobs.jobs[job_of(self.random.choice(pods).metadata.name)]
        self.jobs.end_job(job, grace_s)
        return job.name

    def pod_is_deleted(self) -> str | None:
        """One alone, and it comes again."""
        pods = self.pods()
        if not pods:
            return None
        pod = self.random.choice(pods)
        self.jobs.evicted.add(pod.metadata.name)
        self.world.cluster.delete(pod.metadata.uid, self.random.choice((0, 30)))
        return pod.name

    def evicted_come_again(self) -> str:
        return ", ".join(self.jobs.come_again())

    def an_hour_goes_by(self) -> None:
        """In which nothing happens: evictions of before count no more, promises are over."""
        self.world.cluster.clock.jump(HOUR_S)

    # -- schedulers

    def plan_is_cut_short(self) -> str | None:
        """The leader ends at one of the next writes of a plan."""
        replica = self.world.leader
        if replica is None:
            return None
        part, sent = self.random.choice(OF_A_PLAN), self.random.random() < 0.5
        self.world.doom(replica, self.random.choice((1, 1, 2, 3)), sent=sent, part=part)
        return f"{replica.name}: at {part}, which is {'' if sent else 'not '}sent"
