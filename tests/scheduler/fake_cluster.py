"""A cluster in memory, its scheduler, and the calls that kube-scheduler makes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from tessera_core.fleet.charges import Charge, charges, init_is_over
from tessera_core.ledger.entries import LedgerEntry
from tessera_core.machines.allocation import AllocationPhase
from tessera_core.registry.registry import load
from tessera_core.reports.doubts import Doubt
from tessera_core.trust import fencing
from tessera_core.trust.grants import Verifier
from tessera_embedded.apiserver.faults import Effect, InjectedFault
from tessera_runtime.kube.settings import KubeSettings, LeaseSettings
from tessera_scheduler.cache.settings import LedgerSettings
from tessera_scheduler.scheduler import Scheduler, open_scheduler
from tessera_scheduler.settings import SchedulerSettings
from tessera_schema.cards import Card
from tessera_schema.endpoints.extender import ExtenderBindingResult, ExtenderFilterResult
from tessera_schema.grants import GRANT_KEY, Grant, decode_grant
from tessera_schema.kube import Pod
from tessera_schema.node_cards import NodeCardsAnnotation, encode_node_cards
from tessera_testing.builders import a_card
from tessera_testing.bus import FakeBus
from tessera_testing.clock import LoopClock
from tessera_testing.kube import FakeKube, a_store

HOME = "tessera-system"
AGENT_LEASES = "tessera-agent-leases"
CARDS = "cards.tessera.dev/nvidia"
BINDING = r".*/namespaces/default/.*/binding"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/tessera-system/leases"

REGISTRY = load()

_filtered = msgspec.json.Decoder(ExtenderFilterResult).decode
_bound = msgspec.json.Decoder(ExtenderBindingResult).decode
_pod = msgspec.json.Decoder(Pod).decode


def cards_on(node: str, count: int = 1, **facts: Any) -> list[Card]:
    return [a_card(f"GPU-{node}-{i}", i, vendor="nvidia", mib=16384, **facts) for i in range(count)]


class FakeCluster:
    """An API server, a bus, and calls as kube-scheduler makes them."""

    def __init__(self, nodes: int = 2, cards: int = 1) -> None:
        self.clock = LoopClock()
        self.store = a_store(self.clock)
        self.bus = FakeBus()
        self.kube = FakeKube(self.store)
        for namespace in (HOME, AGENT_LEASES):
            self.make("/api/v1/namespaces", {"metadata": {"name": namespace}})
        self.make(LEASE, {"metadata": {"name": "tessera-scheduler"}})
        for path, guard in fencing.fencing_policy(HOME).items():
            self.make(path, guard)
        self.nodes = [f"n{i}" for i in range(nodes)]
        for node in self.nodes:
            self.make("/api/v1/nodes", {"metadata": {"name": node}})
            self.publish(node, cards_on(node, cards))

    # -- the cluster

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        raw = b"" if body is None else msgspec.json.encode(body)
        response = self.store.handle(method, path, {}, raw, kind)
        assert response.code in {200, 201}, response.body
        answer: dict[str, Any] = msgspec.json.decode(response.body)
        return answer

    def make(self, path: str, body: object) -> dict[str, Any]:
        return self.call("POST", path, body)

    def publish(self, node: str, cards: Sequence[Card]) -> None:
        text = encode_node_cards(NodeCardsAnnotation(cards=tuple(cards)))
        self.note(f"/api/v1/nodes/{node}", {CARDS: text})

    def note(self, path: str, annotations: Mapping[str, str | None]) -> None:
        self.call("PATCH", path, {"metadata": {"annotations": annotations}})

    def pod(self, name: str, mib: int = 4000, namespace: str = "default", **more: Any) -> str:
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(mib)} if mib else {}
        container = {"name": "c", "image": "i", "resources": {"limits": limits}}
        meta = {"name": name, "annotations": more.pop("annotations", {})}
        made = self.make(
            f"/api/v1/namespaces/{namespace}/pods",
            {"metadata": meta, "spec": {"containers": [container], **more}},
        )
        uid: str = made["metadata"]["uid"]
        return uid

    def path(self, name: str) -> str:
        return f"/api/v1/namespaces/default/pods/{name}"

    def read(self, name: str) -> Pod:
        return _pod(self.store.handle("GET", self.path(name)).body)

    def delete(self, name: str) -> None:
        self.call("DELETE", self.path(name), {"gracePeriodSeconds": 0})

    def finish(self, name: str) -> None:
        self.call("PATCH", f"{self.path(name)}/status", {"status": {"phase": "Succeeded"}})

    def bind_elsewhere(self, name: str, node: str) -> None:
        """Somebody else binds the pod."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        self.make(f"{self.path(name)}/binding", {"metadata": {"name": name}, "target": target})

    def fault(self, method: str, path: str, effect: Effect, times: int = 1) -> None:
        self.kube.faults.add(InjectedFault(method, path, effect, times))

    # -- what is true

    def granted(self, name: str, verifier: Verifier) -> Grant:
        """The grant that the pod carries, validly signed."""
        text = self.read(name).metadata.annotations[GRANT_KEY]
        assert verifier.problem(text) == ""
        return decode_grant(text)

    def truth(self) -> dict[tuple[str, str], Charge]:
        """What live pods hold of each card, by what is written on them."""
        total: dict[tuple[str, str], Charge] = {}
        for raw in msgspec.json.decode(self.store.handle("GET", "/api/v1/pods").body)["items"]:
            pod = msgspec.convert(raw, Pod)
            text = pod.metadata.annotations.get(GRANT_KEY)
            if text and pod.spec.node_name and not pod.terminal:
                grant = decode_grant(text)
                for card, charge in charges(grant.shares, init_over=init_is_over(pod)).items():
                    key = (grant.node, card)
                    total[key] = total.get(key, Charge()).plus(charge)
        return total

    def truth_on(self, node: str) -> dict[str, Charge]:
        """The same for one node."""
        return {card: charge for (on, card), charge in self.truth().items() if on == node}

    # -- kube-scheduler

    def filter_body(self, name: str, nodes: Sequence[str] | None = None) -> bytes:
        raw = self.call("GET", self.path(name))
        names = list(self.nodes if nodes is None else nodes)
        return msgspec.json.encode({"Pod": raw, "Nodes": None, "NodeNames": names})

    def filter(
        self, scheduler: Scheduler, name: str, nodes: Sequence[str] | None = None
    ) -> ExtenderFilterResult:
        return _filtered(scheduler.extender.filter(self.filter_body(name, nodes)))

    async def bind(self, scheduler: Scheduler, name: str, node: str, uid: str = "") -> str:
        """Why the pod is not bound; empty when it is."""
        args = {
            "PodName": name, "PodNamespace": "default", "Node": node,
            "PodUID": uid or self.read(name).metadata.uid,
        }  # fmt: skip
        return _bound(await scheduler.extender.bind(msgspec.json.encode(args))).error

    async def place(self, scheduler: Scheduler, name: str) -> str:
        """Filter and bind; the node, empty when there is no room."""
        answer = self.filter(scheduler, name)
        if not answer.node_names:
            return ""
        assert await self.bind(scheduler, name, answer.node_names[0]) == ""
        return answer.node_names[0]


