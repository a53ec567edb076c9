"""A small cluster with agents that report: as objects of the API server, and as messages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tessera_core.trust.messages import MessageSigner
from tessera_schema import subjects
from tessera_schema.cards import MIB, Card
from tessera_schema.grants import GRANT_KEY, Grant, Share, encode_grant
from tessera_schema.messages.device_reports import (
    CardLoad,
    CardUse,
    ContainerUse,
    DeviceState,
    NodeUsage,
    encode,
)
from tessera_schema.messages.envelope import Envelope
from tessera_schema.node_cards import NodeCardsAnnotation, encode_node_cards

GIB = 1024
SIGNER = MessageSigner(bytes(range(32)))
CREATED = "2026-11-24T12:00:00Z"
Json = dict[str, Any]


def a100(node: str, index: int, **facts: Any) -> Card:
    """A card of 80 GiB."""
    return Card(
        id=f"GPU-{node}-{index}", index=index, vendor="nvidia", model="NVIDIA A100-80",
        memory_bytes=80 * GIB * MIB, slots=10, **facts,
    )  # fmt: skip


def card_node(name: str, cards: Sequence[Card], **labels: str) -> Json:
    """A node whose agent publishes these cards."""
    published = NodeCardsAnnotation(cards=tuple(cards), speaks=SIGNER.public)
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name, "labels": labels,
            "annotations": {"cards.tessera.dev/nvidia": encode_node_cards(published)},
        },
        "status": {"capacity": {}, "allocatable": {}},
    }  # fmt: skip


def part(
    node: str, index: int, gib: float, cores: float = 0, *, dialect: str = "hami", **more: Any
) -> Share:
    """A share of a card of `a100`."""
    return Share(
        container="main", position=0, vendor="nvidia", dialect=dialect, card=f"GPU-{node}-{index}",
        index=index, memory_bytes=round(gib * GIB) * MIB, cores_percent=cores, **more,
    )  # fmt: skip


def holding_pod(
    namespace: str, name: str, *shares: Share, uid: str = "", labels: Mapping[str, str] = {}
) -> Json:  # fmt: skip
    """A running pod with a grant."""
    uid = uid or f"uid-{namespace}-{name}"
    node = shares[0].card.removeprefix("GPU-").rpartition("-")[0]
    grant = Grant(uid=uid, namespace=namespace, name=name, node=node, shares=shares)
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace, "uid": uid, "labels": dict(labels),
            "creationTimestamp": CREATED, "annotations": {GRANT_KEY: encode_grant(grant)},
        },
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "i"}]},
        "status": {"phase": "Running"},
    }  # fmt: skip


def waiting_pod(namespace: str, name: str, mib: int, message: str = "") -> Json:
    """A pod that asks for a share and has no node."""
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": f"{mib}"}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}",
            "creationTimestamp": CREATED,
        },
        "spec": {"containers": [{"name": "main", "image": "i", "resources": {"limits": limits}}]},
        "status": {"phase": "Pending", "conditions": [condition] if message else []},
    }  # fmt: skip


def use(
    pod: Mapping[str, Any],
    memory_gib: float,
    cores: float,
    *,
    limit: float = 0,
    throttled: float = 0,
) -> ContainerUse:
    """What the only container of a pod uses of its only card."""
    meta = pod["metadata"]
    share = json.loads(meta["annotations"][GRANT_KEY])["shares"][0]
    measured = CardUse(
        card=share["card"], memory_bytes=round(memory_gib * GIB) * MIB, cores_percent=cores,
        cores_limit_percent=limit, throttled_percent=throttled,
    )  # fmt: skip
    return ContainerUse(
        namespace=meta["namespace"], pod=meta["name"], uid=meta["uid"], container="main",
        cards=(measured,),
    )  # fmt: skip


def node_usage(node: str, *uses: ContainerUse, loads: Sequence[CardLoad] = ()) -> NodeUsage:
    """A report of one interval."""
    return NodeUsage(
        node=node, vendor="nvidia", at=1e9, interval_s=2, containers=uses, cards=tuple(loads)
    )


def signed(
    report: NodeUsage | DeviceState, cluster: str, sequence: int = 1
) -> tuple[str, Envelope, bytes]:  # fmt: skip
    """Subject, envelope and data, as the node's agent publishes them."""
    data, order = encode(report), (1, sequence)
    usage = isinstance(report, NodeUsage)
    where = (
        subjects.usage(cluster, report.node)
        if usage
        else subjects.device(cluster, report.node, report.vendor)
    )
    envelope = Envelope(
        id=f"{where}-{sequence}", source="/tessera/agent/x", type="t",
        time="2026-11-24T12:00:00Z", epoch=1, sequence=sequence, signature=SIGNER.sign(order, data),
    )  # fmt: skip
    return where, envelope, data
