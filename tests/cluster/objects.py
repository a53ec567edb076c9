"""Short manifests for the tests on a real control plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tessera_schema.cards import Card
from tessera_schema.node_cards import NodeCardsAnnotation, encode_node_cards
from tessera_testing.builders import a_card
from tests.cluster.plane import CLOCKWORK
from tests.contract.client import Json

MODELS = {"iluvatar": "Iluvatar BI-V100"}


def a_share(mib: int = 4000, cores: int = 0) -> dict[str, str]:
    """What a container of HAMi's asks for: a part of one card."""
    asked = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(mib)}
    return {**asked, "nvidia.com/gpucores": str(cores)} if cores else asked


def some_cards(node: str, count: int, vendor: str = "nvidia", mib: int = 24576) -> Sequence[Card]:
    """Equal cards, called as their vendor's library calls them where a dialect looks at that."""
    model = MODELS.get(vendor, "")
    return [a_card(f"GPU-{node}-{i}", i, vendor=vendor, mib=mib, model=model) for i in range(count)]


def a_card_node(
    name: str, cards: int, *, vendor: str = "nvidia", mib: int = 24576
) -> tuple[Sequence[Card], Json]:
    """A node that kwok keeps alive, and the cards that it shows."""
    shown = some_cards(name, cards, vendor, mib)
    notes = {
        f"cards.tessera.dev/{vendor}": encode_node_cards(NodeCardsAnnotation(cards=tuple(shown)))
    }
    return shown, a_node(name, annotations=notes)


def a_node(
    name: str,
    *,
    annotations: Mapping[str, str] | None = None,
    capacity: Mapping[str, str] | None = None,
) -> Json:
    """A node that kwok keeps alive."""
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "500", **(capacity or {})}
    labels = {"kubernetes.io/hostname": name, "nvidia-device-enable": "enable", "node-type": "gpu"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {**CLOCKWORK, **(annotations or {})},
        },
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def a_share_pod(name: str, limits: Mapping[str, str], **spec: Any) -> Json:
    """A pod with one container that asks for this."""
    metadata: Json = {"name": name}
    for key in ("labels", "annotations"):
        if key in spec:
            metadata[key] = spec.pop(key)
    container = {"name": "main", "image": "pause", "resources": {"limits": dict(limits)}}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }  # fmt: skip
