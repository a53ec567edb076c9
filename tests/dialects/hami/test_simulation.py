"""A node that does not exist yet, as an autoscaler asks about it."""

from __future__ import annotations

from tessera_testing.builders import a_node, a_pod
from tessera_testing.plan import plan
from tests.dialects.hami.setting import Gpu, a_gpu_node, counted, needs

TEMPLATE = a_gpu_node(Gpu("gpu-0", mib=8192, type="NVIDIA-A100"), name="template-node-a")


def test_a_template_node_that_would_do_is_named() -> None:
    """SIM-01."""
    (outcome,) = plan([a_pod(needs({"gpu": 1, "core": 20, "mem": 1024}))], [TEMPLATE])
    assert (outcome.verdict, outcome.node) == ("placed", "template-node-a")


def test_a_template_node_that_is_too_small_says_so() -> None:
    """SIM-02."""
    (outcome,) = plan([a_pod(needs({"gpu": 1, "core": 20, "mem": 16384}))], [TEMPLATE])
    assert counted(outcome) == {"template-node-a": "1/1 CardInsufficientMemory"}


def test_a_node_that_registered_nothing_says_so() -> None:
    """SIM-03."""
    (outcome,) = plan([a_pod(needs({"gpu": 1}))], [a_node("bare")])
    assert [w.message.partition(":")[0] for w in outcome.reasons] == ["node unregistered"]


def test_cards_by_number_alone_are_requested_in_hamis_way() -> None:
    """`nvidia.com/gpu` belongs to this dialect while no other insists on the pod."""
    (outcome,) = plan([a_pod(needs({"gpu": 1}))], [TEMPLATE])
    assert outcome.dialects == ("hami",)
    assert outcome.containers["c0"].limits == {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "100"}
