"""A cluster in memory that several schedulers, nodes and operators work on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET

from tessera_core.trust import fencing
from tessera_runtime.kube.settings import KubeSettings
from tessera_scheduler.binding.settings import BindSettings
from tessera_scheduler.settings import SchedulerSettings
from tessera_schema.annotation_keys import CARDS_PREFIX
from tessera_schema.cards import Card
from tessera_schema.node_cards import ALLOCATE, NodeCardsAnnotation, encode_node_cards
from tessera_testing.bus import FakeBus
from tessera_testing.clock import LoopClock
from tessera_testing.kube import a_store
from tessera_testing.stoppable import StoppableLoop
from tests.machine.truth import Bound, Truth
from tests.scheduler.fake_cluster import AGENT_LEASES, HOME, LEASE, cards_on

MIB: Final = 2**20
TEAM: Final = "team"
"""The namespace that has a quota."""
QUOTA_MIB: Final = 16000
"""What it is in the beginning."""
NAMESPACES: Final = ("default", TEAM)
VENDOR: Final = "nvidia"
"""Whose cards the nodes have."""
QUOTAS: Final = f"/api/v1/namespaces/{TEAM}/resourcequotas"
LATE_S: Final = 25.0
"""The most seconds that a request spends on its way to the API server."""
RECEIVED_S: Final = 40.0
"""The most seconds that an event of a watch spends on its way."""
SETTINGS: Final = SchedulerSettings(
    kube=KubeSettings(watch_s=100_000, silence_s=200_000, page=2, retry_most_s=4),
    bind=BindSettings(late_s=LATE_S + 5),
)
LAG_S: Final = 100.0
"""Seconds for which a ledger that is in touch with the API server may not have of a lower quota:
events come late, lists fail."""


def a_pod(name: str, shape: Mapping[str, Any]) -> dict[str, Any]:
    """A pod as a user writes it."""
    return {"metadata": {"name": name}, "spec": dict(shape)}


def container_of(name: str, **limits: object) -> dict[str, Any]:
    """A container that asks for cards; `_` stands for what comes before the resource's name."""
    named = {f"nvidia.com/{key}": str(value) for key, value in limits.items()}
    return {"name": name, "image": "i", "resources": {"limits": named}}


def _requests(resources: Mapping[str, str]) -> dict[str, Any]:
    return {"name": "c", "image": "i", "resources": {"limits": resources}}


_WISH: Final = {
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}
    ]
}

