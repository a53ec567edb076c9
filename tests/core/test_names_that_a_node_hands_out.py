"""A plan on another system's cluster says which pods get their cards from our agent alone."""

from __future__ import annotations

import pytest

from tessera_schema.kube import Quantity
from tessera_testing.builders import a_container, a_node, a_pod
from tessera_testing.plan import plan

INSPUR: dict[str, Quantity] = {"inspur.com/vcuda-core": 200, "inspur.com/vcuda-memory": 128}
TENCENT: dict[str, Quantity] = {"tencent.com/vcuda-core": 50, "tencent.com/vcuda-memory": 4}
HAMI: dict[str, Quantity] = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000}
REGISTER = "GPU-aa,10,16384,100,NVIDIA-Tesla T4,0,true:"
AGENT = (
    '{"version":1,"cards":[{"id":"GPU-0","index":0,"vendor":"nvidia","memory_bytes":17179869184}]}'
)


def reported(
    limits: dict[str, Quantity], capacity: dict[str, Quantity], **annotations: str
) -> list[str]:
    """What is said of a placed pod about agents."""
    node = a_node("gpu-1", capacity=capacity, annotations=annotations)
    (outcome,) = plan([a_pod(a_container(limits))], [node])
    assert outcome.verdict == "placed", outcome.message
    return [w for w in outcome.warnings if "agent" in w]


@pytest.mark.parametrize(("limits", "name"), [(TENCENT, "tencent.com/vcuda-core"),
                                              (HAMI, "nvidia.com/gpu")])  # fmt: skip
def test_names_that_the_nodes_plugin_lacks_need_an_agent(
    limits: dict[str, Quantity], name: str
) -> None:
    assert reported(limits, INSPUR) == [
        f"container c0 needs Tessera's agent on node gpu-1: no device plugin there hands out {name}"
    ]


def test_names_that_the_nodes_plugin_has_need_none() -> None:
    asked: dict[str, Quantity] = {"inspur.com/vcuda-core": 50, "inspur.com/vcuda-memory": 4}
    assert reported(asked, INSPUR) == []
    register = {"hami.io/node-nvidia-register": REGISTER}
    assert reported(HAMI, {"nvidia.com/gpu": 10}, **register) == []
    assert reported(HAMI, {}, **register) == []


def test_an_agent_that_is_there_is_not_required() -> None:
    assert reported(TENCENT, INSPUR, **{"cards.tessera.dev/nvidia": AGENT}) == []
