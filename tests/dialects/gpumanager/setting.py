"""GPU Manager's pods, nodes and card tables in short spellings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tessera_core.dialects import gpumanager
from tessera_core.topology.link_matrix import parse
from tessera_core.topology.tree import CardGroup, FreeCards, Leaf, all_free, grow
from tessera_schema.kube import Container, Node, Pod, Quantity
from tessera_schema.verdicts import PlanOutcome
from tessera_testing.builders import a_container, a_node, a_pod
from tessera_testing.dialects import DialectUnderTest

BLOCK = 256 << 20
P = "tencent.com"
CORE, MEMORY = f"{P}/vcuda-core", f"{P}/vcuda-memory"
LIMIT = f"{P}/vcuda-core-limit"
TIME, NODE, INDEX = f"{P}/predicate-time", f"{P}/predicate-node", f"{P}/predicate-gpu-idx-"
ASSIGNED = f"{P}/gpu-assigned"

TABLES: Mapping[str, Sequence[str]] = {
    "T6": (
        "X PIX PHB PHB SOC SOC", "PIX X PHB PHB SOC SOC", "PHB PHB X PIX SOC SOC",
        "PHB PHB PIX X SOC SOC", "SOC SOC SOC SOC X PIX", "SOC SOC SOC SOC PIX X",
    ),
    "T8": (
        "X PIX PHB PHB SOC SOC SOC SOC", "PIX X PHB PHB SOC SOC SOC SOC",
        "PHB PHB X PIX SOC SOC SOC SOC", "PHB PHB PIX X SOC SOC SOC SOC",
        "SOC SOC SOC SOC X PIX PHB PHB", "SOC SOC SOC SOC PIX X PHB PHB",
        "SOC SOC SOC SOC PHB PHB X PIX", "SOC SOC SOC SOC PHB PHB PIX X",
    ),
    "T3": ("X PIX SOC", "PIX X SOC", "SOC SOC X"),
    "T4PXB": ("X PIX PXB PXB", "PIX X PXB PXB", "PXB PXB X PIX", "PXB PXB PIX X"),
    "T4FLAT": ("X PHB PHB PHB", "PHB X PHB PHB", "PHB PHB X PHB", "PHB PHB PHB X"),
    "T4SYS": ("X SYS SYS SYS", "SYS X SYS SYS", "SYS SYS X SYS", "SYS SYS SYS X"),
    "T8NV": tuple(" ".join("X" if a == b else "NV1" for b in range(8)) for a in range(8)),
    "T1": ("X",),
}  # fmt: skip


_SPEAKER = DialectUnderTest(gpumanager)
made, admitted = _SPEAKER.made, _SPEAKER.admitted
accepted, rejected = _SPEAKER.accepted, _SPEAKER.rejected


def table(name: str) -> str:
    """A table as the driver's tool prints it; `...SYS` is a table with SYS for SOC."""
    rows = TABLES.get(name) or [r.replace("SOC", "SYS") for r in TABLES[name.removesuffix("SYS")]]
    header = " ".join(f"GPU{i}" for i in range(len(rows)))
    return "\n".join([f"     {header}", *(f"GPU{i} {row}" for i, row in enumerate(rows))])


def a_tree(name: str, blocks: int = 4) -> tuple[CardGroup, FreeCards]:
    """The tree of a table, with idle cards of so many blocks."""
    read = parse(table(name))
    leaf = Leaf(memory_free=blocks * BLOCK, memory_total=blocks * BLOCK)
    return grow(read.count, read.levels), all_free([leaf] * read.count)


def asking(
    core: Quantity | None = None,
    memory: Quantity | None = None,
    prefix: str = P,
    *,
    env: Mapping[str, str] | None = None,
) -> Container:
    """A container with these limits and equal requests."""
    named = {f"{prefix}/vcuda-core": core, f"{prefix}/vcuda-memory": memory}
    amounts = {k: v for k, v in named.items() if v is not None}
    return a_container(amounts, amounts, env=env)


def a_gpu_node(
    name: str, cards: int, blocks: int, prefix: str = P, labels: Mapping[str, str] | None = None
) -> Node:
    """A node of gpu-manager's: so many cards with so much memory together."""
    capacity = {f"{prefix}/vcuda-core": str(100 * cards), f"{prefix}/vcuda-memory": str(blocks)}
    return a_node(name, capacity=capacity, labels=labels)


def bound(outcome: PlanOutcome, *, without: Sequence[str] = (), phase: str = "Running") -> Pod:
    """A placed pod as the API server shows it after its Binding."""
    notes = {k: v for k, v in outcome.annotations.items() if k not in without}
    pod = outcome.pod
    meta = msgspec.structs.replace(pod.metadata, annotations={**pod.metadata.annotations, **notes})
    return msgspec.structs.replace(
        pod,
        metadata=meta,
        spec=msgspec.structs.replace(pod.spec, node_name=outcome.node),
        status=msgspec.structs.replace(pod.status, phase=phase),
    )


def cards_of(outcome: PlanOutcome) -> dict[int, list[int]]:
    """Container's position -> indices of its cards."""
    found: dict[int, list[int]] = {}
    for share in outcome.grant.shares if outcome.grant else ():
        found.setdefault(share.position, []).append(share.index)
    return found


def a_bound_pod(
    *containers: Container,
    idx: Mapping[int, str] | None = None,
    assigned: str = "true",
    name: str = "bound",
    node: str = "n1",
    phase: str = "Running",
    **more: Any,
) -> Pod:
    """A pod with what gpu-admission wrote on it."""
    notes = {TIME: "1", NODE: node, ASSIGNED: assigned}
    notes |= {f"{INDEX}{i}": text for i, text in (idx or {}).items()}
    return a_pod(*containers, name=name, node=node, phase=phase, annotations=notes, **more)