SHAPES: Final[tuple[dict[str, Any], ...]] = (
    {"containers": [container_of("c", gpu=1, gpumem=4000)]},
    {"containers": [container_of("c", gpu=1, gpumem=7000, gpucores=40)]},
    {"containers": [container_of("c", gpu=1, gpumem=12000)]},
    {"containers": [container_of("c", gpu=1, gpucores=100)]},
    {"containers": [container_of("c", gpu=2, gpumem=6000)]},
    {"containers": [container_of("a", gpu=1, gpumem=5000), container_of("b", gpu=1, gpumem=3000)]},
    {
        "initContainers": [container_of("i", gpu=1, gpumem=12000)],
        "containers": [container_of("c", gpu=1, gpumem=3000)],
        "restartPolicy": "Never",
    },
    {
        "initContainers": [container_of("i", gpu=1, gpumem=9000)],
        "containers": [container_of("c", gpu=1, gpumem=2000)],
    },
    {
        "initContainers": [container_of("s", gpu=1, gpumem=2000) | {"restartPolicy": "Always"}],
        "containers": [container_of("c", gpu=1, gpumem=6000)],
    },
    {
        "containers": [container_of("c", gpu=1, gpumem=9000)],
        "affinity": {"nodeAffinity": _WISH},
    },
    {"containers": [_requests({"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "5000"})]},
    {"containers": [_requests({"tencent.com/vcuda-core": "30", "tencent.com/vcuda-memory": "20"})]},
    {"containers": [container_of("c", gpu=1, gpumem=100_000)]},
)


class Cluster:
    """Objects, the bus, the time."""

    def __init__(
        self, loop: StoppableLoop, nodes: int, cards: int, *, allocating: bool = False,
        fenced: bool = True,
    ) -> None:  # fmt: skip
        """`allocating`: kubelet asks the last node's agent for cards, and does not say for which
        container. `fenced`: the API server refuses grants of a term that is over."""
        self.loop = loop
        self.allocating = f"n{nodes - 1}" if allocating else ""
        self.clock = LoopClock(loop)
        self.store = a_store(self.clock)
        self.bus = FakeBus()
        self.cards: dict[str, dict[str, Card]] = {
            f"n{i}": {card.id: card for card in cards_on(f"n{i}", cards)} for i in range(nodes)
        }
        self.unhealthy: set[str] = set()
        """Cards' ids."""
        self.ever_unhealthy: set[str] = set()
        self.quota: list[tuple[float, float]] = []
        """From when on how many MiB the team may have."""
        self._heartbeats: dict[str, float] = {}
        """Node -> seconds for which a renewal of its agent's Lease counts, once it announces it."""
        self._outages: dict[str, list[tuple[float, float]]] = {}
        """When each scheduler could receive nothing."""
        self.made: dict[str, float] = {}
        """When each pod was made."""
        for namespace in (HOME, AGENT_LEASES, TEAM):
            self.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        self.call("POST", LEASE, {"metadata": {"name": "tessera-scheduler"}})
        for path, guard in fencing.fencing_policy(HOME).items() if fenced else ():
            self.call("POST", path, guard)
        self.limit(QUOTA_MIB)
        self.truth = Truth(self.store, self.time, self.cards, self.allocating, fenced=fenced)
        self.truth.on_bound = self._check_quota
        for node in self.cards:
            self.join(node)

    def time(self) -> float:
        """The loop's."""
        return self.loop.time()

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any] | None:
        """What the API server answers to an administrator; None when it refuses."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        raw = b"" if body is None else msgspec.json.encode(body)
        response = self.store.handle(method, path, {}, raw, kind)
        if response.code >= 300:
            return None
        answer: dict[str, Any] = msgspec.json.decode(response.body)
        return answer

    # -- pods

    def create(self, name: str, namespace: str, shape: Mapping[str, Any]) -> str:
        """A user makes a pod; its uid, or nothing where there is one of the name."""
        made = self.call("POST", f"/api/v1/namespaces/{namespace}/pods", a_pod(name, shape))
        uid: str = made["metadata"]["uid"] if made is not None else ""
        self.made.setdefault(uid, self.time())
        return uid

    def path(self, uid: str) -> str:
        """A living pod's."""
        meta = self.truth.pods[uid].metadata
        return f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}"

    def delete(self, uid: str, grace_s: int) -> None:
        """With `grace_s` 0 the API server forgets it at once, whatever runs."""
        self.call("DELETE", self.path(uid), {"gracePeriodSeconds": grace_s})

    # -- nodes

    def join(self, node: str) -> None:
        """A node registers; nothing where it is known."""
        self.call("POST", "/api/v1/nodes", {"metadata": {"name": node}})
        self.publish(node)

    def leave(self, node: str) -> None:
        """Its object is deleted; what runs on it goes on."""
        self.call("DELETE", f"/api/v1/nodes/{node}")

    def publish(self, node: str) -> None:
        """Its agent writes its cards as they are."""
        giving = ALLOCATE if node == self.allocating else UNSET
        published = NodeCardsAnnotation(
            cards=self.cards_of(node), giving=giving,
            heartbeat_s=self._heartbeats.get(node, UNSET),
        )  # fmt: skip
        text = encode_node_cards(published)
        note = {"metadata": {"annotations": {f"{CARDS_PREFIX}{VENDOR}": text}}}
        self.call("PATCH", f"/api/v1/nodes/{node}", note)

    def announce(self, node: str, heartbeat_s: float) -> None:
        """Its agent has renewed its Lease, and says for how long that counts."""
        if self._heartbeats.get(node) != heartbeat_s:
            self._heartbeats[node] = heartbeat_s
            self.publish(node)

    def ail(self, card: str) -> None:
        """A card goes bad."""
        self.unhealthy.add(card)
        self.ever_unhealthy.add(card)

    def cards_of(self, node: str) -> tuple[Card, ...]:
        """As they are."""
        return tuple(
            msgspec.structs.replace(card, healthy=card.id not in self.unhealthy)
            for card in self.cards[node].values()
        )

    def node_names(self) -> list[str]:
        """Nodes that the API server has."""
        answer = self.call("GET", "/api/v1/nodes")
        return [item["metadata"]["name"] for item in answer["items"]] if answer else []

    # -- quota

    def limit(self, mib: int | None) -> None:
        """What the team may have; None lifts it."""
        if mib is None:
            self.call("DELETE", f"{QUOTAS}/q")
        else:
            spec = {"spec": {"hard": {"limits.nvidia.com/gpumem": str(mib)}}}
            if self.call("PATCH", f"{QUOTAS}/q", spec) is None:
                self.call("POST", QUOTAS, {"metadata": {"name": "q"}, **spec})
        self.quota.append((self.time(), float("inf") if mib is None else mib))

    def out_of_touch(self, scheduler: str) -> None:
        """It receives nothing from now on."""
        outages = self._outages.setdefault(scheduler, [])
        if not outages or outages[-1][1] <= self.time():
            outages.append((self.time(), float("inf")))

    def in_touch(self, scheduler: str) -> None:
        """It may receive again what happened."""
        outages = self._outages.get(scheduler)
        if outages and outages[-1][1] == float("inf"):
            outages[-1] = outages[-1][0], self.time()

    def _check_quota(self, bound: Bound) -> None:
        """No pod may be bound beyond any quota that its scheduler may have known of."""
        if bound.grant.namespace != TEAM or bound.overtaken:
            return
        made = self.made[bound.grant.uid] - LAG_S
        overlapping = [
            start - LAG_S for all_of in self._outages.values() for start, end in all_of
            if end >= made
        ]  # fmt: skip
        since = min([made, *overlapping])
        until = [at for at, _ in self.quota[1:]] + [float("inf")]
        most = max(mib for (_, mib), end in zip(self.quota, until, strict=True) if end >= since)
        has = self.truth.memory_of(TEAM) / MIB
        if has > most:
            self.truth.wrong.append(
                f"{bound.grant.name} was bound, so {TEAM} has {has:g} of at most {most:g} MiB"
            )
