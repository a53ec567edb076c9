"""What fails: the way to the API server, watches, schedulers, the bus, the clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tessera_embedded.apiserver.faults import Answer, Cut, Delay, Effect, Hang, InjectedFault
from tessera_schema.subjects import DEVICES_BUCKET
from tests.machine.cluster import LATE_S, RECEIVED_S
from tests.machine.walking import LEASE, Walk, sure, which_of

MOST_REPLICAS: Final = 3
ONE_POD: Final = r".*/pods/[^/]+"

BINDING_FAULTS: Final[Sequence[Effect]] = (
    Cut(), Cut(after=True), Hang(), Delay(3), Delay(8), Delay(LATE_S), Answer(403), Answer(404),
    Answer(409), Answer(429, retry_after_s=2), Answer(500),
)  # fmt: skip
effects = st.sampled_from(BINDING_FAULTS)
_other_faults: Final[Sequence[tuple[InjectedFault, ...]]] = (
    (InjectedFault("GET", ONE_POD, Answer(500), 3),),
    (InjectedFault("GET", ONE_POD, Hang()),),
    (InjectedFault("GET", ONE_POD, Answer(403), 2),),
    (
        InjectedFault("GET", "/api/v1/pods", Answer(410)),
        InjectedFault("GET", "/api/v1/pods", Answer(500), 2),
    ),
    (InjectedFault("GET", "/api/v1/pods", Delay(1), 9),),
    (InjectedFault("GET", "/api/v1/nodes", Answer(503), 2),),
    (InjectedFault("GET", ".*/resourcequotas", Cut(), 2),),
    (InjectedFault("PUT", LEASE, Answer(500), 3),),
    (InjectedFault("PUT", LEASE, Answer(500), 14),),
    (InjectedFault("PUT", LEASE, Cut(after=True), 2),),
    (InjectedFault("PUT", LEASE, Delay(4), 2),),
    (InjectedFault("PATCH", ".*", Cut(after=True)),),
    (InjectedFault("*", ".*", Cut(), 6),),
    (InjectedFault("*", ".*", Answer(429, retry_after_s=1), 6),),
    (InjectedFault("*", ".*", Answer(500), 6),),
)


class Faults(Walk):
    """Whatever can go wrong alone."""

    # -- the API server and the way to it

    @rule(by=which_of, effect=st.sampled_from(BINDING_FAULTS))
    def a_binding_will_fail(self, by: int, effect: Effect) -> None:
        async def step() -> None:
            if replica := self.replica(by):
                replica.line.faults.add(InjectedFault("POST", ".*/binding", effect))

        self.do(step())

    @rule(by=which_of, faults=st.sampled_from(_other_faults), again=sure)
    def calls_will_fail(
        self, by: int, faults: tuple[InjectedFault, ...], again: bool  # noqa: FBT001  (drawn)
    ) -> None:  # fmt: skip
        async def step() -> None:
            if replica := self.replica(by):
                for fault in faults:
                    replica.line.faults.add(fault)
                if again:
                    self.world.cluster.store.compact()
                    replica.line.cut_watches()

        self.do(step())

    @rule(
        by=which_of, delay_s=st.sampled_from((0.0, 1.0, 15.0, RECEIVED_S)), times=st.integers(1, 2)
    )
    def events_come_late_or_twice(self, by: int, delay_s: float, times: int) -> None:
        async def step() -> None:
            if replica := self.replica(by):
                replica.line.event_delay_s, replica.line.event_times = delay_s, times

        self.do(step())

    @rule(by=which_of, how=st.sampled_from(("cut", "ended", "too old")))
    def watches_break(self, by: int, how: str) -> None:
        async def step() -> None:
            if how == "too old":
                self.world.cluster.store.compact()
            if replica := self.replica(by):
                if how == "cut":
                    replica.line.cut_watches()
                else:
                    replica.line.end_watches()

        self.do(step())

    # -- schedulers

    @rule(by=which_of, how=st.sampled_from(("stopped", "cut off", "killed", "ended")))
    def something_befalls_a_scheduler(self, by: int, how: str) -> None:
        async def step() -> None:
            if replica := self.replica(by):
                self.befall(replica, how)

        self.do(step())

    @rule()
    def all_schedulers_go_on(self) -> None:
        async def step() -> None:
            for replica in self.world.alive:
                replica.go_on()

        self.do(step())

    @rule(wait_s=st.sampled_from((0.1, 26.0)))
    def a_scheduler_starts(self, wait_s: float) -> None:
        async def step() -> None:
            if len(self.world.alive) < MOST_REPLICAS:
                self.world.start()

        self.do(step(), wait_s)

    # -- the bus and the time

    @rule(what=st.sampled_from(("away", "back", "deaf", "repeats", "remade")))
    def the_bus_misbehaves(self, what: str) -> None:
        async def step() -> None:
            bus = self.world.cluster.bus
            match what:
                case "away":
                    bus.away()
                case "back":
                    bus.back()
                case "deaf":
                    bus.lose_answers(2)
                case "repeats":
                    bus.repeat("tessera.>")
                case _:
                    bus.remake(DEVICES_BUCKET)

        self.do(step())

    @rule(seconds=st.sampled_from((-3600.0, 3600.0, 8_000_000.0)))
    def the_clock_is_set(self, seconds: float) -> None:
        async def step() -> None:
            self.world.cluster.clock.jump(seconds)

        self.do(step())

    @rule(seconds=st.sampled_from((0.3, 2.0, 2.0, 6.0, 16.0, 40.0)))
    def time_passes(self, seconds: float) -> None:
        self.do(self.world.advance(seconds))
