"""Nothing goes wrong any more: in bounded time everything that fits has started, nothing is held
for those who are gone, and no gang is left that is started by halves."""

from __future__ import annotations

from typing import Final

from tessera_core.machines.allocation import AllocationPhase
from tests.machine.gangs.gang_simulation import GangSimulation
from tests.machine.gangs.invariants import Invariants, gates_left
from tests.machine.gangs.users_gangs import GANGS, UsersGang, gang_of, has_card, is_leaving

LEAD_S: Final = 120.0
ROUNDS: Final = 480
"""Rounds of kube-scheduler, one a second, within which a gang that fits starts: it waits 300 s at
most after a miss, then it is reserved for 75 s at most, and what broke before is dissolved after
70 s."""
ENDS: Final = 12
"""How many gangs have to end at most for all others to start."""


class Calm:
    """The end of a walk."""

    def __init__(self, world: GangSimulation, invariants: Invariants) -> None:
        self._world = world
        self._invariants = invariants

    async def comes(self) -> None:
        """I4, I7 and what is left of I3 and I6. Raises AssertionError."""
        world, truth = self._world, self._world.cluster.truth
        world.mend()
        await world.until("somebody leads", lambda: world.leader is not None, LEAD_S)
        for _ in range(ENDS):
            await self._settles()
            fits = [gang.name for gang in self._waiting() if self._cards(gang) <= self._free()]
            assert not fits, f"I4: {fits} fit, {self._free()} cards are free: {self._reasons()}"
            self._check_whole()
            feasible = [g for g in self._waiting() if self._cards(g) <= self._all_cards()]
            if not feasible:
                break
            for pod in list(truth.pods.values()):  # all that runs has done its work
                if pod.spec.node_name:
                    world.cluster.delete(pod.metadata.uid, 0)
        else:
            raise AssertionError(f"I4: {self._reasons()}")
        self._check_ledger()

    async def _settles(self) -> None:
        """Until nothing that waits fits for some seconds, or time is up. A plan may free cards in
        these seconds: what they suffice for has time to start."""
        for _ in range(ROUNDS):
            await self._world.advance(1)
            self._invariants.check()
            if self._is_settled():
                await self._world.advance(5)
                if self._is_settled():
                    return

    def _is_settled(self) -> bool:
        quiet = not self._world.kube_scheduler.calls and not self._broken()
        return quiet and not any(self._cards(g) <= self._free() for g in self._waiting())

    # -- by the API server's objects alone

    def _members(self, name: str, *, bound: bool) -> int:
        pods = self._world.cluster.truth.pods.values()
        return sum(
            gang_of(pod) == name and bool(pod.spec.node_name) is bound and not is_leaving(pod)
            for pod in pods
        )

    def _waiting(self) -> list[UsersGang]:
        """Gangs of which none has a node and enough exist, with those that start with them."""
        return [
            gang for gang in GANGS.values()
            if gang.together[0] == gang.name and all(map(self._could_start, gang.together))
        ]  # fmt: skip

    def _could_start(self, name: str) -> bool:
        waiting, bound = self._members(name, bound=False), self._members(name, bound=True)
        if GANGS[name].policy == "arriving":
            return waiting >= GANGS[name].least
        return waiting >= GANGS[name].least and not bound

    def _cards(self, gang: UsersGang) -> int:
        """How many it takes to start. A launcher that is gone spares none: a member with a card
        counts for the minimum in its place."""
        launchers = sum(
            gang_of(pod) in gang.together and not pod.spec.node_name
            and not is_leaving(pod) and not has_card(pod)
            for pod in self._world.cluster.truth.pods.values()
        )  # fmt: skip
        return sum(GANGS[name].least for name in gang.together) - launchers

    def _all_cards(self) -> int:
        return sum(map(len, self._world.cluster.cards.values()))

    def _free(self) -> int:
        return self._all_cards() - len(self._world.cluster.truth.granted())

    def _broken(self) -> list[str]:
        """Gangs that were started by halves, and have not been whole. A launcher without cards
        alone makes no start: kube-scheduler calls no extender for it. Nor do pods that run since
        another gang was whole and name this one now: no start of this one has failed, and nobody
        dissolves what has started."""
        having = {
            gang_of(pod) for pod in self._world.cluster.truth.pods.values()
            if pod.spec.node_name and has_card(pod)
            and pod.metadata.uid not in self._invariants.ran
        }  # fmt: skip
        return [
            gang.name for gang in GANGS.values()
            if gang.name in having and self._members(gang.name, bound=True) < gang.least
            and gang.policy == "present" and gang.name not in self._invariants.started
        ]  # fmt: skip

    def _reasons(self) -> dict[str, str]:
        leader = self._world.leader
        if leader is None or leader.scheduler is None or leader.scheduler.gangs is None:
            return {}
        return leader.scheduler.gangs.coordinator.reasons()

    # -- what has to be true

    def _check_whole(self) -> None:
        """I7, I6"""
        broken = self._broken()
        assert not broken, f"I7: {broken} are left started by halves: {self._reasons()}"
        left = [
            pod.name for pod in gates_left(self._world, self._invariants.started)
            if self._is_whole(GANGS[gang_of(pod)]) and GANGS[gang_of(pod)].policy != "arriving"
        ]  # fmt: skip
        assert not left, f"I6: gates of {left} are left, whose gangs have started"

    def _is_whole(self, gang: UsersGang) -> bool:
        """Whether it runs with all that start together with it. A scheduler that takes over sees no
        more of a start than that: where one of them is gone it waits for it."""
        return all(self._members(name, bound=True) >= GANGS[name].least for name in gang.together)

    def _check_ledger(self) -> None:
        """I3: the ledger holds what pods have, and nothing else."""
        leader = self._world.leader
        assert leader is not None
        assert leader.scheduler is not None
        truth = {pod.metadata.uid for pod, _ in self._world.cluster.truth.living()}
        entries = {
            e.grant.uid: e.phase for e in leader.scheduler.ledger.entries()
            if not e.grant.uid.startswith("occupied")
        }  # fmt: skip
        held = {uid for uid, phase in entries.items() if phase is not AllocationPhase.BOUND}
        assert not held, f"I3: cards are held for {held}, and nobody starts"
        assert entries.keys() == truth, f"I3: ledger {sorted(entries)}, API server {sorted(truth)}"
