"""A cluster in which gangs are started: schedulers, kube-scheduler, kubelets that end pods, and a
Deployment that starts a scheduler again; each second of virtual time they do their work."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from tessera_runtime.kube.api import Verb
from tessera_runtime.kube.settings import KubeSettings
from tessera_runtime.kube.timestamps import format_time
from tessera_scheduler.binding.settings import BindSettings
from tessera_scheduler.cache.settings import LedgerSettings
from tessera_scheduler.gangs.settings import GangReserves, GangSettings, GangSwitch
from tessera_scheduler.settings import SchedulerSettings
from tessera_testing.stoppable import StoppableLoop
from tests.machine.cluster import LATE_S, Cluster
from tests.machine.gangs.kube_scheduler import Call, KubeScheduler
from tests.machine.gangs.users_gangs import (
    GANGS,
    GROUPS,
    UsersGang,
    a_member,
    a_pod_group,
    is_leaving,
)
from tests.machine.replicas import Replica
from tests.machine.simulation import Replicas
from tests.scheduler.gangs.gang_cluster import CRDS, VOLCANO, pod_group_definition
from tests.scheduler.preemption.test_pods_are_evicted import PLAN_DEFINITION

SETTINGS: Final = SchedulerSettings(
    kube=KubeSettings(watch_s=100_000, silence_s=200_000, retry_most_s=4),
    bind=BindSettings(late_s=LATE_S + 5),
    ledger=LedgerSettings(audit_s=1_000_000),
    gangs=GangSettings(scheduling=GangSwitch.ON, dissolve_s=60),
)
MOST_REPLICAS: Final = 2
RESTARTED_S: Final = 20.0
"""The most seconds without any process of the scheduler."""
GROUPS_OF_TEAM: Final = GROUPS.replace("/podgroups", "/namespaces/default/podgroups")
PODS_OF_TEAM: Final = "/api/v1/namespaces/default/pods"


class GangSimulation(Replicas):
    """Nodes with two cards each, PodGroups, plans."""

    def __init__(
        self, chance: Random, *, nodes: int, reserves: bool = False,
        settings: SchedulerSettings = SETTINGS,
    ) -> None:  # fmt: skip
        """`reserves`: cards are reserved for gangs in line."""
        self.chance = chance
        loop = StoppableLoop()
        self.cluster = Cluster(loop, nodes, 2)
        self.on_tick: Callable[[], None] = lambda: None
        """Called each second of virtual time."""
        self.on_replica: Callable[[Replica], None] = lambda _replica: None
        """Called with each scheduler before it runs."""
        self.on_write: Callable[[Replica, Verb, str, bytes], None] = lambda *_: None
        """Called before a scheduler writes to the API server."""
        self.on_call: Callable[[Call], None] = lambda _call: None
        """Called with each bind call that kube-scheduler begins."""
        self.crashes: Counter[str] = Counter()
        """At which writes schedulers have ended, how often."""
        self._least: dict[str, int] = {}
        """Name of a gang with a PodGroup -> what that says now."""
        self._doomed: dict[str, tuple[int, bool, str]] = {}
        """Scheduler's name -> how many writes it does yet, whether the last one is sent, and what
        the paths of those that count have in them."""
        self._dead_since: float | None = None
        for name in self.cluster.cards:
            self.join(name)
        for definition in (pod_group_definition(VOLCANO), PLAN_DEFINITION):
            self.cluster.call("POST", CRDS, definition)
        self.mend_groups()
        switch = GangReserves.ON if reserves else GangReserves.OFF
        gangs = replace(settings.gangs, reserve_in_line=switch)
        super().__init__(loop, replace(settings, gangs=gangs))

    async def _open(self, stack: AsyncExitStack, group: asyncio.TaskGroup) -> None:
        self.kube_scheduler = KubeScheduler(self.cluster, group, self.chance)
        self.kube_scheduler.on_call = lambda call: self.on_call(call)
        self._ticking = group.create_task(self._tick(), name="each second")

    def _end(self) -> None:
        self._ticking.cancel()
        self.kube_scheduler.restart()

    def start(self) -> Replica:
        """See `Replicas.start`."""
        replica = super().start()
        line = replica.line
        line.on_write = lambda verb, path, body: self._sent(replica, verb, path, body)
        line.on_written = lambda verb, path: self._may_crash(replica, verb, path, sent=True)
        self.on_replica(replica)
        return replica

    # -- crashes

    def doom(self, replica: Replica, writes: int, *, sent: bool, part: str = "") -> None:
        """Kill it at so many writes from now, renewals of its Lease not counted; with `sent` the
        last one is done, and only its answer is lost. With `part` those count whose paths have
        it."""
        self._doomed[replica.name] = (writes, sent, part)

    def spare(self) -> None:
        """Nobody is killed any more."""
        self._doomed.clear()

    def _sent(self, replica: Replica, verb: Verb, path: str, body: bytes) -> None:
        self.on_write(replica, verb, path, body)
        self._may_crash(replica, verb, path, sent=False)

    def _may_crash(self, replica: Replica, verb: Verb, path: str, *, sent: bool) -> None:
        left, last_is_sent, part = self._doomed.get(replica.name, (0, sent, ""))
        other = "/leases/" in path or "/events" in path or part not in path
        if not left or last_is_sent is not sent or other:
            return
        self._doomed[replica.name] = (left - 1, sent, part)
        if left == 1:
            self.crashes[f"{'after' if sent else 'before'} {verb} {_kind_of(path)}"] += 1
            replica.kill()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(1)
            self._end_pods()
            await self._start_again()
            self.kube_scheduler.round(self.leader)
            self.on_tick()

    def _end_pods(self) -> None:
        """kubelet reports pods that it starts, and ends those that were deleted."""
        truth = self.cluster.truth
        for uid, pod in list(truth.pods.items()):
            if is_leaving(pod):
                if self.has_ended(uid):
                    self.cluster.delete(uid, 0)
            elif pod.spec.node_name and not pod.status.start_time:
                started = format_time(self.cluster.clock.time())
                status = {"status": {"phase": "Running", "startTime": started}}
                self.cluster.call("PATCH", f"{self.cluster.path(uid)}/status", status)

    def has_ended(self, uid: str) -> bool:
        """Whether a pod that was deleted has ended: within a second."""
        del uid
        return True

    async def _start_again(self) -> None:
        """Schedulers that are dead are buried; another one comes."""
        now = self.loop.time()
        for replica in [each for each in self.replicas if each.line.dead]:
            await replica.bury()
            self.replicas.remove(replica)
        if any(replica.runs and not replica.cut_off for replica in self.alive):
            self._dead_since = None
        elif self._dead_since is None:
            self._dead_since = now
        elif now - self._dead_since >= RESTARTED_S:
            self.start()

    # -- users

    def create(self, body: dict[str, Any]) -> None:
        """Create a pod; nothing where there is one of its name."""
        self.cluster.call("POST", PODS_OF_TEAM, body)

    def create_gang(self, gang: UsersGang, count: int, *, gated: bool) -> None:
        """Create so many of a gang's pods, the first ones first."""
        for number in range(count):
            self.create(a_member(gang, number, gated=gated))

    def bind_elsewhere(self, uid: str, node: str) -> None:
        """Somebody else binds the pod."""
        path = self.cluster.path(uid)
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"metadata": {"name": path.rpartition("/")[2]}, "target": target}
        self.cluster.call("POST", f"{path}/binding", body)

    def put_group(self, gang: UsersGang, least: int) -> None:
        """Create or change a gang's PodGroup, if it has one."""
        if gang.volcano:
            body = a_pod_group(gang, least)
            self._least[gang.name] = least
            if self.cluster.call("POST", GROUPS_OF_TEAM, body) is None:
                spec = {"spec": body["spec"]}
                self.cluster.call("PATCH", f"{GROUPS_OF_TEAM}/{gang.name}", spec)

    def mend_groups(self) -> None:
        """All PodGroups are there, with the minimum that they have in the beginning."""
        for gang in GANGS.values():
            self.put_group(gang, gang.least)

    def drop_group(self, gang: UsersGang) -> None:
        """Delete its PodGroup."""
        self._least.pop(gang.name, None)
        self.cluster.call("DELETE", f"{GROUPS_OF_TEAM}/{gang.name}")

    def least(self, gang: UsersGang) -> int | None:
        """Its minimum, as it is written now; None where its PodGroup is gone."""
        return self._least.get(gang.name) if gang.volcano else gang.least

    # -- nodes

    def join(self, node: str) -> None:
        """A node comes, and is ready."""
        self.cluster.join(node)
        self.cluster.call("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": None}})

    def mend_nodes(self) -> None:
        """All nodes are there, and all their cards work."""
        self.cluster.unhealthy.clear()
        for node in self.cluster.cards:
            self.join(node)

    def mend(self) -> None:
        """From now on nothing fails: replicas, kube-scheduler, nodes and PodGroups are as at the
        beginning."""
        for replica in self.alive:
            replica.mend()
        self.spare()
        self.kube_scheduler.mend()
        self.mend_nodes()
        self.mend_groups()

    def lose(self, node: str) -> None:
        """A node goes, and the pods on it with it."""
        self.cluster.leave(node)
        for uid, pod in list(self.cluster.truth.pods.items()):
            if pod.spec.node_name == node:
                self.cluster.delete(uid, 0)


def _kind_of(path: str) -> str:
    """What is written there: a kind of object, or what is done to one."""
    parts = [part for part in path.split("/") if part]
    version = next(n for n, part in enumerate(parts) if part.startswith("v1"))
    named = parts[version + 1 :]
    named = named[2:] if named[0] == "namespaces" and len(named) > 2 else named
    return named[0] if len(named) < 3 else f"{named[0]}/{named[2]}"
