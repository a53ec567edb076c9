"""The invariants of evictions, by the API server's objects and what it was sent.

They have their numbers in the design: I2 no card is granted twice, I8 nobody is evicted that no
written plan names, and nobody unless all seats of the preemptor fit afterwards, I9 room that is
promised is given to nobody of equal or lower order, I10 no reclaim leaves the taker a share above
that of the giver. And each that goes may go: it is of lower priority and of the same queue, or its
queue gives it back.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from tessera_core.preemption.eviction_budgets import preemptor_of
from tessera_runtime.kube.api import Verb
from tessera_runtime.plans.plan_store import PlanObject
from tessera_schema.plans import PLANS, PlanKind, PlanPhase, PlanSpec
from tests.machine.evictions.eviction_simulation import EvictionSimulation
from tests.machine.evictions.rooms import PromisedRooms, places_of, priority_of
from tests.machine.evictions.shares import QueueShares
from tests.machine.replicas import Replica
from tests.machine.truth import Bound


class EvictionInvariants:
    """Of one world; `wrong` says which was broken."""

    def __init__(self, world: EvictionSimulation) -> None:
        self.wrong: list[str] = []
        self.seen: Counter[str] = Counter()
        """What was checked, how often."""
        self.began: Counter[tuple[str, str]] = Counter()
        """Preemptor, and name of a pod -> how many plans began to evict the one for the other."""
        self.rooms = PromisedRooms(world)
        self.shares = QueueShares(world)
        self._world = world
        self._truth = world.cluster.truth
        self.ahead: list[str] = []
        """Reclaims after which the taker was ahead of a lender."""
        self._begun: set[str] = set()
        """Names of plans whose evictions have begun."""
        self._left: set[str] = set()
        """Names of reclaims whose victims have all gone."""
        world.on_tick = self.tick
        world.on_write = self._sent
        world.on_replica = self.shares.follow
        world.cluster.truth.on_bound = self._bound

    def check(self) -> None:
        """Whether any was broken so far."""
        assert not self.wrong, "\n".join(self.wrong)

    def tick(self) -> None:
        """I2, and what reclaims leave."""
        self.wrong += self._truth.wrong
        if overfull := self._truth.overfull():
            self.wrong.append(f"I2: granted beyond what there is: {overfull}")
        plans = self.rooms.plans()
        self.rooms.standing(plans)
        for plan in plans:
            if plan.spec.kind is PlanKind.RECLAIM and plan.name in self._begun - self._left:
                self._check_levelled(plan)

    def _check_levelled(self, plan: PlanObject) -> None:
        """I10 once all that go have gone. What others did meanwhile counts as well."""
        if any(step.pod.uid in self._truth.pods for step in plan.spec.steps):
            return
        self._left.add(plan.name)
        job = self._world.job_of(plan.spec.promise.seats[0].pod.uid) if plan.spec.promise else None
        if job is None:
            return
        self.seen["reclaims completed"] += 1
        if why := self.shares.levelled(job, plan):
            self.seen["reclaims after which others had changed the shares"] += 1
            self.ahead.append(f"{plan.name} for {job}: {why}")

    # -- what is written

    def _sent(self, replica: Replica, verb: Verb, path: str, body: bytes) -> None:
        if path.endswith("/eviction"):
            uid = msgspec.json.decode(body)["deleteOptions"]["preconditions"]["uid"]
            self._check_eviction(replica, uid)
        elif verb is Verb.POST and path == PLANS:
            written = msgspec.json.decode(body)
            spec = msgspec.convert(written["spec"], PlanSpec)
            self._check_order(replica, written["metadata"]["name"], spec)
        elif verb is Verb.PATCH and path.startswith(PLANS) and path.endswith("/status"):
            self._check_begun(replica, path.split("/")[-2], msgspec.json.decode(body))

    def _check_eviction(self, replica: Replica, uid: str) -> None:
        """I8, the first half"""
        self.seen["evictions"] += 1
        named = {
            step.pod.uid
            for plan in self.rooms.plans()
            if plan.status.phase is PlanPhase.STARTED and plan.status.steps_begun
            for step in plan.spec.steps
        }
        if uid not in named:
            self.wrong.append(f"I8: {replica.name} evicts {uid} and no plan names it")
        elif pod := self._truth.pods.get(uid):
            self._world.evicted.add(pod.metadata.name)

    def _check_begun(self, replica: Replica, name: str, steps: list[dict[str, Any]]) -> None:
        """I8, the second half: when evictions begin, the preemptor's seats fit next to what stays
        and to what is promised to others of no lower order."""
        status: dict[str, Any] = next(
            (step["value"] for step in steps if step["path"] == "/status"), {}
        )
        plans = self.rooms.plans()
        plan = next((each for each in plans if each.name == name), None)
        if plan is None or not status.get("stepsBegun") or name in self._begun:
            return
        self._begun.add(name)
        self.seen[f"{plan.spec.kind.lower()} plans begun"] += 1
        self.seen["plans begun for gangs"] += bool(plan.spec.for_gang)
        for step in plan.spec.steps:
            self.began[preemptor_of(plan.spec), step.pod.name] += 1
        others = [
            each for each in self.rooms.standing(plans)
            if each.name != name and priority_of(each) >= priority_of(plan)
        ]  # fmt: skip
        if short := self.rooms.beyond(plan, others, places_of(plan)):
            self.wrong.append(
                f"I8: {replica.name} evicts by {name}, which leaves too little: {short}"
            )

    def _check_order(self, replica: Replica, name: str, spec: PlanSpec) -> None:
        """I10, and whether each may go."""
        self.seen["plans written"] += 1
        job = self._world.job_of(spec.promise.seats[0].pod.uid) if spec.promise else None
        if job is None:
            return  # the preemptor has just gone
        for step in spec.steps:
            victim = self._world.job_of(step.pod.uid)
            if victim is None:
                continue
            if victim.queue == job.queue and victim.priority >= job.priority:
                self.wrong.append(f"{replica.name}, {name}: {victim} goes for {job}")
            elif victim.queue != job.queue and spec.kind is not PlanKind.RECLAIM:
                self.wrong.append(
                    f"{replica.name}, {name}: {victim} is of another queue than {job}"
                )
        if spec.kind is PlanKind.RECLAIM:
            leaving = self.rooms.leaving(self.rooms.plans())
            if why := self.shares.why_not(replica, job, spec, leaving):
                self.wrong.append(f"I10: {replica.name}, {name} for {job}: {why}")

    # -- what is bound

    def _bound(self, bound: Bound) -> None:
        """I9"""
        uid = bound.grant.uid
        job = self._world.job_of(uid)
        if job is None or bound.overtaken:
            return
        cards = {(bound.grant.node, share.card) for share in bound.grant.shares}
        for plan in self.rooms.standing(self.rooms.plans()):
            places = cards & places_of(plan)
            own = preemptor_of(plan.spec) in (uid, job.id)
            if own or job.priority > priority_of(plan) or not places:
                continue
            self.seen["bound next to a promise"] += 1
            if taken := self.rooms.beyond(plan, (), places):
                self.wrong.append(f"I9: {job} is bound where {plan.name} promises room: {taken}")