def settings(**ledger: Any) -> SchedulerSettings:
    return SchedulerSettings(
        kube=KubeSettings(watch_s=100_000, silence_s=200_000),
        lease=LeaseSettings(),
        ledger=LedgerSettings(**ledger),
    )


@asynccontextmanager
async def standing_by(
    cluster: FakeCluster, kube: FakeKube | None = None, config: SchedulerSettings | None = None
) -> AsyncGenerator[Scheduler]:
    """A scheduler that may lead or not."""
    async with open_scheduler(
        kube or cluster.kube, cluster.bus, config or settings(), cluster.clock, REGISTRY
    ) as scheduler:
        await scheduler.watches.synced()
        yield scheduler


@asynccontextmanager
async def leading(
    cluster: FakeCluster, kube: FakeKube | None = None, config: SchedulerSettings | None = None
) -> AsyncGenerator[Scheduler]:
    """A scheduler that answers."""
    async with standing_by(cluster, kube, config) as scheduler:
        await until(lambda: scheduler.leadership.leads)
        yield scheduler


async def until(true: Callable[[], object], within_s: float = 600) -> None:
    """Let time pass until something is so."""
    async with asyncio.timeout(within_s):
        while not true():
            await asyncio.sleep(0.01)


def the_entry(scheduler: Scheduler, uid: str) -> LedgerEntry:
    entry = scheduler.ledger.entry(uid)
    assert entry is not None
    return entry


def phase(scheduler: Scheduler, uid: str) -> AllocationPhase | None:
    entry = scheduler.ledger.entry(uid)
    return None if entry is None else entry.phase


def doubted(scheduler: Scheduler) -> dict[str, float]:
    """Reason -> reports of agents, or parts of them, that did not count."""
    counts = {
        reason: counted(scheduler, f'news_disbelieved_total{{reason="{reason}"}}')
        for reason in Doubt
    }
    return {reason.value: count for reason, count in counts.items() if count}


def counted(scheduler: Scheduler, name: str) -> float:
    """A metric's value, by the line that it is scraped as."""
    for line in scheduler.metrics.registry.text().decode().splitlines():
        if line.startswith(f"tessera_scheduler_{name} "):
            return float(line.rpartition(" ")[2])
    return 0.0
