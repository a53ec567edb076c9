"""A walk: a world, a step in it, and who is meant by a number that hypothesis drew."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, ClassVar, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize

from tessera_embedded.apiserver.faults import Answer, InjectedFault
from tests.machine import checking
from tests.machine.cluster import NAMESPACES, SHAPES
from tests.machine.nodes import Node
from tests.machine.replicas import Replica
from tests.machine.simulation import Simulation

MOST_PODS: Final = 12
LEASE: Final = ".*/leases/.*"

which_of = st.integers(0, 11)
"""Of whatever there is, counted round."""
sure = st.booleans()


class Walk(RuleBasedStateMachine):
    """What all rules stand on."""

    steps: ClassVar[int] = 0
    """Of all walks so far."""
    seen: ClassVar[dict[str, int]] = {}
    """How often what the test is about happened, in all walks so far."""

    @initialize(
        nodes=st.integers(1, 3), cards=st.integers(1, 2), replicas=st.integers(1, 3),
        pods=st.integers(0, 9),
    )  # fmt: skip
    def begin(self, nodes: int, cards: int, replicas: int, pods: int) -> None:
        self.world = Simulation(nodes=nodes, cards=cards, replicas=replicas, allocating=nodes == 3)
        for i in range(pods):
            self.world.cluster.create(f"p{i}", NAMESPACES[i % 2], SHAPES[i % len(SHAPES)])
        self.do(self.world.until("somebody leads", lambda: self.world.leader, 60))

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.world.do(checking.at_rest(self.world, bus=True))
            self.note()
        finally:
            self.world.close()

    def do(self, what: Coroutine[Any, Any, None], then_s: float = 0.02) -> None:
        """A step."""
        Walk.steps += 1

        async def step() -> None:
            await what
            await self.world.advance(then_s)
            checking.always(self.world)

        self.world.do(step())

    # -- who is meant

    def create(self, name: str, namespace: str, shape: dict[str, Any]) -> None:
        if len(self.world.cluster.truth.pods) < MOST_PODS:
            self.world.cluster.create(name, namespace, shape)

    def node(self, which: int) -> Node:
        nodes = list(self.world.nodes.values())
        return nodes[which % len(nodes)]

    def replica(self, by: int) -> Replica | None:
        """Half of the time who leads."""
        alive = self.world.alive
        if by < 6 and self.world.leader is not None:
            return self.world.leader
        return alive[by % len(alive)] if alive else None

    def befall(self, replica: Replica, how: str) -> None:
        match how:
            case "stopped":
                replica.stop()
            case "cut off":
                replica.cut()
            case "forgotten":
                replica.line.faults.add(InjectedFault("PUT", LEASE, Answer(500), 14))
            case "killed":
                replica.kill()
            case "ended" if not replica.process.stopped:
                replica.end()

    def filter(self, uid: str, by: int, *, again: bool = True) -> tuple[str, ...] | None:
        """By the replica meant, else by any that answers."""
        placing, names = self.world.placing, self.world.cluster.node_names()
        if again:
            placing.show(uid)
        for replica in (self.replica(by), self.world.leader):
            if replica is not None:
                nodes = placing.filter(replica, uid, names)
                if nodes is not None:
                    return nodes
        return None

    async def schedule(self, which: int, by: int, wait_s: float) -> None:
        waiting = self.world.placing.waiting()
        if not waiting or not self.filter(waiting[which % len(waiting)], by):
            return
        await self.world.advance(wait_s)
        leader = self.world.leader
        if leader is not None:
            self.world.placing.bind(leader, self.world.placing.offers[-1])
            await self.world.advance(0.02)

    async def schedule_all(self, by: int = 0) -> None:
        for which in range(len(self.world.placing.waiting())):
            await self.schedule(which, by, 0.0)

    # -- what was seen

    def count(self, what: str) -> None:
        self.seen[what] = self.seen.get(what, 0) + 1

    def note(self) -> None:
        """That what the test is about did happen."""
        truth = self.world.cluster.truth
        for bound in truth.bound.values():
            assert not bound.overtaken
            self.count("bound")
        self.seen["out of term"] = self.seen.get("out of term", 0) + truth.out_of_term
        self.seen["resized"] = self.seen.get("resized", 0) + truth.resized
        apart = truth.kept_apart + self.world.placing.turned_away
        self.seen["kept apart"] = self.seen.get("kept apart", 0) + apart
        self.seen["silent"] = self.seen.get("silent", 0) + self.world.placing.found_silent
        for _ in self.world.placing.waiting():
            self.count("waiting")
