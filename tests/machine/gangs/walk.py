"""A walk: what users, tenants, nodes, kube-scheduler, networks and crashes do, by a seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from tessera_embedded.apiserver.faults import Answer, Cut, Delay, Hang, InjectedFault
from tessera_schema.kube import Pod
from tests.machine.faults import BINDING_FAULTS
from tests.machine.gangs.calm import Calm
from tests.machine.gangs.gang_simulation import MOST_REPLICAS, GangSimulation
from tests.machine.gangs.invariants import Invariants
from tests.machine.gangs.users_gangs import GANGS, ONE_CARD, a_pod, gang_of
from tests.machine.replicas import Replica
from tests.machine.walking import LEASE

MOST_PODS: Final = 18
_PODS: Final = "/api/v1/pods"
_FAULTS: Final[Sequence[tuple[InjectedFault, ...]]] = (
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


class GangWalk:
    """One world, and steps in it."""

    def __init__(self, seed: int, *, reserves: bool = False) -> None:
        self.random = Random(seed)  # noqa: S311  (a walk that can be repeated)
        self.world = GangSimulation(self.random, nodes=self.random.randint(2, 4), reserves=reserves)
        self.invariants = Invariants(self.world)
        self.calm = Calm(self.world, self.invariants)
        self.steps: list[str] = []
        """What was done, and when."""
        self._made = 0
        self._moves: list[tuple[int, Callable[[], object]]] = [
            (16, self.gang_is_made), (3, self.pod_is_made), (3, self.pod_is_deleted),
            (6, self.gang_ends), (2, self.minimum_changes), (1, self.group_goes),
            (3, self.gate_is_taken_off), (1, self.pod_changes_its_gang),
            (1, self.somebody_else_binds), (2, self.node_goes), (1, self.card_fails),
            (6, self.member_is_passed_over), (4, self.all_are_tried), (3, self.node_is_not_offered),
            (3, self.kube_scheduler_restarts), (2, self.kube_scheduler_stops),
            (14, self.binding_fails), (8, self.calls_fail), (4, self.events_are_late),
            (4, self.watches_break), (10, self.crash_comes), (4, self.scheduler_changes),
            (2, self.lease_is_lost), (6, self.schedulers_go_on), (4, self.scheduler_starts),
            (10, self.things_are_mended), (8, self.nothing_happens),
        ]  # fmt: skip

    def go(self, steps: int) -> None:
        """Take so many steps, each with some time after it. Raises AssertionError with the steps
        so far."""
        self.world.start()
        try:
            self.world.do(self.world.until("somebody leads", lambda: self.world.leader, 60))
            for _ in range(steps):
                self.step()
            self.world.do(self.calm.comes())
        except AssertionError as e:
            last = "\n".join((f"after {len(self.steps)} steps, the last ones:", *self.steps[-60:]))
            raise AssertionError(f"{e}\n{last}") from e
        finally:
            self.world.close()

    def step(self) -> None:
        """One of the moves."""
        weights = [weight for weight, _ in self._moves]
        (move,) = self.random.choices([move for _, move in self._moves], weights)
        seconds = self.random.choices((0.0, 0.03, 0.3, 1, 3, 8, 25), (4, 6, 6, 8, 6, 3, 1))[0]
        at = f"{self.world.loop.time():9.2f}"

        async def act() -> None:
            self.invariants.note_starts()
            done = move()
            self.steps.append(f"{at} {move.__name__} {'' if done is None else done}")
            await self.world.advance(seconds)

        self.world.do(act())
        self.invariants.check()

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

    # -- users

    def gang_is_made(self) -> str:
        gang = GANGS[self.random.choice(list(GANGS))]
        count = gang.least + self.random.choice((-1, 0, 0, 0, 0, 1, 2))
        gated = self.random.random() < 0.8  # else the webhook is away
        if len(self.world.cluster.truth.pods) >= MOST_PODS:
            return "too many pods"
        for name in gang.together if self.random.random() < 0.8 else (gang.name,):
            each = GANGS[name]
            self.world.create_gang(each, count - gang.least + each.least, gated=gated)
        return f"{gang.name}: {count}"

    def pod_is_made(self) -> None:
        self._made += 1
        if len(self.world.cluster.truth.pods) < MOST_PODS:
            self.world.create(a_pod(f"single-{self._made}", {}, ONE_CARD))

    def pod_is_deleted(self) -> str | None:
        pods = self.pods()
        if not pods:
            return None
        pod = self.random.choice(pods)
        self.world.cluster.delete(pod.metadata.uid, self.random.choice((0, 30)))
        return pod.name

    def gang_ends(self) -> str | None:
        """It has done its work."""
        bound = self.pods(bound=True)
        if not bound:
            return None
        name = gang_of(self.random.choice(bound))
        for pod in bound:
            if gang_of(pod) == name:
                self.world.cluster.delete(pod.metadata.uid, 0)
        return name

    def minimum_changes(self) -> str:
        gang = GANGS[self.random.choice("abcd")]
        least = gang.least + self.random.choice((-1, 0, 0, 1))
        self.world.put_group(gang, max(least, 2))
        return f"{gang.name}: {least}"

    def group_goes(self) -> str:
        gang = GANGS[self.random.choice("abcd")]
        self.world.drop_group(gang)
        return gang.name

    def gate_is_taken_off(self) -> str | None:
        """By a tenant."""
        pods = [pod for pod in self.pods(bound=False) if pod.spec.scheduling_gates]
        if not pods:
            return None
        pod = self.random.choice(pods)
        self._patch(pod, {"spec": {"schedulingGates": None}})
        return pod.name

    def pod_changes_its_gang(self) -> str | None:
        pods = [pod for pod in self.pods() if gang_of(pod) in ("a", "b")]
        if not pods:
            return None
        pod = self.random.choice(pods)
        other = "b" if gang_of(pod) == "a" else "a"
        notes = {"scheduling.k8s.io/group-name": other}
        self._patch(pod, {"metadata": {"annotations": notes}})
        return f"{pod.name} to {other}"

    def somebody_else_binds(self) -> str | None:
        pods, nodes = self.pods(bound=False), self.world.cluster.node_names()
        if not pods or not nodes:
            return None
        pod = self.random.choice(pods)
        self.world.bind_elsewhere(pod.metadata.uid, self.random.choice(nodes))
        return pod.name

    def _patch(self, pod: Pod, change: dict[str, Any]) -> None:
        self.world.cluster.call("PATCH", self.world.cluster.path(pod.metadata.uid), change)

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
        replica, faults = self.replica(), self.random.choice(_FAULTS)
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

    def nothing_happens(self) -> None:
        """Only time passes."""
