"""Iluvatar's pods and nodes in short spellings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tessera_core.dialects import iluvatar
from tessera_schema.kube import Node, Pod, Quantity
from tessera_schema.verdicts import PlanOutcome
from tessera_testing.builders import a_node
from tessera_testing.dialects import DialectUnderTest
from tessera_testing.plan import plan

GPU = "iluvatar.ai/vgpu"
MEM = "iluvatar.ai/vcuda-memory"
CORE = "iluvatar.ai/vcuda-core"
LEGACY_LIST = "hami.io/iluvatar-vgpu-devices-allocated"
_LEGACY = {"gpu": GPU, "mem": MEM, "core": CORE}

_SPEAKER = DialectUnderTest(iluvatar)
made, admitted = _SPEAKER.made, _SPEAKER.admitted
accepted, rejected = _SPEAKER.accepted, _SPEAKER.rejected
the_request, changed = _SPEAKER.the_request, _SPEAKER.changed


def old(**amounts: Quantity) -> dict[str, Quantity]:
    """gpu, mem and core under the older form's names."""
    return {_LEGACY[short]: amount for short, amount in amounts.items()}


def new(model: str = "MR-V100", /, **amounts: Quantity) -> dict[str, Quantity]:
    """gpu, mem and core under a model's names."""
    names = {
        "gpu": f"iluvatar.ai/{model}-vgpu",
        "mem": f"iluvatar.ai/{model}.vMem",
        "core": f"iluvatar.ai/{model}.vCore",
    }
    return {names[short]: amount for short, amount in amounts.items()}


def counted(number: int = 1, *, name: str = "n", units: int = 128, **facts: Any) -> Node:
    """A node on which gpu-manager counts so many cards of so many memory units."""
    capacity = old(gpu=number, core=100 * number, mem=units * number)
    return a_node(name, capacity=capacity, **facts)


def entry(card: str, index: int = 0, **facts: Any) -> str:
    """A card of a register in nine fields."""
    named = {"slots": 100, "mib": 32768, "cores": 100, "model": "MR-V100", "numa": 0} | facts
    health = named.pop("health", "true")
    middle = ",".join(str(v) for v in named.values())
    return f"{card},{middle},{health},{index},hami-core:"


def registered(*entries: str, model: str = "MR-V100", name: str = "n", **facts: Any) -> Node:
    """A node whose plugin registered these cards."""
    return a_node(name, annotations={f"hami.io/node-{model}-register": "".join(entries)}, **facts)


def outcome(pod: Pod, *nodes: Node, bound: Sequence[Pod] = (), **config: Any) -> PlanOutcome:
    options = {"iluvatar": config} if config else None
    (answer,) = plan([pod], nodes, bound=bound, config=options)
    return answer


def given(answer: PlanOutcome) -> list[tuple[str, str, int, float]]:
    """Container, card, MiB, percent of cores."""
    assert answer.grant is not None, answer.message
    return [(s.container, s.card, s.memory_mib, s.cores_percent) for s in answer.grant.shares]


def why(answer: PlanOutcome) -> list[str]:
    return [w.reason.wire for w in answer.reasons]
