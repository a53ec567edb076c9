"""Mthreads' pods and nodes in short spellings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tessera_core.dialects import mthreads
from tessera_schema.kube import Container, Node, Pod, Quantity
from tessera_schema.verdicts import PlanOutcome
from tessera_testing.builders import a_container, a_node, a_pod
from tessera_testing.dialects import DialectUnderTest
from tessera_testing.plan import plan

GPU = "mthreads.com/vgpu"
MEM = "mthreads.com/sgpu-memory"
CORE = "mthreads.com/sgpu-core"
SEVERAL = "mthreads.com/request-gpu-num"
ALLOCATED = "hami.io/mthreads-vgpu-devices-allocated"
_NAMES = {"gpu": GPU, "mem": MEM, "core": CORE}

_SPEAKER = DialectUnderTest(mthreads)
made, admitted = _SPEAKER.made, _SPEAKER.admitted
accepted, rejected = _SPEAKER.accepted, _SPEAKER.rejected
the_request, changed = _SPEAKER.the_request, _SPEAKER.changed


def named(**amounts: Quantity) -> dict[str, Quantity]:
    """gpu, mem and core under their resource names."""
    return {_NAMES[short]: amount for short, amount in amounts.items()}


def needs(**limits: Quantity) -> Container:
    return a_container(named(**limits))


def a_slice(mem: Quantity = 2, core: Quantity = 1) -> Container:
    return needs(gpu=1, mem=mem, core=core)


def cards(number: int = 1, *, name: str = "n", units: int = 96, **facts: Any) -> Node:
    """A node with so many cards of so many memory units."""
    total: Mapping[str, Quantity] = named(gpu=number, core=16 * number, mem=units * number)
    return a_node(name, capacity=total, **facts)


def bound(name: str, text: str, *containers: Container, node: str = "n") -> Pod:
    """A running pod on which HAMi wrote this device list."""
    return a_pod(*containers, name=name, node=node, annotations={ALLOCATED: text})


def outcome(pod: Pod, *nodes: Node, bound: Sequence[Pod] = (), **config: Any) -> PlanOutcome:
    options = {"mthreads": config} if config else None
    (answer,) = plan([pod], nodes, bound=bound, config=options)
    return answer


def given(answer: PlanOutcome) -> list[tuple[str, int, int, float]]:
    """Container, card index, MiB, percent of cores."""
    assert answer.grant is not None, answer.message
    return [(s.container, s.index, s.memory_mib, s.cores_percent) for s in answer.grant.shares]


def why(answer: PlanOutcome) -> list[str]:
    return [w.reason.wire for w in answer.reasons]
