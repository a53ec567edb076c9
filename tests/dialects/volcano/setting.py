"""Volcano's pods and nodes in short spellings."""

from __future__ import annotations

from collections.abc import Mapping

from tessera_core.dialects import volcano
from tessera_schema.kube import Container, Node, Pod, Quantity
from tessera_schema.verdicts import PlanOutcome
from tessera_testing.builders import a_container, a_node, a_pod
from tessera_testing.dialects import DialectUnderTest

MEMORY = "volcano.sh/gpu-memory"
NUMBER = "volcano.sh/gpu-number"
VGPU_NUMBER = "volcano.sh/vgpu-number"
VGPU_MEMORY = "volcano.sh/vgpu-memory"
VGPU_CORES = "volcano.sh/vgpu-cores"
VGPU_PERCENT = "volcano.sh/vgpu-memory-percentage"
INDEX = "volcano.sh/gpu-index"
IDS = "volcano.sh/vgpu-ids-new"
REGISTER = "volcano.sh/node-vgpu-register"
UNHEALTHY = "volcano.sh/gpu-unhealthy-ids"

P4 = "NVIDIA-Tesla P4"
TWO_P4 = f"GPU-a,10,11178,{P4},true,hami-core:GPU-b,10,11178,{P4},true,hami-core:"


_SPEAKER = DialectUnderTest(volcano)
made, admitted = _SPEAKER.made, _SPEAKER.admitted
accepted, rejected = _SPEAKER.accepted, _SPEAKER.rejected


def memory(units: Quantity) -> Container:
    return a_container({MEMORY: units})


def number(cards: Quantity) -> Container:
    return a_container({NUMBER: cards})


def vgpu(
    cards: Quantity | None = 1,
    mib: Quantity | None = None,
    cores: Quantity | None = None,
    percent: Quantity | None = None,
) -> Container:
    named = {VGPU_NUMBER: cards, VGPU_MEMORY: mib, VGPU_CORES: cores, VGPU_PERCENT: percent}
    return a_container({k: v for k, v in named.items() if v is not None})


def a_counted_node(
    total: Quantity | None,
    cards: Quantity | None,
    *,
    unhealthy: str | None = None,
    name: str = "n1",
) -> Node:
    """A node of the gpushare plugin."""
    named = {MEMORY: total, NUMBER: cards}
    return a_node(
        name,
        capacity={k: v for k, v in named.items() if v is not None},
        annotations={} if unhealthy is None else {UNHEALTHY: unhealthy},
    )


def a_vgpu_node(register: str = TWO_P4, *, name: str = "n1", without: str = "") -> Node:
    """A node of the vgpu plugin."""
    offered = {VGPU_NUMBER: "20", VGPU_MEMORY: "22356", VGPU_CORES: "200"}
    offered.pop(without, None)
    return a_node(name, capacity=offered, annotations={REGISTER: register})


def a_registered_node(*cards: tuple[str, int], slots: int = 10) -> Node:
    """A vgpu node of cards with these ids and MiB."""
    return a_vgpu_node("".join(f"{id},{slots},{mib},{P4},true,hami-core:" for id, mib in cards))


def a_bound_pod(
    *containers: Container,
    index: str | None = None,
    ids: str | None = None,
    name: str = "bound",
    phase: str = "Running",
) -> Pod:
    """A pod on n1 with what Volcano wrote on it."""
    written: Mapping[str, str | None] = {INDEX: index, IDS: ids}
    return a_pod(
        *containers,
        name=name,
        node="n1",
        phase=phase,
        annotations={k: v for k, v in written.items() if v is not None},
    )


def cards_of(outcome: PlanOutcome) -> list[str]:
    """Ids of the cards given, in the order of the shares."""
    return [] if outcome.grant is None else [s.card for s in outcome.grant.shares]


def indices_of(outcome: PlanOutcome) -> list[int]:
    """Indices of the cards given, each once, ascending."""
    return [] if outcome.grant is None else sorted({s.index for s in outcome.grant.shares})
