"""Nodes and pods of NVIDIA's device plugin in short spellings."""

from __future__ import annotations

from tessera_core.dialects import replicas
from tessera_schema.kube import Container, Node, Quantity
from tessera_testing.builders import a_container, a_node
from tessera_testing.dialects import DialectUnderTest

SHARED, WHOLE = "nvidia.com/gpu.shared", "nvidia.com/gpu"
PRODUCT, STRATEGY = "nvidia.com/gpu.product", "nvidia.com/gpu.sharing-strategy"

UNDER_TEST = DialectUnderTest(replicas)
made, accepted, rejected = UNDER_TEST.made, UNDER_TEST.accepted, UNDER_TEST.rejected


def shared(count: Quantity = 1) -> Container:
    """A container that names replicas."""
    return a_container({SHARED: count})


def whole(count: Quantity = 1) -> Container:
    """A container that names whole cards, or replicas that kept that name."""
    return a_container({WHOLE: count})


def a_gfd_node(
    name: str = "n1",
    *,
    cards: object = 2,
    mib: object = 15360,
    replicas: object = 4,
    strategy: str = "time-slicing",
    product: str = "Tesla-T4",
    renamed: bool = True,
) -> Node:
    """A node as GPU Feature Discovery labels it."""
    number = cards * replicas if isinstance(cards, int) and isinstance(replicas, int) else 8
    labels = {
        "nvidia.com/gpu.count": str(cards), "nvidia.com/gpu.memory": str(mib), PRODUCT: product,
        "nvidia.com/gpu.replicas": str(replicas), STRATEGY: strategy,
    }  # fmt: skip
    return a_node(name, labels=labels, capacity={SHARED if renamed else WHOLE: number})
