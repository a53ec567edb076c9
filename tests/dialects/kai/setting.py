"""KAI's and Run:ai's pods in short spellings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tessera_core.dialects import kai
from tessera_schema.kube import Container, Node, Pod, Quantity
from tessera_testing.builders import a_container, a_node, a_pod
from tessera_testing.dialects import DialectUnderTest

FRACTION, MEMORY = "gpu-fraction", "gpu-memory"
DEVICES, CONTAINER = "gpu-fraction-num-devices", "gpu-fraction-container-name"
SHARES, WHOLE = "tessera.dev/gpu-fraction", "nvidia.com/gpu"
GROUP, RESERVED, RECEIVED = (
    "runai-gpu-group",
    "run.ai/reserve_for_gpu_index",
    "received-resource-type",
)
RESERVATIONS = "kai-resource-reservation"

UNDER_TEST = DialectUnderTest(kai)
made, accepted, rejected = UNDER_TEST.made, UNDER_TEST.accepted, UNDER_TEST.rejected


def a_kai_pod(
    notes: Mapping[str, str], *containers: Container, scheduler: str = "kai-scheduler", **more: Any
) -> Pod:
    """A pod of KAI's scheduler with these annotations, of one container that names nothing."""
    given = containers or (a_container(),)
    return a_pod(*given, annotations=notes, scheduler=scheduler, **more)


def whole(count: Quantity = 1) -> Container:
    """A container that names whole cards."""
    return a_container({WHOLE: count})


def a_reservation(group: str, card: str = "", *, namespace: str = RESERVATIONS) -> Pod:
    """KAI's pod that holds the card of a group."""
    return a_pod(
        whole(), name=f"gpu-reservation-{group}", uid=f"r-{group}", namespace=namespace, node="n1",
        labels={"app": namespace, GROUP: group}, annotations={RESERVED: card} if card else {},
    )  # fmt: skip


def a_gpu_node(cards: int = 2, mib: int = 16384) -> Node:
    """A node as NVIDIA's GPU Feature Discovery labels it, which KAI reads too."""
    labels = {"nvidia.com/gpu.count": str(cards), "nvidia.com/gpu.memory": str(mib)}
    return a_node("n1", labels=labels, capacity={WHOLE: cards})
