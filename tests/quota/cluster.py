"""A cluster in memory, quotas in it, and what agents would report of its pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from tessera_core.registry.registry import load
from tessera_core.trust.grants import Signer, new_key, published_key
from tessera_core.trust.messages import MessageSigner
from tessera_quota.monitor import QuotaMonitor, open_quota
from tessera_quota.settings import (
    QuotaSettings,
    StatusSettings,
    ThrottleSettings,
    UsageCountSettings,
)
from tessera_runtime.kube.settings import KubeSettings
from tessera_runtime.kube.timestamps import format_time
from tessera_runtime.service import ServiceEnvironment
from tessera_schema.annotation_keys import SIGNING_KEYS
from tessera_schema.cards import MIB, Card
from tessera_schema.grants import Grant, Share, encode_grant
from tessera_schema.messages.device_reports import CardUse, ContainerUse, NodeUsage, encode
from tessera_schema.messages.envelope import Envelope
from tessera_schema.messages.event_catalogue import USAGE_MEASURED
from tessera_schema.node_cards import NodeCardsAnnotation, encode_node_cards
from tessera_schema.quotas import QuotaEvent, QuotaStatus, decode_quota
from tessera_schema.subjects import usage
from tessera_testing.builders import a_card
from tessera_testing.bus import FakeBus
from tessera_testing.clock import LoopClock
from tessera_testing.kube import FakeKube, a_store

HOME = "tessera-system"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ROOT = Path(__file__).parents[2]
DEFINITION = msgspec.yaml.decode(
    (ROOT / "deploy/kustomize/base/crds/acceleratorquotas.yaml").read_bytes()
)
REGISTRY = load()
NODE = "n0"
SPEAKER = MessageSigner(new_key())
"""By which the node's agent signs."""
VENDOR = "nvidia"

_status = msgspec.json.Decoder(QuotaStatus).decode


