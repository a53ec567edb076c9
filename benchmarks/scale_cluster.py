"""The objects of a large cluster: nodes of 8 cards, pods with signed grants, a namespace with its
quota for every ten nodes, Leases of agents. They are put into an embedded API server past its
sockets; what changes later comes to the services by their watches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec
from msgspec import Struct

from tessera_core.trust.grants import Signer, published_key
from tessera_core.trust.messages import MessageSigner
from tessera_embedded.apiserver.store import Store
from tessera_runtime.kube.heartbeat import HeartbeatSettings, agent_lease_name
from tessera_runtime.kube.timestamps import format_time
from tessera_schema.annotation_keys import SIGNING_KEYS
from tessera_schema.cards import MIB, Card
from tessera_schema.grants import GRANT_KEY, Grant, Share, encode_grant
from tessera_schema.node_cards import NodeCardsAnnotation, encode_node_cards
from tessera_testing.builders import a_card

CLUSTER: Final = "scale"
VENDOR: Final = "nvidia"
HOME: Final = "tessera-system"
CARDS: Final = 8
POD_MIB: Final = 5000
CARD_MIB: Final = 16384
AGE_S: Final = 5 * 86_400
"""Of every pod: who moves it loses so much work."""
WAITING_EACH: Final = 100
"""For so many nodes a pod waits for a whole card."""
A_NAMESPACE: Final = 10
"""Nodes for each namespace."""
SPEAKER: Final = MessageSigner(bytes(range(32)))
"""By which all agents sign."""
SIGNER: Final = Signer(bytes(range(1, 33)))
BEATS: Final = HeartbeatSettings()
_LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{BEATS.namespace}/leases"
_DEFINITIONS: Final = Path(__file__).parents[1] / "deploy" / "kustomize" / "base" / "crds"
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_AT_ONCE: Final = 20
"""Objects written before the server's other tasks run."""


class PlacedPod(Struct, frozen=True):
    """A pod on a card."""

    namespace: str
    name: str
    uid: str
    card: int


class Layout(Struct, frozen=True):
    """Who runs where."""

    nodes: dict[str, list[PlacedPod]]


_layout: Final = msgspec.json.Decoder(Layout).decode


def read_layout(path: Path) -> Layout:
    """As `LargeCluster.fill` has made it, and its caller has written it."""
    return _layout(path.read_bytes())


def signed_grant(pod: PlacedPod, node: str) -> str:
    """What the scheduler writes on the pod."""
    share = Share(
        container="c", position=0, vendor=VENDOR, dialect="hami", card=f"{node}-{pod.card}",
        index=pod.card, memory_bytes=POD_MIB * MIB, cores_percent=0,
    )  # fmt: skip
    grant = Grant(uid=pod.uid, namespace=pod.namespace, name=pod.name, node=node, shares=(share,))
    return SIGNER.sign(encode_grant(grant))


def cards_of(node: str) -> list[Card]:
    """A node's cards."""
    return [a_card(f"{node}-{i}", i, vendor=VENDOR, mib=CARD_MIB) for i in range(CARDS)]


