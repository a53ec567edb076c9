"""kube-scheduler as gangs see it: it tries each pod that has no gate, again and again, has a bind
call open for each that waits, gives it up after its time, and may be made to misbehave."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final

import msgspec
from msgspec import Struct

from tessera_scheduler.extender.handlers import NotLeading
from tessera_schema.endpoints.extender import ExtenderBindingResult, ExtenderFilterResult
from tessera_schema.kube import Pod
from tests.machine.cluster import Cluster
from tests.machine.gangs.users_gangs import has_card, is_leaving
from tests.machine.replicas import Replica

HTTP_TIMEOUT_S: Final = 30.0
"""How long it waits for the answer to a call."""

_filtered = msgspec.json.Decoder(ExtenderFilterResult).decode
_bound = msgspec.json.Decoder(ExtenderBindingResult).decode


class Call(Struct, eq=False):
    """A bind call that is not answered yet."""

    uid: str
    replica: Replica
    task: asyncio.Task[bytes]


class KubeScheduler:
    """One process; `restart` ends its calls."""

    def __init__(self, cluster: Cluster, group: asyncio.TaskGroup, chance: Random) -> None:
        self.calls: dict[str, Call] = {}
        """Pod's uid -> its bind call."""
        self.passed_over: set[str] = set()
        """Uids of pods that it does not try: they do not fit for a reason of its own."""
        self.away: set[str] = set()
        """Names of nodes that it does not offer."""
        self.stopped = False
        self.seen: Counter[str] = Counter()
        """Outcomes of calls, how often."""
        self.on_call: Callable[[Call], None] = lambda _call: None
        """Called with each bind call that begins."""
        self._ended: dict[str, float] = {}
        """Pod's uid -> when its last call ended."""
        self._cluster = cluster
        self._group = group
        self._chance = chance

    def round(self, replica: Replica | None) -> None:
        """Try all pods that wait, in any order."""
        waiting = [pod for pod in self._cluster.truth.pods.values() if self._tries(pod)]
        self._chance.shuffle(waiting)
        offered = sorted(set(self._cluster.node_names()) - self.away) if waiting else []
        for pod in waiting if offered and not self.stopped else ():
            self._try(pod.metadata.uid, replica, offered)

    def _tries(self, pod: Pod) -> bool:
        free = not (pod.spec.node_name or pod.spec.scheduling_gates or pod.terminal)
        uid = pod.metadata.uid
        return free and not is_leaving(pod) and uid not in self.passed_over

    def _try(self, uid: str, replica: Replica | None, offered: list[str]) -> None:
        """Filter, and call bind where there is a node."""
        pod = self._cluster.truth.pods.get(uid)
        if pod is None or not self._tries(pod) or uid in self.calls:
            return
        if not has_card(pod):
            self._bind_itself(uid, self._chance.choice(offered))
        elif replica is not None and (node := self._filter(replica, uid, offered)):
            self._call(replica, pod, node)

    def _bind_itself(self, uid: str, node: str) -> None:
        """A pod without cards: no extender is called."""
        path = self._cluster.path(uid)
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"metadata": {"name": path.rpartition("/")[2]}, "target": target}
        self._cluster.call("POST", f"{path}/binding", body)

    def _filter(self, replica: Replica, uid: str, nodes: list[str]) -> str:
        if not replica.runs or replica.scheduler is None:
            return ""
        raw = self._cluster.store.handle("GET", self._cluster.path(uid)).body
        asked: dict[str, Any] = {"Pod": msgspec.Raw(raw), "Nodes": None, "NodeNames": nodes}
        context, extender = replica.process.context.copy(), replica.scheduler.extender
        try:
            answer = _filtered(context.run(extender.filter, msgspec.json.encode(asked)))
        except NotLeading:
            return ""
        assert not answer.error, answer.error
        return self._chance.choice(answer.node_names) if answer.node_names else ""

    def _call(self, replica: Replica, pod: Pod, node: str) -> None:
        meta = pod.metadata
        args = {
            "PodName": meta.name, "PodNamespace": meta.namespace, "PodUID": meta.uid, "Node": node,
        }  # fmt: skip
        assert replica.scheduler is not None
        task = self._group.create_task(
            self._call_bind(replica, msgspec.json.encode(args)), name=f"bind {meta.name}",
            context=replica.process.context.copy(),
        )  # fmt: skip
        call = self.calls[meta.uid] = Call(meta.uid, replica, task)
        self._group.create_task(self._follow(call), name=f"call of {meta.name}")
        self.on_call(call)

    @staticmethod
    async def _call_bind(replica: Replica, body: bytes) -> bytes:
        assert replica.scheduler is not None
        try:
            return await replica.scheduler.extender.bind(body)
        except NotLeading:
            return msgspec.json.encode({"Error": "503"})

    async def _follow(self, call: Call) -> None:
        """Until it is answered, its time is up, or the process that should answer is dead."""
        loop = asyncio.get_running_loop()
        until = loop.time() + HTTP_TIMEOUT_S
        while not call.task.done() and loop.time() < until and call.replica.alive:
            await asyncio.wait({call.task}, timeout=min(0.5, until - loop.time()))
        self._ended[call.uid] = loop.time()
        if self.calls.get(call.uid) is call:
            del self.calls[call.uid]
        if not call.task.done():
            call.task.cancel()
            self.seen["given up"] += 1
        elif not call.task.cancelled():
            self.seen["refused" if _bound(call.task.result()).error else "bound"] += 1

    def just_ended(self) -> set[str]:
        """Uids of pods whose bind call ended within the last second."""
        now = self._cluster.time()
        return {uid for uid, at in self._ended.items() if now - at < 1} - self.calls.keys()

    def mend(self) -> None:
        """It tries all pods on all nodes."""
        self.passed_over.clear()
        self.away.clear()
        self.stopped = False

    def restart(self) -> None:
        """Its connections break."""
        for call in self.calls.values():
            self._ended[call.uid] = self._cluster.time()
            call.task.cancel()
        self.calls = {}