class Cluster:
    """An API server with one node, a bus, and a signer of grants."""

    def __init__(self, cards: int = 8, *, defined: bool = True, keys: bool = True) -> None:
        self.clock = LoopClock()
        self.store = a_store(self.clock)
        self.bus = FakeBus()
        self.kube = FakeKube(self.store)
        self.signer = Signer(new_key())
        self.make("/api/v1/namespaces", {"metadata": {"name": HOME}})
        if keys:
            self.publish_keys(self.signer)
        self.cards = [
            a_card(f"GPU-{i}", i, vendor=VENDOR, mib=16384, model="NVIDIA A100")
            for i in range(cards)
        ]
        self.node(NODE, self.cards)
        self._sequence = 0
        if defined:
            self.define()

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        raw = b"" if body is None else msgspec.json.encode(body)
        response = self.store.handle(method, path, {}, raw, kind)
        assert response.code in {200, 201}, response.body
        answer: dict[str, Any] = msgspec.json.decode(response.body)
        return answer

    def make(self, path: str, body: object) -> dict[str, Any]:
        return self.call("POST", path, body)

    def define(self) -> None:
        self.make(CRDS, DEFINITION)

    def publish_keys(self, *signers: Signer) -> None:
        path = f"/api/v1/namespaces/{HOME}/configmaps"
        body = keys_of(*signers)
        if self.store.handle("GET", f"{path}/{SIGNING_KEYS}").code == 200:
            self.call("PATCH", f"{path}/{SIGNING_KEYS}", {"data": body["data"]})
        else:
            self.make(path, body)

    def node(self, name: str, cards: Sequence[Card]) -> None:
        text = encode_node_cards(NodeCardsAnnotation(cards=tuple(cards), speaks=SPEAKER.public))
        notes = {f"cards.tessera.dev/{VENDOR}": text}
        self.make("/api/v1/nodes", {"metadata": {"name": name, "annotations": notes}})

    # -- quotas

    def quota(
        self, spec: Mapping[str, Any], name: str = "q", namespace: str = "default"
    ) -> dict[str, Any]:
        self._namespace(namespace)
        return self.make(_quotas(namespace), {**_KIND, "metadata": {"name": name}, "spec": spec})

    def change(self, spec: Mapping[str, Any], name: str = "q", namespace: str = "default") -> None:
        self.call("PATCH", f"{_quotas(namespace)}/{name}", {"spec": spec})

    def drop(self, name: str = "q", namespace: str = "default") -> None:
        self.call("DELETE", f"{_quotas(namespace)}/{name}")

    def status(self, name: str = "q", namespace: str = "default") -> QuotaStatus:
        raw = self.call("GET", f"{_quotas(namespace)}/{name}").get("status", {})
        return _status(msgspec.json.encode(raw))

    # -- pods

    def waiting(self, name: str, mib: int = 4000, namespace: str = "default") -> str:
        """A pod that asks for a part of a card."""
        self._namespace(namespace)
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(mib)}
        container = {"name": "c", "image": "i", "resources": {"limits": limits}}
        made = self.make(
            f"/api/v1/namespaces/{namespace}/pods",
            {"metadata": {"name": name}, "spec": {"containers": [container]}},
        )
        uid: str = made["metadata"]["uid"]
        return uid

    def bound(
        self, name: str, card: int = 0, mib: int = 4000, cores: float = 25,
        namespace: str = "default", *, runs: bool = True, signer: Signer | None = None,
    ) -> str:  # fmt: skip
        """A pod that holds a part of a card, as bind leaves it."""
        uid = self.waiting(name, mib, namespace)
        share = Share(
            container="c", position=0, vendor=VENDOR, dialect="hami", card=f"GPU-{card}",
            index=card, memory_bytes=mib * MIB, cores_percent=cores,
        )  # fmt: skip
        grant = Grant(uid=uid, namespace=namespace, name=name, node=NODE, shares=(share,))
        text = (signer or self.signer).sign(encode_grant(grant))
        self.make(
            f"{_pod(namespace, name)}/binding",
            {
                "metadata": {"name": name, "annotations": {"tessera.dev/grant": text}},
                "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
            },
        )
        if runs:
            self.start(name, namespace)
        return uid

    def start(self, name: str, namespace: str = "default") -> None:
        status = {"phase": "Running", "startTime": format_time(self.clock.time())}
        self.call("PATCH", f"{_pod(namespace, name)}/status", {"status": status})

    def end(self, name: str, namespace: str = "default") -> None:
        self.call("DELETE", _pod(namespace, name), {"gracePeriodSeconds": 0})

    # messages

    async def use(
        self, *pods: tuple[str, str, CardUse], interval_s: float = 2, repeat: bool = False
    ) -> None:
        """What the agent reports of pods: namespace, uid and use of a card each."""
        self._sequence += not repeat
        containers = tuple(
            ContainerUse(namespace=namespace, pod=uid, uid=uid, container="c", cards=(card,))
            for namespace, uid, card in pods
        )
        published = NodeUsage(
            node=NODE, vendor=VENDOR, at=self.clock.time(), interval_s=interval_s,
            containers=containers,
        )  # fmt: skip
        envelope = Envelope(
            id=f"u{self._sequence}", source="/tessera/agent/n0.nvidia", type=USAGE_MEASURED,
            time="2026-09-21T00:00:00Z", epoch=1, sequence=self._sequence,
        )  # fmt: skip
        data = encode(published)
        envelope = replace(envelope, signature=SPEAKER.sign(envelope.order, data))
        await self.bus.publish(usage("default", NODE), envelope, data)

    def published(self) -> list[QuotaEvent]:
        """What was said of quotas."""
        return [decode_quota(message.data) for message in self.bus.said("tessera.v1.*.quota.>")]

    def reasons(self, kind: str = "AcceleratorQuota") -> list[str]:
        """Reasons of Kubernetes Events about objects of the kind."""
        items = msgspec.json.decode(self.store.handle("GET", "/api/v1/events").body)["items"]
        return [e["reason"] for e in items if e["involvedObject"]["kind"] == kind]

    def _namespace(self, name: str) -> None:
        if self.store.handle("GET", f"/api/v1/namespaces/{name}").code == 404:
            self.make("/api/v1/namespaces", {"metadata": {"name": name}})


def keys_of(*signers: Signer) -> dict[str, Any]:
    """The ConfigMap that publishes their keys."""
    data = dict(published_key(signer.public) for signer in signers)
    return {"metadata": {"name": SIGNING_KEYS}, "data": data}


_KIND = {"apiVersion": "tessera.dev/v1alpha1", "kind": "AcceleratorQuota"}


def _quotas(namespace: str) -> str:
    return f"/apis/tessera.dev/v1alpha1/namespaces/{namespace}/acceleratorquotas"


def _pod(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def settings(
    *, after_s: float = 600, cores_percent: float = 50, idle_s: float = 3600, **count: Any
) -> QuotaSettings:
    return QuotaSettings(
        kube=KubeSettings(watch_s=100_000, silence_s=200_000),
        throttle=ThrottleSettings(after_s=after_s, cores_percent=cores_percent),
        count=UsageCountSettings(idle_s=idle_s, **count),
        status=StatusSettings(write_s=10, calm_s=60),
    )


@asynccontextmanager
async def monitoring(
    cluster: Cluster, config: QuotaSettings | None = None, kube: FakeKube | None = None
) -> AsyncGenerator[QuotaMonitor]:
    """A quota monitor of the cluster."""
    world = ServiceEnvironment(
        kube=kube or cluster.kube, bus=cluster.bus, settings=config or settings(),
        clock=cluster.clock, registry=REGISTRY,
    )  # fmt: skip
    async with open_quota(world) as quota:
        yield quota


async def until(true: Callable[[], object], within_s: float = 600) -> None:
    """Let time pass until something is so."""
    async with asyncio.timeout(within_s):
        while not true():
            await asyncio.sleep(0.05)