class LargeCluster:
    """Objects in an embedded API server."""

    def __init__(self, store: Store, nodes: int, pods: int) -> None:
        """Nothing is made yet."""
        self.layout = Layout({f"node-{n:05}": [] for n in range(nodes)})
        self.changes = 0
        """Pods deleted, created and bound, and Leases renewed, since it was filled."""
        self._store = store
        self._pods = pods
        self._number = 0

    async def fill(self) -> None:
        """Make everything."""
        await self._make_all(self._installed())
        await self._make_all(self._nodes())
        names = list(self.layout.nodes)
        for number in range(self._pods):
            self._pod(names[number % len(names)], number // len(names))
            if not number % _AT_ONCE:
                await asyncio.sleep(0)
        for _ in range(len(names) // WAITING_EACH):
            pod = self.waiting_pod(CARD_MIB)["metadata"]
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            path = f"{_pod(pod['namespace'], pod['name'])}/status"
            self._call("PATCH", path, {"status": {"conditions": [condition]}})

    async def churn(self, pods_a_s: float) -> NoReturn:
        """Replace pods, so many a second, and renew the agents' Leases, for ever."""
        names, began = list(self.layout.nodes), time.monotonic()
        replaced = renewed = 0
        while True:
            passed_s = time.monotonic() - began
            while replaced < passed_s * pods_a_s:
                node = names[replaced * 7 % len(names)]
                if self.layout.nodes[node]:
                    old = self.layout.nodes[node].pop(0)
                    self.delete(old.namespace, old.name)
                    self._pod(node, old.card)
                replaced, self.changes = replaced + 1, self.changes + 2
            while renewed < passed_s * len(names) / BEATS.renew_s:
                self._renew(names[renewed % len(names)])
                renewed, self.changes = renewed + 1, self.changes + 1
            await asyncio.sleep(0.05)

    def waiting_pod(self, mib: int = POD_MIB) -> dict[str, Any]:
        """Another pod, which has no node."""
        self._number += 1
        meta = {"name": f"waits-{self._number}", "namespace": "team-0"}
        return self._call(
            "POST", "/api/v1/namespaces/team-0/pods", {"metadata": meta, "spec": _spec(mib)}
        )

    def delete(self, namespace: str, name: str) -> None:
        """Delete a pod at once."""
        self._call("DELETE", _pod(namespace, name), {"gracePeriodSeconds": 0})

    # -- objects

    def _installed(self) -> Iterator[tuple[str, Any]]:
        for name in (HOME, BEATS.namespace):
            yield "/api/v1/namespaces", {"metadata": {"name": name}}
        lease = {"metadata": {"name": "tessera-scheduler"}}
        yield f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases", lease
        for kind in ("acceleratorquotas", "rebalanceplans"):
            yield _CRDS, msgspec.yaml.decode((_DEFINITIONS / f"{kind}.yaml").read_bytes())
        keys = {"metadata": {"name": SIGNING_KEYS}, "data": dict([published_key(SIGNER.public)])}
        yield f"/api/v1/namespaces/{HOME}/configmaps", keys
        for number in range(-(-len(self.layout.nodes) // A_NAMESPACE)):
            name = f"team-{number}"
            yield "/api/v1/namespaces", {"metadata": {"name": name}}
            quota = {"metadata": {"name": "q"}, "spec": {"hard": {"memory": "900Gi"}}}
            path = f"/apis/tessera.dev/v1alpha1/namespaces/{name}/acceleratorquotas"
            version = {"apiVersion": "tessera.dev/v1alpha1", "kind": "AcceleratorQuota"}
            yield path, {**version, **quota}

    def _nodes(self) -> Iterator[tuple[str, Any]]:
        allocatable = {
            "cpu": "96", "memory": "768Gi", "pods": "110", "ephemeral-storage": "900Gi",
            "nvidia.com/gpu": "80",
        }  # fmt: skip
        for node in self.layout.nodes:
            published = NodeCardsAnnotation(
                cards=tuple(cards_of(node)), speaks=SPEAKER.public, heartbeat_s=BEATS.lasts_s
            )
            notes = {f"cards.tessera.dev/{VENDOR}": encode_node_cards(published)}
            labels = {"kubernetes.io/hostname": node}
            meta = {"name": node, "annotations": notes, "labels": labels}
            status = {"allocatable": allocatable, "capacity": allocatable}
            yield "/api/v1/nodes", {"metadata": meta, "status": status}
            lease = {
                "metadata": {"name": agent_lease_name(VENDOR, node)}, "spec": _renewal(),
            }  # fmt: skip
            yield _LEASES, lease

    def _pod(self, node: str, card: int) -> None:
        """A pod that runs."""
        self._number += 1
        number = int(node.rpartition("-")[2])
        namespace, name = f"team-{number // A_NAMESPACE}", f"job-{self._number}"
        owner = {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "job", "uid": f"rs-{namespace}",
            "controller": True,
        }  # fmt: skip
        path = f"/api/v1/namespaces/{namespace}/pods"
        meta: dict[str, Any] = {"name": name, "ownerReferences": [owner], "labels": {"app": "job"}}
        body = {"metadata": meta, "spec": _spec(POD_MIB)}
        uid = self._call("POST", path, body)["metadata"]["uid"]
        placed = PlacedPod(namespace, name, uid, card % CARDS)
        notes = {GRANT_KEY: signed_grant(placed, node)}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        self._call(
            "POST", f"{path}/{name}/binding",
            {"metadata": {"name": name, "annotations": notes}, "target": target},
        )  # fmt: skip
        status = {"phase": "Running", "startTime": format_time(time.time() - AGE_S)}
        self._call("PATCH", f"{path}/{name}/status", {"status": status})
        self.layout.nodes[node].append(placed)

    def _renew(self, node: str) -> None:
        self._call("PATCH", f"{_LEASES}/{agent_lease_name(VENDOR, node)}", {"spec": _renewal()})

    async def _make_all(self, objects: Iterator[tuple[str, Any]]) -> None:
        for number, (path, body) in enumerate(objects):
            self._call("POST", path, body)
            if not number % _AT_ONCE:
                await asyncio.sleep(0)

    def _call(self, method: str, path: str, body: Any) -> dict[str, Any]:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        response = self._store.handle(method, path, {}, msgspec.json.encode(body), kind)
        if response.code not in {200, 201}:
            raise RuntimeError(f"{method} {path}: {response.code} {response.body[:200]!r}")
        found: dict[str, Any] = msgspec.json.decode(response.body)
        return found


def _spec(mib: int) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(mib), "cpu": "2"}
    container = {"name": "c", "image": "i", "resources": {"limits": limits}}
    return {"schedulerName": "tessera-scheduler", "containers": [container]}


def _renewal() -> dict[str, Any]:
    return {
        "holderIdentity": "agent", "leaseDurationSeconds": int(BEATS.lasts_s),
        "renewTime": format_time(time.time()).replace("Z", ".000000Z"),
    }  # fmt: skip


def _pod(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"
