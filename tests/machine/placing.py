"""kube-scheduler as it is, and as it should not be: late, twice, to the wrong node, about pods that
are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from tessera_scheduler.extender.handlers import NotLeading
from tessera_schema.endpoints.extender import ExtenderBindingResult, ExtenderFilterResult
from tessera_schema.reasons import Reason
from tests.machine.cluster import Cluster
from tests.machine.replicas import Replica

MOST_OFFERS = 20


class Offer(Struct, frozen=True):
    """A node that a pod was once offered."""

    uid: str
    namespace: str
    name: str
    node: str


_filtered = msgspec.json.Decoder(ExtenderFilterResult).decode
_bound = msgspec.json.Decoder(ExtenderBindingResult).decode


class Placing:
    """Filters and binds."""

    def __init__(self, cluster: Cluster, group: asyncio.TaskGroup) -> None:
        self.offers: list[Offer] = []
        self.seen: dict[str, bytes] = {}
        """Pods as they were when they were last asked about."""
        self.wrong: list[str] = []
        self.promised: dict[str, str] = {}
        """Uids of pods that were said to be bound, and where."""
        self.turned_away = 0
        """Answers that name a node where an equal pod has to start first."""
        self.found_silent = 0
        """Answers that name a node whose agent is silent."""
        self._calls: list[Replica] = []
        """Pods that kube-scheduler waits for."""
        self._cluster = cluster
        self._group = group

    @property
    def under_way(self) -> int:
        """Calls that will be answered."""
        return sum(not replica.line.dead for replica in self._calls)

    def waiting(self) -> list[str]:
        """Uids of pods that are to be placed."""
        return [
            uid for uid, pod in self._cluster.truth.pods.items()
            if not (pod.spec.node_name or pod.terminal or pod.metadata.deletion_timestamp)
        ]  # fmt: skip

    def show(self, uid: str) -> None:
        """Know the pod as it is now."""
        raw = self._cluster.store.handle("GET", self._cluster.path(uid)).body
        self.seen.pop(uid, None)
        self.seen[uid] = raw
        if len(self.seen) > MOST_OFFERS:
            del self.seen[next(iter(self.seen))]

    def filter(self, replica: Replica, uid: str, nodes: list[str]) -> tuple[str, ...] | None:
        """Nodes that would do for a pod as it was seen; None when the replica does not answer."""
        if not replica.runs or replica.scheduler is None:
            return None
        body = msgspec.json.encode(
            {"Pod": msgspec.Raw(self.seen[uid]), "Nodes": None, "NodeNames": nodes}
        )
        try:
            answer = _filtered(
                replica.process.context.copy().run(replica.scheduler.extender.filter, body)
            )
        except NotLeading:
            return None
        assert not answer.error, answer.error
        failed = answer.failed_and_unresolvable_nodes or {}
        self.turned_away += Reason.NODE_STARTING_EQUAL_POD.wire in failed.values()
        names = tuple(answer.node_names or ())
        self._check_agents(replica, uid, names, failed)
        meta = msgspec.json.decode(self.seen[uid])["metadata"]
        for node in names:
            self.offers.append(Offer(uid, meta["namespace"], meta["name"], node))
        del self.offers[:-MOST_OFFERS]
        return names

    def _check_agents(
        self, replica: Replica, uid: str, names: Iterable[str], failed: Mapping[str, str]
    ) -> None:
        """By what has reached the replica: nothing is placed where the agent is silent for longer
        than a renewal counts, and nobody who renews is called silent."""
        observed = replica.line.observed
        for node in names:
            if observed.is_silent(node) and uid not in self._cluster.truth.bound:
                self.wrong.append(f"{uid} was offered {node}, whose agent is silent")
        for node, why in failed.items():
            if why == Reason.AGENT_SILENT.wire:
                self.found_silent += 1
                if observed.is_live(node):
                    self.wrong.append(f"the agent of {node} was called silent, and renews")

    def bind(self, replica: Replica, offer: Offer) -> None:
        """Begin to bind; what comes of it is checked when it comes."""
        if replica.runs and replica.scheduler is not None:
            self._calls.append(replica)
            self._group.create_task(
                self._bind(replica, offer), name=f"bind {offer.name}",
                context=replica.process.context.copy(),
            )  # fmt: skip

    async def _bind(self, replica: Replica, offer: Offer) -> None:
        args = {
            "PodName": offer.name, "PodNamespace": offer.namespace, "PodUID": offer.uid,
            "Node": offer.node,
        }  # fmt: skip
        assert replica.scheduler is not None
        try:
            result = await replica.scheduler.extender.bind(msgspec.json.encode(args))
        except NotLeading:
            return
        finally:
            self._calls.remove(replica)
        pod = self._cluster.truth.pods.get(offer.uid)
        if pod is None or _bound(result).error:
            return
        self.promised[offer.uid] = offer.node
        if pod.spec.node_name != offer.node:
            self.wrong.append(
                f"{offer.name} was said to be bound to {offer.node}, and is on "
                f"{pod.spec.node_name or 'none'}"
            )
