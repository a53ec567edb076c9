"""What happens to agents: they fall silent and come back, start again and again, are not there at
all, have a clock that is off, while the bus or the API server may be away."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.machine.agents import HEARTBEAT, Agent
from tests.machine.cluster import SHAPES
from tests.machine.walking import Walk, sure, which_of

SILENT_S = HEARTBEAT.lasts_s + 10
"""Until an agent is silent for each scheduler that nothing else troubles."""
_ways = st.sampled_from(("killed", "cut off", "unable"))


class Silences(Walk):
    """Agents that do not renew their Leases."""

    @rule(
        which=which_of,
        how=st.sampled_from(("killed", "cut off", "unable", "mended", "started", "forgotten")),
    )
    def something_befalls_an_agent(self, which: int, how: str) -> None:
        async def step() -> None:
            self._befall(self.node(which).agent, how)

        self.do(step())

    @rule(which=which_of, how=_ways, bus_away=sure, pods=st.integers(0, 3), back=sure)
    def an_agent_is_silent_for_long(
        self, which: int, how: str, bus_away: bool, pods: int, back: bool  # noqa: FBT001  (drawn)
    ) -> None:  # fmt: skip
        async def step() -> None:
            agent = self.node(which).agent
            self._befall(agent, how)
            if bus_away:
                self.world.cluster.bus.away()
            await self.world.advance(SILENT_S)
            for i in range(pods):
                self.create(f"late{i}", "default", SHAPES[i])
            await self.schedule_all()
            if back:
                agent.mend()
                await self.world.advance(HEARTBEAT.renew_s)
                await self.schedule_all()

        self.do(step())

    @rule(which=which_of, times=st.integers(2, 4), lives_s=st.sampled_from((0.5, 5.0, 25.0)))
    def an_agent_starts_again_and_again(self, which: int, times: int, lives_s: float) -> None:
        async def step() -> None:
            agent = self.node(which).agent
            for _ in range(times):
                agent.kill()
                agent.mend()
                await self.world.advance(lives_s)
                await self.schedule_all()

        self.do(step())

    @rule(which=which_of, skew_s=st.sampled_from((-7200.0, -50.0, 50.0, 7200.0)))
    def an_agents_clock_is_set(self, which: int, skew_s: float) -> None:
        async def step() -> None:
            self.node(which).agent.clock.jump(skew_s)

        self.do(step())

    @rule(which=which_of, wait_s=st.sampled_from((0.0, 30.0, SILENT_S)))
    def a_node_joins_whose_agent_is_not_there(self, which: int, wait_s: float) -> None:
        """Its annotation and perhaps its Lease are an earlier agent's."""

        async def step() -> None:
            node = self.node(which)
            node.agent.kill()
            if which % 2:
                node.agent.forget()
            self.world.cluster.leave(node.name)
            await self.world.advance(1)
            self.world.cluster.join(node.name)
            await self.world.advance(wait_s)
            await self.schedule_all()

        self.do(step())

    @rule(first_s=st.sampled_from((5.0, 70.0)), then_s=st.sampled_from((5.0, 70.0)))
    def the_bus_and_the_api_server_are_away_in_turn(self, first_s: float, then_s: float) -> None:
        async def step() -> None:
            world = self.world
            world.cluster.bus.away()
            await world.advance(first_s)
            world.cluster.bus.back()
            agents = [node.agent for node in world.nodes.values() if node.agent.works]
            replicas = [replica for replica in world.alive if replica.runs]
            for agent in agents:
                agent.cut()
            for replica in replicas:
                replica.cut()
            await world.advance(then_s)
            for agent in agents:
                agent.mend()
            for replica in replicas:
                replica.go_on()
            await world.advance(1)
            await self.schedule_all()

        self.do(step())

    def _befall(self, agent: Agent, how: str) -> None:
        match how:
            case "killed":
                agent.kill()
            case "cut off":
                agent.cut()
            case "unable":
                agent.able = False
            case "mended":
                agent.mend()
            case "started":
                agent.kill()
                agent.start()
            case _:
                agent.forget()
