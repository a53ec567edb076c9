"""A cluster in a few lines, as plans see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from msgspec.structs import replace

from tessera_core.admission.admit import AdmittedPod, admit
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_core.ledger.entries import ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_core.rebalance import defragment as defragmenting
from tessera_core.rebalance import relieve_contention, resize_proposals
from tessera_core.rebalance.cluster_view import ClusterView, PlanRules, WaitingPod, by_node
from tessera_core.rebalance.movable_pods import RunningPod
from tessera_core.registry.registry import load
from tessera_core.slices import Slices, at_once
from tessera_schema.cards import MIB
from tessera_schema.grants import Grant, Share
from tessera_schema.kube import Node, Pod
from tessera_schema.messages.hints import CardHint
from tessera_schema.plans import PlanSpec
from tessera_schema.quotas import Limit
from tessera_schema.requests import PodRequest
from tessera_testing.builders import a_card, a_container, a_node, a_pod

P = ParamSpec("P")
T = TypeVar("T")
REGISTRY = load()
NOW = 1_790_000_000.0
HOUR_S = 3600.0
CARD_MIB = 16000


class Cluster:
    """Nodes with cards of 16,000 MiB; pods that run have done so for two hours."""

    def __init__(self, cards: Mapping[str, int], **node: Any) -> None:
        self.ledger = Ledger()
        self.nodes: dict[str, Node] = {}
        self.running: dict[str, RunningPod] = {}
        self.waiting: dict[str, WaitingPod] = {}
        self.others: list[Pod] = []
        """Bound pods without cards."""
        for name, count in cards.items():
            self.node(name, count, **node)

    def node(self, name: str, count: int, **node: Any) -> None:
        self.nodes[name] = a_node(name, **node)
        found = [a_card(f"{name}-{i}", i, vendor="nvidia", mib=CARD_MIB) for i in range(count)]
        self.ledger.put_node(name, found)

    def limit(self, **limit: Any) -> None:
        self.ledger.set_limits([Limit(source="ResourceQuota q", **limit)])

    def runs(
        self, name: str, node: str, card: int, mib: int = 8000, *, namespace: str = "default",
        cores: float = 0, age_s: float = 2 * HOUR_S, owner: str = "", **facts: Any,
    ) -> RunningPod:  # fmt: skip
        """A pod on a card, of a controller of its own."""
        pod = self._pod(name, mib, namespace, node=node, **_of_pod(facts))
        share = Share(
            container="c0", position=0, vendor="nvidia", dialect="hami", card=f"{node}-{card}",
            index=card, memory_bytes=mib * MIB, cores_percent=cores,
        )  # fmt: skip
        uid = pod.metadata.uid
        grant = Grant(uid=uid, namespace=namespace, name=name, node=node, shares=(share,))
        assert self.ledger.observe(ObservedPod(uid=uid, grant=grant), NOW - age_s)
        entry = self.ledger.entry(uid)
        assert entry is not None
        one = RunningPod(
            pod=pod, request=_request(pod), grant=grant, since=NOW - age_s,
            parts=sum(use.parts for use in entry.uses.values()),
            **{"owner": owner or f"owner-of-{name}", "owner_kind": "ReplicaSet", **facts},
        )  # fmt: skip
        self.running[uid] = one
        return one

    def waits(
        self, name: str, mib: int, *, namespace: str = "default", for_s: float = 600, **more: Any
    ) -> WaitingPod:
        pod = self._pod(name, mib, namespace, **more)
        one = WaitingPod(pod=pod, request=_request(pod), since=NOW - for_s)
        self.waiting[pod.metadata.uid] = one
        return one

    def _pod(self, name: str, mib: int, namespace: str, **more: Any) -> Pod:
        asks: dict[str, Any] = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": mib}
        asks |= more.pop("asks", {})
        deleted = more.pop("deleted", False)
        pod = a_pod(a_container(asks), name=name, namespace=namespace, **more)
        if deleted:
            meta = replace(pod.metadata, deletion_timestamp="2026-09-21T00:00:00Z")
            pod = replace(pod, metadata=meta)
        return pod

    def situation(
        self, rules: PlanRules | None = None, hints: Sequence[tuple[str, CardHint]] = (),
        **more: Any,
    ) -> ClusterView:  # fmt: skip
        reported: dict[str, dict[str, CardHint]] = {}
        for node, hint in hints:
            reported.setdefault(node, {})[hint.card] = hint
        bound = [*(one.pod for one in self.running.values()), *self.others]
        return ClusterView(
            now=NOW, ledger=self.ledger, nodes=self.nodes, running=self.running,
            on=by_node(self.running.values()), waiting=self.waiting,
            managed_resources=REGISTRY.resources, rules=rules or PlanRules(),
            kubefit=KubeSchedulerFilters(tuple(self.nodes.values()), bound, REGISTRY.resources),
            bound=lambda node: (pod for pod in bound if pod.spec.node_name == node),
            hints=reported, **more,
        )  # fmt: skip


def _of_pod(facts: dict[str, Any]) -> dict[str, Any]:
    """What of the facts the pod's own manifest says."""
    keys = ("annotations", "labels", "priority", "asks", "deleted", "node_selector")
    return {key: facts.pop(key) for key in keys if key in facts}


def _request(pod: Pod) -> PodRequest:
    admission = admit(REGISTRY, pod, runs=True)
    assert isinstance(admission, AdmittedPod), admission
    return admission.request


def whole(search: Callable[P, Slices[T]]) -> Callable[P, T]:
    """The search without pauses."""
    return lambda *args, **more: at_once(search(*args, **more))


defragment = whole(defragmenting.defragment)
stale = whole(defragmenting.stale)
give_back = whole(resize_proposals.give_back)
grow = whole(resize_proposals.grow)
lapsed = whole(relieve_contention.stale)


def relieve(situation: ClusterView, rules: relieve_contention.ContentionRules) -> PlanSpec | str:
    """The move that wins most, or why there is none; all contended cards are tried."""
    relief = at_once(relieve_contention.relieve(situation, rules))
    return relief.why if relief.plan is None else relief.plan
