"""The invariants of gangs, by the API server's objects and what it was sent: I1 to I8.

They have their numbers in the design: I1 no Binding before enough members have arrived, I2 no card
is granted twice, I3 nothing stays reserved for a start that is over, I4 what fits starts, I5 no
gang that waits holds cards, I6 no gate is opened before its gang has cards, and none is left, I7
each gang is whole or empty in the end, I8 no pod is evicted that no plan names.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from tessera_core.machines.allocation import AllocationPhase
from tessera_runtime.kube.api import Verb
from tessera_schema.kube import Pod
from tessera_schema.plans import PLANS
from tests.machine.gangs.delivered import Delivered
from tests.machine.gangs.gang_simulation import SETTINGS, GangSimulation
from tests.machine.gangs.kube_scheduler import Call
from tests.machine.gangs.users_gangs import GANGS, UsersGang, gang_of, has_card, is_gated
from tests.machine.replicas import Replica

LICENCE_S: Final = 90.0
"""Seconds after a gang was let through in which a member of it may be bound by itself: its Binding
was refused or lost, and is sent again."""
OVER_S: Final = 5.0
"""Seconds for which something may stay reserved for a start that is over."""
HELD_S: Final = SETTINGS.gangs.reservation_s + SETTINGS.gangs.barrier_s + SETTINGS.bind.late_s
"""The most seconds for which a pod has cards and no node."""


class Invariants:
    """Of one world; `wrong` says which was broken."""

    def __init__(self, world: GangSimulation) -> None:
        self.wrong: list[str] = []
        self.seen: Counter[str] = Counter()
        """What was checked, how often."""
        self.started: set[str] = set()
        """Names of gangs that have been whole, with those that start together with them, since
        these have pods."""
        self.ran: set[str] = set()
        """Uids of pods that had a node in a gang that has been whole."""
        self.delivered: dict[str, Delivered] = {}
        """By the scheduler's name."""
        self._world = world
        self._truth = world.cluster.truth
        self._let: dict[tuple[str, str], float] = {}
        """Scheduler and pod's uid -> until when it may be bound by itself."""
        self._complete: dict[tuple[str, str], set[str]] = {}
        """Scheduler and pod's uid -> who of its gang had arrived when that was enough; as long as
        cards are held for the pod since then."""
        self._ever_open: set[tuple[str, str]] = set()
        """Scheduler and uid of the pods whose gate it opens."""
        self._reserved: dict[tuple[str, str], float] = {}
        """Scheduler and pod's uid -> since when the ledger holds cards for it and sends nothing."""
        self._stale: dict[tuple[str, str], float] = {}
        """Scheduler and uid -> since when a start that it belongs to is not kept alive."""
        self._half: dict[tuple[str, str], float] = {}
        """Scheduler and gang -> since when it holds cards for less than the minimum."""
        world.on_tick = self.tick
        world.on_replica = self._follow
        world.on_write = self._sent
        world.on_call = self._called

    def _follow(self, replica: Replica) -> None:
        shown = self.delivered[replica.name] = Delivered(self._world.loop.time)
        replica.line.on_page, replica.line.on_frame = shown.page, shown.frame

    # -- what is called and written

    def _called(self, call: Call) -> None:
        """Note who has arrived where that is enough for a start."""
        for gang in (GANGS[name] for name in self._gangs_of(call.uid, call.replica) - {""}):
            if not any(self._lacks(GANGS[each], call.replica) for each in gang.together):
                arrived = self._arrived(gang.together, call.replica)
                self._complete |= {(call.replica.name, uid): arrived for uid in arrived}

    def _sent(self, replica: Replica, verb: Verb, path: str, body: bytes) -> None:
        if path.endswith("/binding"):
            self._check_binding(replica, msgspec.json.decode(body)["metadata"]["uid"])
        elif path.endswith("/eviction"):
            options = msgspec.json.decode(body).get("deleteOptions", {})
            self._check_eviction(replica, options["preconditions"]["uid"])
        elif verb is Verb.PATCH and b"schedulingGates" in body:
            self._check_gate(replica, msgspec.json.decode(body)["metadata"]["uid"])

    def _check_binding(self, replica: Replica, uid: str) -> None:
        """I1"""
        named = self._gangs_of(uid, replica)
        if uid not in self._truth.pods or "" in named:
            return
        why = ""
        for gang in (GANGS[name] for name in sorted(named)):
            short = [why for each in gang.together if (why := self._lacks(GANGS[each], replica))]
            if not short:
                self._let_through(self._arrived(gang.together, replica), replica)
                return
            why = f"{gang.name}: {'; '.join(short)}"
        if arrived := self._complete.get((replica.name, uid)):
            # A start that is missed frees all cards in one step. This one was let through: nothing
            # leads back from there, though calls may fail before anything is written.
            self._let_through(arrived, replica)
        elif self._world.loop.time() > self._let.get((replica.name, uid), 0.0):
            self.wrong.append(f"I1: {replica.name} binds a pod of {why}")

    def _let_through(self, members: set[str], replica: Replica) -> None:
        self.seen["gangs let through"] += 1
        until = self._world.loop.time() + LICENCE_S
        self._let |= {(replica.name, uid): until for uid in members}

    def _gangs_of(self, uid: str, replica: Replica) -> set[str]:
        """Names of the gangs that the pod names, or named as far as this scheduler can know; empty
        for none."""
        found = {gang_of(p) for p in self.delivered[replica.name].pods() if p.metadata.uid == uid}
        pod = self._truth.pods.get(uid)
        return found if pod is None else {*found, gang_of(pod)}

    def _lacks(self, gang: UsersGang, replica: Replica) -> str:
        """Why the gang may not start as far as this scheduler can know; empty when it may."""
        shown = self.delivered[replica.name]
        least = self._least(gang, shown)
        if not least:
            return f"{gang.name} has no PodGroup"
        arrived = self._arrived((gang.name,), replica)
        bound = self._bound(gang, shown)
        if gang.policy == "once" and bound and self._counts_as_started(gang, shown):
            return ""
        if gang.bundle and gang.name in self.started and shown.names_none(gang.name):
            return ""  # it has ended since, be it within the grace
        alone = {
            pod.metadata.uid for pod in self._truth.pods.values()
            if gang_of(pod) == gang.name and pod.spec.node_name and not has_card(pod)
        }  # fmt: skip
        there = arrived | (alone if gang.policy == "arriving" else bound)
        if len(there) >= min(least):
            return ""
        return f"{gang.name}: {len(there)} of {min(least)} are there"

    def _least(self, gang: UsersGang, shown: Delivered) -> list[int]:
        """Its minimum as it is, and as the scheduler was shown it."""
        if not gang.volcano:
            return [gang.least]
        true = self._world.least(gang)
        return [*shown.least(gang.name), *(() if true is None else (true,))]

    def _arrived(self, gangs: tuple[str, ...], replica: Replica) -> set[str]:
        """Uids of members whose bind call this scheduler has not answered."""
        calls = self._world.kube_scheduler.calls.values()
        return {
            call.uid for call in calls
            if call.replica is replica and call.uid in self._truth.pods
            and not self._gangs_of(call.uid, replica).isdisjoint(gangs)
        }  # fmt: skip

    def _bound(self, gang: UsersGang, shown: Delivered) -> set[str]:
        """Uids of members that have a node, or had one as far as the scheduler can know."""
        return {
            pod.metadata.uid for pod in self._pods(gang, shown)
            if pod.spec.node_name and not pod.terminal
        }  # fmt: skip

    def _pods(self, gang: UsersGang, shown: Delivered) -> list[Pod]:
        """Members as they are, and as the scheduler may take them to be."""
        pods = [*self._truth.pods.values(), *shown.pods()]
        return [pod for pod in pods if gang_of(pod) == gang.name]

    def _counts_as_started(self, gang: UsersGang, shown: Delivered) -> bool:
        """Of a gang that goes one by one after its first start: that it has started, or that nobody
        can know, since fewer pods are there than a start takes."""
        there = [pod for pod in self._truth.pods.values() if gang_of(pod) == gang.name]
        known = {pod.metadata.uid for pod in shown.pods() if gang_of(pod) == gang.name}
        few = min(len(there), len(known)) < gang.least
        return gang.name in self.started or few

    def _check_eviction(self, replica: Replica, uid: str) -> None:
        """I8"""
        self.seen["evictions"] += 1
        plans = self._world.cluster.call("GET", PLANS)
        named = {
            step["pod"]["uid"]
            for plan in (plans or {"items": []})["items"]
            if plan.get("status", {}).get("phase") == "Started"
            for step in plan["spec"]["steps"]
        }
        if uid not in named:
            self.wrong.append(f"I8: {replica.name} evicts {uid} and no plan names it")

    def _check_gate(self, replica: Replica, uid: str) -> None:
        """I6, the first half"""
        pod = self._truth.pods.get(uid)
        gang = None if pod is None else GANGS.get(gang_of(pod))
        if pod is None or gang is None or (replica.name, uid) in self._ever_open:
            return
        self.seen["gates opened"] += 1
        self._ever_open.add((replica.name, uid))
        shown = self.delivered[replica.name]
        assert replica.scheduler is not None
        whole = not any(self._lacks(GANGS[each], replica) for each in gang.together)
        least = min(self._least(gang, shown), default=0)
        arrived = self._arrived((gang.name,), replica) | self._world.kube_scheduler.just_ended()
        there = len(arrived | self._bound(gang, shown))
        if has_card(pod):
            ready = replica.scheduler.ledger.entry(uid) is not None
        else:
            ready = there >= least - 1  # the launcher alone has none
        if not (ready or whole):
            self.wrong.append(f"I6: {replica.name} opens the gate of {pod.name} without cards")

    # -- what is so, each second

    def tick(self) -> None:
        """I2, I3, I5."""
        self.note_starts()
        self.wrong += self._truth.wrong
        if overfull := self._truth.overfull():
            self.wrong.append(f"I2: granted beyond what there is: {overfull}")
        leader = self._world.leader
        if leader is not None and leader.scheduler is not None:
            self._check_reserved(leader)

    def check(self) -> None:
        """Whether any was broken so far."""
        assert not self.wrong, "\n".join(self.wrong)

    def note_starts(self) -> None:
        """Of gangs that are whole now. A user may break one up within a second of its start."""
        there = Counter(gang_of(pod) for pod in self._truth.pods.values())
        bound = Counter(gang_of(p) for p in self._truth.pods.values() if p.spec.node_name)
        for gang in GANGS.values():
            if not any(there[name] for name in gang.together):
                self.started.discard(gang.name)
            elif gang.name not in self.started and all(
                bound[name] >= (self._world.least(GANGS[name]) or bound[name] + 1)
                for name in gang.together
            ):
                self.started.add(gang.name)
                self.seen["starts"] += 1
        self.ran |= {
            uid for uid, pod in self._truth.pods.items()
            if pod.spec.node_name and gang_of(pod) in self.started
        }  # fmt: skip

    def _check_reserved(self, leader: Replica) -> None:
        """I3 and I5"""
        assert leader.scheduler is not None
        now, name, shown = self._world.loop.time(), leader.name, self.delivered[leader.name]
        ledger = leader.scheduler.ledger
        self._complete = {
            (who, uid): arrived for (who, uid), arrived in self._complete.items()
            if who == name and ledger.entry(uid) is not None
        }  # fmt: skip
        entries = [
            entry for entry in ledger.entries()
            if entry.phase is AllocationPhase.RESERVED
        ]  # fmt: skip
        reserved = {entry.grant.uid for entry in entries}
        held = {(name, uid) for uid in reserved}
        self._reserved = {key: self._reserved.get(key, now) for key in held}
        old = {
            (name, entry.grant.uid) for entry in entries
            if now - entry.since > OVER_S and self._waits_for_others(entry.grant.uid, leader)
        }  # fmt: skip
        self._stale = {key: self._stale.get(key, now) for key in old}
        for since_when, most in ((self._reserved, HELD_S + OVER_S), (self._stale, OVER_S)):
            for (_, uid), since in since_when.items():
                if now - since > most:
                    self.wrong.append(f"I3: {name} has cards reserved for {uid}, who never comes")
        half: dict[tuple[str, str], float] = {}
        for gang in GANGS.values() if reserved else ():
            if why := self._holds_half(gang, reserved, leader, shown):
                since = half[name, gang.name] = self._half.get((name, gang.name), now)
                if now - since > OVER_S:
                    self.wrong.append(f"I5: {name} holds cards for a part of {gang.name}: {why}")
        self._half = half

    def _waits_for_others(self, uid: str, leader: Replica) -> bool:
        """Whether the pod may not be bound by itself: what is reserved for its gang's start is
        renewed each second, as long as it leads to one."""
        pod = self._truth.pods.get(uid)
        gang = None if pod is None else GANGS.get(gang_of(pod))
        if gang is None or self._let.get((leader.name, uid), 0.0) > self._world.loop.time():
            return False
        return any(self._lacks(GANGS[each], leader) for each in gang.together)

    def _holds_half(
        self, gang: UsersGang, reserved: set[str], leader: Replica, shown: Delivered
    ) -> str:
        assert leader.scheduler is not None
        pods = {pod.metadata.uid: pod for pod in [*shown.pods(), *self._truth.pods.values()]}
        members = [pod for pod in pods.values() if gang_of(pod) == gang.name]
        if not any(pod.metadata.uid in reserved for pod in members):
            return ""
        least = self._least(gang, shown)
        once = gang.policy == "once" and self._bound(gang, shown)
        if not least or once or not self._lacks(gang, leader):
            return "" if least else "its PodGroup is gone"
        counted = [
            pod for pod in members
            if pod.spec.node_name or not has_card(pod)
            or leader.scheduler.ledger.entry(pod.metadata.uid) is not None
        ]  # fmt: skip
        return "" if len(counted) >= min(least) else f"{len(counted)} of {min(least)} members"


def gates_left(world: GangSimulation, started: set[str]) -> list[Pod]:
    """I6, the second half: pods of gangs that have started and have a closed gate."""
    return [
        pod for pod in world.cluster.truth.pods.values()
        if gang_of(pod) in started and is_gated(pod)
    ]  # fmt: skip
