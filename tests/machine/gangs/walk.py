"""A walk: what users, tenants, nodes, kube-scheduler, networks and crashes do, by a seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final

from tessera_schema.kube import Pod
from tests.machine.gangs.calm import Calm
from tests.machine.gangs.disturbances import Disturbances
from tests.machine.gangs.gang_simulation import GangSimulation
from tests.machine.gangs.invariants import Invariants
from tests.machine.gangs.users_gangs import GANGS, ONE_CARD, a_pod, gang_of

MOST_PODS: Final = 18


class GangWalk(Disturbances):
    """Of gangs that start."""

    def __init__(self, seed: int, *, reserves: bool = False) -> None:
        random = Random(seed)  # noqa: S311  (a walk that can be repeated)
        world = GangSimulation(random, nodes=random.randint(2, 4), reserves=reserves)
        super().__init__(random, world)
        self.invariants = Invariants(self.world)
        self.calm = Calm(self.world, self.invariants)
        self._made = 0

    @property
    def moves(self) -> list[tuple[int, Callable[[], object]]]:
        """See `Disturbances`."""
        return [
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

    @property
    def counts(self) -> Counter[str]:
        """See `Disturbances`."""
        return self.invariants.seen + self.world.kube_scheduler.seen

    def note(self) -> None:
        """See `Disturbances`."""
        self.invariants.note_starts()

    def check(self) -> None:
        """See `Disturbances`."""
        self.invariants.check()

    async def end(self) -> None:
        """See `Disturbances`."""
        await self.calm.comes()

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
