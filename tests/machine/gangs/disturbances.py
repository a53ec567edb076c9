"""What befalls schedulers that a walk is about: nodes, kube-scheduler, networks and crashes, by a
seed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from tessera_embedded.apiserver.faults import Answer, Cut, Delay, Hang, InjectedFault
from tessera_schema.kube import Pod
from tests.machine.faults import BINDING_FAULTS
from tests.machine.gangs.gang_simulation import MOST_REPLICAS, GangSimulation
from tests.machine.replicas import Replica
from tests.machine.walking import LEASE

_PODS: Final = "/api/v1/pods"
FAULTS: Final[Sequence[tuple[InjectedFault, ...]]] = (
    (InjectedFault("PATCH", ".*/pods/.*", Answer(500), 2),),
    (InjectedFault("PATCH", ".*/pods/.*", Answer(409)),),
    (InjectedFault("PATCH", ".*/pods/.*", Cut(after=True)),),
    (InjectedFault("PATCH", ".*/pods/.*", Hang(), 2),),
    (InjectedFault("GET", ".*/pods/[^/]+", Answer(500), 3),),
    (InjectedFault("GET", _PODS, Answer(410)), InjectedFault("GET", _PODS, Answer(500), 2)),
    (InjectedFault("GET", ".*/podgroups", Answer(500), 2),),
    (InjectedFault("GET", "/api/v1/nodes", Answer(503), 2),),
    (InjectedFault("POST", ".*/rebalanceplans", Answer(500), 2),),
    (InjectedFault("PATCH", ".*/rebalanceplans/.*", Answer(409)),),
    (InjectedFault("POST", ".*/eviction", Answer(429), 3),),
    (InjectedFault("POST", ".*/eviction", Cut(after=True)),),
    (InjectedFault("PUT", LEASE, Cut(after=True), 2),),
    (InjectedFault("PUT", LEASE, Delay(4), 2),),
    (InjectedFault("*", ".*", Cut(), 4),),
    (InjectedFault("*", ".*", Answer(500), 4),),
)


class Disturbances(ABC):
    """One world, and steps in it. A walk says what its users do."""

    def __init__(self, random: Random, world: GangSimulation) -> None:
        self.random = random
        self.world = world
        self.faults: Sequence[tuple[InjectedFault, ...]] = FAULTS
        """Of calls; each is a group that comes together."""
        self.steps: list[str] = []
        """What was done, and when."""

    @property
    @abstractmethod
    def moves(self) -> list[tuple[int, Callable[[], object]]]:
        """What may happen, each with its weight."""

    @property
    @abstractmethod
    def counts(self) -> Counter[str]:
        """What was checked and what happened, how often."""

    @abstractmethod
    def note(self) -> None:
        """Take down what was so before the next move."""

    @abstractmethod
    def check(self) -> None:
        """Raise AssertionError where an invariant was broken."""

    @abstractmethod
    async def end(self) -> None:
        """Nothing goes wrong any more. Raises AssertionError."""

    def go(self, steps: int) -> None:
        """Take so many steps, each with some time after it. Raises AssertionError with the steps
        so far."""
        self.world.start()
        try:
            self.world.do(self.world.until("somebody leads", lambda: self.world.leader, 60))
            for _ in range(steps):
                self.step()
            self.world.do(self.end())
        except AssertionError as e:
            last = "\n".join((f"after {len(self.steps)} steps, the last ones:", *self.steps[-60:]))
            raise AssertionError(f"{e}\n{last}") from e
        finally:
            self.world.close()

    def step(self) -> None:
        """One of the moves."""
        weights = [weight for weight, _ in self.moves]
        (move,) = self.random.choices([move for _, move in self.moves], weights)
        seconds = self.random.choices((0.0, 0.03, 0.3, 1, 3, 8, 25), (4, 6, 6, 8, 6, 3, 1))[0]
        at = f"{self.world.loop.time():9.2f}"

        async def act() -> None:
            self.note()
            done = move()
            self.steps.append(f"{at} {move.__name__} {'' if done is None else done}")
            await self.world.advance(seconds)

        self.world.do(act())
        self.check()

    # -- who is meant

    def pods(self, *, bound: bool | None = None) -> list[Pod]:
        """All, or those with a node, or those without."""
        pods = self.world.cluster.truth.pods.values()
        return [pod for pod in pods if bound is None or bool(pod.spec.node_name) is bound]

    def replica(self) -> Replica | None:
        """Mostly who leads."""
        leader, alive = self.world.leader, self.world.alive
        if leader is not None and self.random.random() < 0.8:
            return leader
        return self.random.choice(alive) if alive else None

    # -- nodes

    def node_goes(self) -> str:
        name = self.random.choice(list(self.world.cluster.cards))
        self.world.lose(name)
        return name

    def card_fails(self) -> str:
        cluster = self.world.cluster
        node = self.random.choice(list(cluster.cards))
        card = self.random.choice(list(cluster.cards[node]))
        cluster.ail(card)
        cluster.publish(node)
        return card

    # -- kube-scheduler

    def member_is_passed_over(self) -> str | None:
        """It does not come."""
        pods = self.pods(bound=False)
        if not pods:
            return None
        pod = self.random.choice(pods)
        self.world.kube_scheduler.passed_over.add(pod.metadata.uid)
        return pod.name

    def all_are_tried(self) -> None:
        self.world.kube_scheduler.round(self.world.leader)

    def node_is_not_offered(self) -> str:
        name = self.random.choice(list(self.world.cluster.cards))
        self.world.kube_scheduler.away.add(name)
        return name

    def kube_scheduler_restarts(self) -> None:
        self.world.kube_scheduler.restart()

    def kube_scheduler_stops(self) -> None:
        self.world.kube_scheduler.stopped = True

    # -- the API server and the way to it

    def binding_fails(self) -> str | None:
        replica, effect = self.replica(), self.random.choice(BINDING_FAULTS)
        if replica is None:
            return None
        replica.line.faults.add(InjectedFault("POST", ".*/binding", effect))
        return f"{replica.name}: {effect}"

    def calls_fail(self) -> str | None:
        replica, faults = self.replica(), self.random.choice(self.faults)
        if replica is None:
            return None
        for fault in faults:
            replica.line.faults.add(fault)
        if faults[0].path == _PODS:
            self.world.cluster.store.compact()
            replica.line.cut_watches()
        return f"{replica.name}: {faults}"

    def events_are_late(self) -> str | None:
        replica = self.replica()
        if replica is None:
            return None
        line = replica.line
        line.event_delay_s = self.random.choice((0.0, 0.2, 1.0, 4.0, 12.0))
        line.event_times = self.random.randint(1, 2)
        return f"{replica.name}: {line.event_delay_s:g} s"

    def watches_break(self) -> None:
        if self.random.random() < 0.5:
            self.world.cluster.store.compact()
        if replica := self.replica():
            replica.line.cut_watches()

    # -- schedulers

    def crash_comes(self) -> str | None:
        """Between two writes."""
        replica = self.world.leader
        if replica is None:
            return None
        writes, sent = self.random.randint(1, 5), self.random.random() < 0.5
        self.world.doom(replica, writes, sent=sent)
        return f"{replica.name}: at write {writes}, which is {'' if sent else 'not '}sent"

    def scheduler_changes(self) -> str | None:
        replica = self.replica()
        if replica is None:
            return None
        how = self.random.choice(("stop", "cut", "kill", "end"))
        if how != "end" or not replica.process.stopped:
            getattr(replica, how)()
        return f"{replica.name}: {how}"

    def lease_is_lost(self) -> str | None:
        leader = self.world.leader
        if leader is None:
            return None
        leader.line.faults.add(InjectedFault("PUT", LEASE, Answer(500), 14))
        return leader.name

    def schedulers_go_on(self) -> None:
        for replica in self.world.alive:
            replica.go_on()

    def scheduler_starts(self) -> None:
        if len(self.world.alive) < MOST_REPLICAS:
            self.world.start()

    def things_are_mended(self) -> None:
        """Of kube-scheduler, nodes, cards and PodGroups, most of the time."""
        self.world.kube_scheduler.mend()
        for mends in (self.world.mend_nodes, self.world.mend_groups):
            if self.random.random() < 0.8:
                mends()

    def nothing_happens(self) -> str:
        """Only time passes."""
        return ""
