"""The moves: whatever users, kubelets, operators, networks and clocks may do, in any order.

Each rule is one step and may do nothing where it makes no sense. After each the invariants are
checked, and now and then everything is brought to rest, where more can be.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tessera_embedded.apiserver.faults import Answer, Delay, Effect, InjectedFault
from tests.machine import checking
from tests.machine.cluster import RECEIVED_S, SHAPES
from tests.machine.faults import Faults, effects
from tests.machine.life import Life
from tests.machine.replicas import Replica
from tests.machine.silences import Silences
from tests.machine.walking import sure, which_of

_away = st.sampled_from((0.0, 0.0, 5.5, 9.0, 21.0, 26.0, 26.0, 60.0))
"""Seconds: a call that is lost takes 5, a takeover 20 to 21."""
_others = st.integers(0, 4)


class Machine(Life, Faults, Silences):
    """Life, faults, silences, and the races in which they meet."""

    # -- races for cards: something happens to a Binding, or to who sends it; others want its cards

    @rule(which=which_of, away_s=_away, blind=sure, others=_others, back=sure)
    def a_scheduler_is_stopped_as_it_binds(
        self, which: int, away_s: float, blind: bool, others: int, back: bool  # noqa: FBT001  (drawn)
    ) -> None:  # fmt: skip
        """Between deciding to send it and sending it."""
        self.do(self._race(which, None, "there", away_s, others, blind=blind, back=back))

    @rule(which=which_of, effect=effects, wait_s=_away, others=_others)
    def a_binding_is_lost(self, which: int, effect: Effect, wait_s: float, others: int) -> None:
        self.do(self._race(which, effect, "there", wait_s, others, blind=False, back=False))

    @rule(which=which_of, first=effects, then=effects, others=_others)
    def a_binding_is_lost_and_sent_again(
        self, which: int, first: Effect, then: Effect, others: int
    ) -> None:
        async def step() -> None:
            leader, placing = await self.some_leader(), self.world.placing
            if leader is None:
                return
            await self._bind_badly(leader, which, first)
            await self.world.advance(5.2)
            leader.line.faults.add(InjectedFault("POST", ".*/binding", then))
            if placing.offers:
                placing.bind(leader, placing.offers[-1])
            await self.world.advance(5.2)
            await self._others_come(others)

        self.do(step())

    @rule(which=which_of, count=st.integers(1, 4))
    def pods_end_while_no_event_arrives(self, which: int, count: int) -> None:
        """Watches have broken, and what happened meanwhile is not remembered."""

        async def step() -> None:
            for replica in self.world.alive:
                replica.line.faults.add(InjectedFault("GET", "/api/v1/pods", Answer(500), 2))
                replica.line.cut_watches()
            for uid in list(self.world.cluster.truth.pods)[which:][:count]:
                self.world.cluster.delete(uid, 0)
            self.world.cluster.store.compact()

        self.do(step(), 1.0)

    @rule(
        which=which_of, effect=effects, away_s=_away, blind=sure, others=_others, back=sure,
        leader_is=st.sampled_from(("stopped", "cut off", "killed", "ended", "forgotten")),
    )  # fmt: skip
    def a_binding_is_lost_with_its_sender(
        self, which: int, effect: Effect, away_s: float, blind: bool, others: int,  # noqa: FBT001  (drawn)
        back: bool, leader_is: str,  # noqa: FBT001  (drawn)
    ) -> None:  # fmt: skip
        self.do(self._race(which, effect, leader_is, away_s, others, blind=blind, back=back))

    @rule(others=_others)
    def pods_are_bound_while_all_are_listed(self, others: int) -> None:
        """Page after page, each a second later, all as of the first."""

        async def step() -> None:
            leader = await self.some_leader()
            if leader is None:
                return
            leader.line.faults.add(InjectedFault("GET", "/api/v1/pods", Delay(1), 8))
            self.world.cluster.store.compact()
            leader.line.cut_watches()
            await self.world.advance(1.7)
            await self._others_come(others)

        self.do(step())

    async def _race(
        self, which: int, effect: Effect | None, leader_is: str, away_s: float, others: int, *,
        blind: bool, back: bool,
    ) -> None:  # fmt: skip
        """No effect: the process stops. `blind`: replicas that stand by receive nothing
        meanwhile."""
        leader = await self.some_leader()
        if leader is None:
            return
        for replica in self.world.alive if blind else ():
            replica.line.event_delay_s = RECEIVED_S
        await self._bind_badly(leader, which, effect)
        self.befall(leader, leader_is)
        if len(self.world.alive) < 2:
            self.world.start()
        await self.world.advance(away_s)
        await self._others_come(others)
        if back and leader.alive:
            leader.go_on()

    async def _others_come(self, others: int) -> None:
        for i in range(others):
            self.create(f"other{i}", "default", SHAPES[i])
        await self.schedule_all()

    async def _bind_badly(self, leader: Replica, which: int, effect: Effect | None) -> None:
        if not self.world.placing.waiting():
            self.create("late", "default", SHAPES[which % len(SHAPES)])
        leader.line.stops_it = effect is None
        if effect is not None:
            leader.line.faults.add(InjectedFault("POST", ".*/binding", effect))
        await self.schedule(which, 0, 0.0)
        if leader.process.stopped:
            self.count("stopped as it bound")
        leader.line.stops_it = False

    async def some_leader(self) -> Replica | None:
        """Who leads, after a while."""
        if not any(replica.runs and not replica.cut_off for replica in self.world.alive):
            self.world.start()
        if self.world.leader is None:
            await self.world.advance(26)
        return self.world.leader

    # -- rest

    @rule(often=st.integers(0, 3), bus=sure, which=which_of)
    def everything_comes_to_rest(
        self, often: int, bus: bool, which: int  # noqa: FBT001  (drawn)
    ) -> None:  # fmt: skip
        async def step() -> None:
            if often:
                return
            await checking.at_rest(self.world, bus=bus)
            self.note()
            pods = list(self.world.cluster.truth.pods)
            await checking.released(self.world, pods[: which % 6])

        self.do(step())
