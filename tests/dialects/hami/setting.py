"""HAMi's pods and nodes in short spellings. Nodes are built as HAMi's plugin publishes them, used
cards as HAMi writes them on bound pods, so that everything runs end to end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tessera_core.dialect_kit.hami_format import DeviceListEntry, RegisteredCard, encode_lists
from tessera_core.dialects import hami
from tessera_schema.kube import Container, Node, Pod, Quantity
from tessera_schema.requests import Request
from tessera_schema.verdicts import PlanOutcome
from tessera_testing.builders import a_container, a_node, a_pod
from tessera_testing.dialects import DialectUnderTest
from tessera_testing.plan import plan
from tests.dialects.hami.register import encode_register

GPU = "nvidia.com/gpu"
MEM = "nvidia.com/gpumem"
PCT = "nvidia.com/gpumem-percentage"
CORE = "nvidia.com/gpucores"
PRIORITY = "nvidia.com/priority"
SHORT = {"gpu": GPU, "mem": MEM, "pct": PCT, "core": CORE, "priority": PRIORITY}

REGISTER = "hami.io/node-nvidia-register"
SCORE = "hami.io/node-nvidia-score"
CORDON = "hami.io/device-cordon"
ALLOCATED = "hami.io/vgpu-devices-allocated"
NODE_POLICY = "hami.io/node-scheduler-policy"
CARD_POLICY = "hami.io/gpu-scheduler-policy"
WEIGHTS = "hami.io/device-scoring-weights"
NUMA_BIND = "nvidia.com/numa-bind"


_SPEAKER = DialectUnderTest(hami)
made, admitted = _SPEAKER.made, _SPEAKER.admitted
accepted, rejected = _SPEAKER.accepted, _SPEAKER.rejected


def long(amounts: Mapping[str, Quantity] | None) -> dict[str, Quantity]:
    """`gpu`, `mem`, ... as resource names."""
    return {SHORT.get(name, name): amount for name, amount in (amounts or {}).items()}


def needs(
    limits: Mapping[str, Quantity] | None = None,
    requests: Mapping[str, Quantity] | None = None,
    **more: Any,
) -> Container:
    """A container that asks in short names."""
    return a_container(long(limits), long(requests), **more)


def request_of(pod: Pod, **options: Any) -> Request:
    """The one request of a pod's one container."""
    (container,) = accepted(pod, **options).containers
    (request,) = container.requests
    return request


class Gpu(msgspec.Struct, frozen=True):
    """A card of a node and what is used of it: slots, MiB, percent."""

    id: str
    mib: int = 8192
    slots: int = 10
    cores: int = 100
    numa: int = 0
    type: str = "NVIDIA-Tesla P4"
    mode: str = "hami-core"
    health: bool = True
    used: int = 0
    used_mib: int = 0
    used_cores: int = 0


def a_gpu_node(
    *gpus: Gpu | str, name: str = "n1", annotations: Mapping[str, str] | None = None
) -> Node:
    """A node whose plugin registered these cards, with indexes as they stand."""
    cards = [Gpu(g) if isinstance(g, str) else g for g in gpus]
    register = encode_register(
        [
            RegisteredCard(
                id=g.id, index=i, count=g.slots, devmem=g.mib, devcore=g.cores, type=g.type,
                numa=g.numa, mode=g.mode, health=g.health,
            )
            for i, g in enumerate(cards)
        ]
    )  # fmt: skip
    return a_node(name, annotations={REGISTER: register, **(annotations or {})})


def holders(gpus: Iterable[Gpu | str], node: str = "n1") -> list[Pod]:
    """Bound pods that use the cards as given: one pod a card, a container for each slot, of which
    the first has all the memory and cores."""
    return [
        bound(
            [[DeviceListEntry(g.id, "NVIDIA", g.used_mib, g.used_cores)]]
            + [[DeviceListEntry(g.id, "NVIDIA", 0, 0)]] * (g.used - 1),
            name=f"holds-{g.id}",
            node=node,
        )
        for g in gpus
        if isinstance(g, Gpu) and g.used
    ]


def bound(
    lists: Sequence[Sequence[DeviceListEntry]],
    *,
    name: str = "held",
    node: str = "n1",
    inits: int = 0,
    **more: Any,
) -> Pod:
    """A pod that HAMi bound, with its device lists."""
    containers = [needs({"gpu": max(len(devices), 1)}) for devices in lists]
    return a_pod(
        *containers[inits:], init=tuple(containers[:inits]), name=name, node=node,
        annotations={ALLOCATED: encode_lists(lists)}, **more,
    )  # fmt: skip


def planned(
    pod: Pod, *gpus: Gpu | str, notes: Mapping[str, str] | None = None, **more: Any
) -> PlanOutcome:
    """The pod's outcome on one node with these cards, used as given."""
    (outcome,) = plan([pod], [a_gpu_node(*gpus, annotations=notes)], bound=holders(gpus), **more)
    return outcome


def picks(outcome: PlanOutcome) -> list[str]:
    """Cards in selection order."""
    assert outcome.grant is not None, outcome.message
    return [s.card for s in outcome.grant.shares]


def lists_of(outcome: PlanOutcome) -> list[list[str]]:
    """Cards by container, as the device list says."""
    text = outcome.annotations[ALLOCATED]
    return [
        [device.partition(",")[0] for device in container.split(":") if device]
        for container in text.removesuffix(";").split(";")
    ]


def counted(outcome: PlanOutcome) -> dict[str, str]:
    """Node -> its reasons as HAMi counts them: `1/1 CardInsufficientMemory`."""
    assert outcome.verdict == "waiting", outcome
    reasons: dict[str, list[str]] = {}
    for why in outcome.reasons:
        reasons.setdefault(why.node, []).append(why.message.partition(":")[0])
    return {node: ", ".join(sorted(each)) for node, each in reasons.items()}
