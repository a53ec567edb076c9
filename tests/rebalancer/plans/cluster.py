"""A cluster in memory with pods that hold cards and pods that wait, and plans about them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from tessera_core.rebalance.cluster_view import WorthRules
from tessera_core.rebalance.movable_pods import MoveRules
from tessera_core.registry.registry import load
from tessera_core.trust.grants import Signer, new_key, published_key
from tessera_core.usage.smoothed import SmoothContainer
from tessera_rebalancer.plan_settings import PlanSettings
from tessera_rebalancer.plans.cluster_objects import ClusterObjects
from tessera_rebalancer.plans.service import PlanService
from tessera_rebalancer.settings import RebalancerSettings
from tessera_runtime.background import running_in_background
from tessera_runtime.bus.outbox import open_outbox
from tessera_runtime.kube.events import open_events
from tessera_runtime.kube.settings import EventSettings, KubeSettings
from tessera_runtime.kube.timestamps import format_time
from tessera_runtime.metrics import MetricsRegistry
from tessera_runtime.service import ServiceEnvironment
from tessera_schema.annotation_keys import RESERVE_KEY, SIGNING_KEYS
from tessera_schema.cards import MIB
from tessera_schema.grants import Grant, Share, encode_grant
from tessera_schema.messages.hints import CardHint, NodeHints
from tessera_schema.node_cards import NodeCardsAnnotation, encode_node_cards
from tessera_schema.plans import (
    PLANS,
    PlanEvent,
    PlanSpec,
    PlanStatus,
    Reservation,
    decode_plan,
    decode_reservation,
)
from tessera_testing.builders import a_card
from tessera_testing.bus import FakeBus
from tessera_testing.clock import LoopClock
from tessera_testing.kube import FakeKube, a_store

HOME = "tessera-system"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ROOT = Path(__file__).parents[3]
DEFINITION = msgspec.yaml.decode(
    (ROOT / "deploy/kustomize/base/crds/rebalanceplans.yaml").read_bytes()
)
REGISTRY = load()
VENDOR = "nvidia"
PROFILE = "tessera-scheduler"
CARD_MIB = 16000
HOUR_S = 3600.0

QUIET = KubeSettings(watch_s=100_000, silence_s=200_000)


class Cluster:
    """An API server, a bus, and a signer of grants. A kubelet ends what is to end."""

    def __init__(
        self, nodes: Mapping[str, int] | None = None, *, defined: bool = True, keys: bool = True
    ) -> None:
        """Without `keys` somebody else publishes them."""
        self.clock = LoopClock()
        self.store = a_store(self.clock)
        self.bus = FakeBus()
        self.kube = FakeKube(self.store)
        self.signer = Signer(new_key())
        self.hints: dict[str, NodeHints] = {}
        self.measured: list[SmoothContainer] = []
        self.registry = MetricsRegistry("rebalancer")
        self.make("/api/v1/namespaces", {"metadata": {"name": HOME}})
        if keys:
            data = dict([published_key(self.signer.public)])
            self.make(
                f"/api/v1/namespaces/{HOME}/configmaps",
                {"metadata": {"name": SIGNING_KEYS}, "data": data},
            )
        if defined:
            self.make(CRDS, DEFINITION)
        for name, count in (nodes or {"n0": 1, "n1": 1}).items():
            self.node(name, count)

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        raw = b"" if body is None else msgspec.json.encode(body)
        response = self.store.handle(method, path, {}, raw, kind)
        assert response.code in {200, 201, 202}, response.body
        answer: dict[str, Any] = msgspec.json.decode(response.body)
        return answer

    def make(self, path: str, body: object) -> dict[str, Any]:
        return self.call("POST", path, body)

    def node(self, name: str, count: int) -> None:
        cards = [a_card(f"{name}-{i}", i, vendor=VENDOR, mib=CARD_MIB) for i in range(count)]
        notes = {
            f"cards.tessera.dev/{VENDOR}": encode_node_cards(
                NodeCardsAnnotation(cards=tuple(cards))
            )
        }
        self.make("/api/v1/nodes", {"metadata": {"name": name, "annotations": notes}})
        self.call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}})  # it is ready

    # -- pods

    def waits(
        self, name: str, mib: int = CARD_MIB, *, tried: str = "Unschedulable", **more: Any
    ) -> str:
        """A pod that asks for a part of a card, and for which kube-scheduler found no place."""
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(mib)}
        container = {"name": "c", "image": "i", "resources": {"limits": limits}}
        meta = {"name": name, **more.pop("meta", {})}
        made = self.make(
            "/api/v1/namespaces/default/pods",
            {
                "metadata": meta,
                "spec": {"schedulerName": PROFILE, "containers": [container], **more},
            },
        )
        uid: str = made["metadata"]["uid"]
        published = {"type": "PodScheduled", "status": "False", "reason": tried}
        self.call("PATCH", f"{pod_path(name)}/status", {"status": {"conditions": [published]}})
        return uid

    def runs(
        self,
        name: str,
        node: str,
        card: int = 0,
        mib: int = 8000,
        *,
        owned: bool = True,
        age_s: float = 1.5 * HOUR_S,
        cores: float = 0,
        meta: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> str:
        """A pod that holds a part of a card, of a ReplicaSet of its own."""
        owner = {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"rs-{name}",
            "controller": True,
        }  # fmt: skip
        owners = {"ownerReferences": [owner]} if owned else {}
        uid = self.waits(name, mib, meta={**owners, **(meta or {})}, **more)
        self.bind(name, uid, node, card, mib, cores)
        at = format_time(self.clock.time() - age_s)
        ready = {"type": "Ready", "status": "True"}
        status = {"phase": "Running", "startTime": at, "conditions": [ready]}
        self.call("PATCH", f"{pod_path(name)}/status", {"status": status})
        return uid

    def bind(
        self, name: str, uid: str, node: str, card: int = 0, mib: int = CARD_MIB, cores: float = 0
    ) -> None:
        """As the scheduler does."""
        notes = {"tessera.dev/grant": self.grant(name, uid, mib, node, card, cores)}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        meta = {"name": name, "annotations": notes}
        self.make(f"{pod_path(name)}/binding", {"metadata": meta, "target": target})

    def grant(
        self, name: str, uid: str, mib: int, node: str = "n0", card: int = 0, cores: float = 0
    ) -> str:
        """A grant as the scheduler signs it."""
        share = Share(
            container="c", position=0, vendor=VENDOR, dialect="hami", card=f"{node}-{card}",
            index=card, memory_bytes=mib * MIB, cores_percent=cores,
        )  # fmt: skip
        grant = Grant(uid=uid, namespace="default", name=name, node=node, shares=(share,))
        return self.signer.sign(encode_grant(grant))

    def pod(self, name: str) -> dict[str, Any] | None:
        response = self.store.handle("GET", pod_path(name))
        return None if response.code == 404 else dict(msgspec.json.decode(response.body))

    def note(self, name: str, notes: Mapping[str, str | None]) -> None:
        self.call("PATCH", pod_path(name), {"metadata": {"annotations": notes}})

    def end(self, name: str) -> None:
        self.call("DELETE", pod_path(name), {"gracePeriodSeconds": 0})

    def reserved(self, name: str) -> Reservation | None:
        pod = self.pod(name)
        text = pod["metadata"].get("annotations", {}).get(RESERVE_KEY) if pod else None
        return None if text is None else decode_reservation(text)

    async def kubelet(self, grace_s: float = 3) -> None:
        """Ends pods that are being deleted."""
        while True:
            await asyncio.sleep(grace_s)
            for item in self.call("GET", "/api/v1/pods")["items"]:
                if "deletionTimestamp" in item["metadata"]:
                    self.end(item["metadata"]["name"])

    def budget(self, allowed: int, labels: Mapping[str, str]) -> None:
        """A disruption budget whose status says how many may go now."""
        path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        if self.store.handle("GET", f"{path}/b").code == 404:
            selector = {"matchLabels": dict(labels)}
            spec = {"minAvailable": 1, "selector": selector}
            self.make(path, {"metadata": {"name": "b"}, "spec": spec})
        status = {"disruptionsAllowed": allowed, "observedGeneration": 1}
        self.call("PATCH", f"{path}/b/status", {"status": status})

    # -- plans

    def plans(self) -> list[tuple[str, PlanSpec, PlanStatus]]:
        found = []
        for item in self.call("GET", PLANS)["items"]:
            spec = msgspec.convert(item["spec"], PlanSpec)
            status = msgspec.convert(item.get("status", {}), PlanStatus)
            found.append((item["metadata"]["name"], spec, status))
        return found

    def the_plan(self) -> tuple[str, PlanSpec, PlanStatus]:
        (one,) = self.plans()
        return one

    def status(self) -> PlanStatus:
        return self.the_plan()[2]

    def decide(self, decision: str, by: str = "ada") -> None:
        name = self.the_plan()[0]
        spec = {"decision": decision, "decidedBy": by}
        self.call("PATCH", f"{PLANS}/{name}", {"spec": spec})

    def write_plan(self, name: str, spec: Mapping[str, Any], **status: Any) -> None:
        kind = {"apiVersion": "tessera.dev/v1alpha1", "kind": "RebalancePlan"}
        self.make(PLANS, {**kind, "metadata": {"name": name}, "spec": spec})
        if status:
            self.call("PATCH", f"{PLANS}/{name}/status", {"status": status})

    def hint(self, node: str, card: str, *, contended_percent: float, busy_percent: float) -> None:
        published = CardHint(
            card=card, confidence=1, contended_percent=contended_percent, busy_percent=busy_percent
        )
        others = self.hints[node].cards if node in self.hints else ()
        cards = (*(c for c in others if c.card != card), published)
        self.hints[node] = NodeHints(node=node, at=self.clock.time(), cards=cards)

    # what was published

    def published(self) -> list[PlanEvent]:
        return [decode_plan(message.data) for message in self.bus.said("tessera.v1.*.plan.>")]

    def evictions(self, kube: FakeKube | None = None) -> list[str]:
        """Names of pods whose eviction was asked for, in order."""
        calls = (kube or self.kube).calls
        return [p.split("/")[-2] for _, p in calls if p.endswith("/eviction")]

    def reasons(self) -> list[tuple[str, str]]:
        """Pods and reasons of the Kubernetes Events about them."""
        items = self.call("GET", "/api/v1/events")["items"]
        return [(e["involvedObject"]["name"], e["reason"]) for e in items]

    def metric(self, name: str) -> float:
        for line in self.registry.text().decode().splitlines():
            if line.startswith(f"tessera_rebalancer_{name} "):
                return float(line.rpartition(" ")[2])
        raise AssertionError(name)


def pod_path(name: str) -> str:
    return f"/api/v1/namespaces/default/pods/{name}"


def two_half_full() -> Cluster:
    """Two cards, each half full, and a pod that waits for a whole one."""
    cluster = Cluster()
    cluster.runs("a", "n0", age_s=1.5 * HOUR_S)
    cluster.runs("b", "n1", age_s=HOUR_S)
    cluster.waits("w")
    return cluster


def settings(**more: Any) -> PlanSettings:
    """Everything is worth it, after a short wait."""
    plain = PlanSettings(worth=WorthRules(times=0, wait_s=5), move=MoveRules())
    return replace(plain, **more)


@asynccontextmanager
async def planning(
    cluster: Cluster, config: PlanSettings | None = None, kube: FakeKube | None = None,
    *, kubelet: bool = True,
) -> AsyncGenerator[PlanService]:  # fmt: skip
    """Plans about the cluster."""
    kube = kube or cluster.kube
    config = config or settings()
    async with (
        open_outbox(cluster.bus, cluster.clock, "rebalancer", "r") as outbox,
        open_events(
            kube, EventSettings(), component="tessera-rebalancer", clock=cluster.clock
        ) as events,
        asyncio.TaskGroup() as group,
    ):
        environment = ServiceEnvironment(
            kube=kube, bus=cluster.bus, settings=RebalancerSettings(plans=config, kube=QUIET),
            clock=cluster.clock, registry=REGISTRY,
        )  # fmt: skip
        objects = ClusterObjects(environment)
        plans = PlanService(environment, outbox, events, _fresh(cluster), Usage(cluster), objects)
        ending = group.create_task(cluster.kubelet() if kubelet else asyncio.sleep(0), name="kl")
        async with (
            running_in_background(objects.run(), "cluster objects"),
            running_in_background(plans.run(), "plans"),
        ):
            yield plans
        ending.cancel()


class Usage:
    """What the test says was measured of the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def hints(self) -> Mapping[str, NodeHints]:
        return self._cluster.hints

    @property
    def measured(self) -> Sequence[SmoothContainer]:
        return self._cluster.measured


def _fresh(cluster: Cluster) -> MetricsRegistry:
    cluster.registry = MetricsRegistry("rebalancer")
    return cluster.registry


async def until(true: Callable[[], object], within_s: float = 2000) -> None:
    """Let time pass until something is so."""
    async with asyncio.timeout(within_s):
        while not true():
            await asyncio.sleep(0.5)


def names(pods: Sequence[Any]) -> list[str]:
    return [pod.name for pod in pods]
