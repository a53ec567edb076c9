"""A cluster in memory, what agents would report of it, and its rebalancer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from tessera_core.registry.registry import load
from tessera_core.trust.grants import Signer, new_key, published_key
from tessera_core.trust.messages import MessageSigner
from tessera_embedded.apiserver.store import Store
from tessera_rebalancer.rebalancer import Rebalancer, open_rebalancer
from tessera_rebalancer.settings import RebalancerSettings
from tessera_runtime.bus.api import Bus
from tessera_runtime.kube.settings import KubeSettings
from tessera_runtime.service import ServiceEnvironment
from tessera_schema.annotation_keys import SIGNING_KEYS
from tessera_schema.cards import MIB, Card
from tessera_schema.grants import Grant, Share, encode_grant
from tessera_schema.messages.device_reports import (
    CardLoad,
    CardUse,
    ContainerUse,
    NodeUsage,
    encode,
)
from tessera_schema.messages.envelope import Envelope
from tessera_schema.messages.event_catalogue import USAGE_MEASURED
from tessera_schema.messages.hints import NodeHints, decode_hints
from tessera_schema.node_cards import NodeCardsAnnotation, encode_node_cards
from tessera_schema.subjects import HINTS_BUCKET, token, usage
from tessera_testing.builders import a_card
from tessera_testing.bus import FakeBus
from tessera_testing.clock import LoopClock
from tessera_testing.kube import FakeKube, a_store

REGISTRY = load()
HOME = "tessera-system"
VENDOR = "nvidia"
NODE = "n0"
SPEAKER = MessageSigner(new_key())
"""By which every node's agent signs."""


class Objects:
    """What an API server holds: nodes of two cards, pods, and the key that signs grants."""

    def __init__(self, store: Store, *nodes: str, keys: bool = True) -> None:
        self.store = store
        self.signer = Signer(new_key())
        self.make("/api/v1/namespaces", {"metadata": {"name": HOME}})
        if keys:
            self.publish_keys()
        for node in nodes or (NODE,):
            cards = tuple(
                a_card(f"{node}-{i}", i, vendor=VENDOR, mib=16384, model="NVIDIA A100")
                for i in range(2)
            )
            self.make("/api/v1/nodes", {"metadata": {"name": node}})
            self.publish(node, *cards)

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        raw = b"" if body is None else msgspec.json.encode(body)
        response = self.store.handle(method, path, {}, raw, kind)
        assert response.code in {200, 201}, response.body
        answer: dict[str, Any] = msgspec.json.decode(response.body)
        return answer

    def make(self, path: str, body: object) -> dict[str, Any]:
        return self.call("POST", path, body)

    def publish(self, node: str, *cards: Card, vendor: str = VENDOR) -> None:
        """As that vendor's agent there does."""
        published = encode_node_cards(NodeCardsAnnotation(cards=cards, speaks=SPEAKER.public))
        notes = {f"cards.tessera.dev/{vendor}": published}
        self.call("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"annotations": notes}})

    def publish_keys(self) -> None:
        self.make(f"/api/v1/namespaces/{HOME}/configmaps", keys_of(self.signer))

    def bound(
        self, name: str, cores: float = 50, *, node: str = NODE, card: int = 0, mib: int = 8192,
        signer: Signer | None = None, **meta: Any,
    ) -> str:  # fmt: skip
        """A pod that runs and holds a part of a card; its uid."""
        body = {
            "metadata": {"name": name, **meta},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        uid: str = self.make("/api/v1/namespaces/default/pods", body)["metadata"]["uid"]
        share = Share(
            container="c", position=0, vendor=VENDOR, dialect="hami", card=f"{node}-{card}",
            index=card, memory_bytes=mib * MIB, cores_percent=cores,
        )  # fmt: skip
        grant = Grant(uid=uid, namespace="default", name=name, node=node, shares=(share,))
        text = (signer or self.signer).sign(encode_grant(grant))
        self.make(
            f"{self.path(name)}/binding",
            {
                "metadata": {"name": name, "annotations": {"tessera.dev/grant": text}},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            },
        )
        self.call("PATCH", f"{self.path(name)}/status", {"status": {"phase": "Running"}})
        return uid

    def path(self, name: str) -> str:
        return f"/api/v1/namespaces/default/pods/{name}"

    def end(self, name: str) -> None:
        self.call("DELETE", self.path(name), {"gracePeriodSeconds": 0})


class Cluster(Objects):
    """An API server and a bus in memory."""

    def __init__(self, *nodes: str, keys: bool = True) -> None:
        self.clock = LoopClock()
        super().__init__(a_store(self.clock), *nodes, keys=keys)
        self.bus = FakeBus()
        self.kube = FakeKube(self.store)
        self.agents = Agents(self.bus, self.clock.time)

    def hints(self, node: str = NODE) -> NodeHints | None:
        """The last value that NATS keeps."""
        message = self.bus.values(HINTS_BUCKET).get(token(node))
        return None if message is None else decode_hints(message.data)

    def published(self, node: str = NODE) -> list[NodeHints]:
        """Everything that was published about the node, in order."""
        said = self.bus.said(f"tessera.v1.*.hint.{token(node)}")
        return [decode_hints(message.data) for message in said]


def keys_of(signer: Signer) -> dict[str, Any]:
    """The ConfigMap that publishes its key."""
    return {"metadata": {"name": SIGNING_KEYS}, "data": dict([published_key(signer.public)])}


class Agents:
    """What agents measure."""

    def __init__(self, bus: Bus, time: Callable[[], float]) -> None:
        self._bus = bus
        self._time = time
        self._sequences: Counter[tuple[str, str]] = Counter()

    async def publish(
        self, *uses: tuple[str, CardUse], node: str = NODE, vendor: str = VENDOR,
        loads: Mapping[str, float] | None = None, reclaims: Collection[str] = (),
    ) -> None:  # fmt: skip
        """Uses of pods by uid; `loads` are the driver's view, by card. Of the cards in `reclaims`
        the agent takes memory back."""
        key = node, vendor
        self._sequences[key] += 1
        containers = tuple(
            ContainerUse(namespace="default", pod=uid, uid=uid, container="c", cards=(use,))
            for uid, use in uses
        )
        published = NodeUsage(
            node=node, vendor=vendor, at=self._time(), interval_s=2, containers=containers,
            cards=tuple(
                CardLoad(card=c, cores_percent=load, reclaims=c in reclaims)
                for c, load in (loads or {}).items()
            ),
        )  # fmt: skip
        envelope = Envelope(
            id=f"{node}-{vendor}-{self._sequences[key]}", source=f"/tessera/agent/{node}.{vendor}",
            type=USAGE_MEASURED, time=datetime.fromtimestamp(self._time(), UTC).isoformat(),
            epoch=1, sequence=self._sequences[key],
        )  # fmt: skip
        data = encode(published)
        envelope = replace(envelope, signature=SPEAKER.sign(envelope.order, data))
        await self._bus.publish(usage("default", node), envelope, data)

    async def measure(self, for_s: float, *uses: tuple[str, CardUse], node: str = NODE) -> None:
        """The same every two seconds."""
        for _ in range(int(for_s // 2)):
            await self.publish(*uses, node=node)
            await asyncio.sleep(2)


def a_use(cores: float, *, node: str = NODE, card: int = 0, **fields: Any) -> CardUse:
    return CardUse(card=f"{node}-{card}", cores_percent=cores, **fields)


def settings(**fields: Any) -> RebalancerSettings:
    return RebalancerSettings(kube=KubeSettings(watch_s=100_000, silence_s=200_000), **fields)


@asynccontextmanager
async def rebalancing(
    cluster: Cluster, config: RebalancerSettings | None = None
) -> AsyncGenerator[Rebalancer]:
    """A rebalancer of the cluster."""
    world = ServiceEnvironment(
        kube=FakeKube(cluster.store), bus=cluster.bus, settings=config or settings(),
        clock=cluster.clock, registry=REGISTRY,
    )  # fmt: skip
    async with open_rebalancer(world) as rebalancer:
        yield rebalancer


async def until(true: Callable[[], object], within_s: float = 600) -> None:
    """Let time pass until something is so."""
    async with asyncio.timeout(within_s):
        while not true():
            await asyncio.sleep(0.05)
