"""What may be configured, and what is refused at the start."""

from __future__ import annotations

from typing import Any

import pytest

from tessera_core.registry.registry import BadConfiguration, load
from tessera_testing.builders import a_node
from tessera_testing.plan import NOW_NS, plan
from tests.dialects.koordinator.spoken import ALLOCATED, HALF, a_koord_pod, flat

PREFIX = "scheduling.koordinator.sh"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param({"resource_gpu": ""}, "gpu is empty", id="empty"),
        pytest.param(
            {"resource_gpu": "koordinator.sh/gpu-core"}, "configured twice", id="of-another-kind"
        ),
        pytest.param({"resource_shared": "nvidia.com/gpu"}, "configured twice", id="whole-cards"),
        pytest.param(
            {"resource_gpu": "kubernetes.io/gpu-core"}, "configured twice", id="deprecated-name"
        ),
        pytest.param({"isolation_library": "libvgpu.so"}, "must begin with /", id="relative"),
        pytest.param({"scoring_strategy": "Most"}, "scoring_strategy", id="strategy"),
        pytest.param(
            {"best_effort_priorities": ["koord-medium"]},
            "'koord-medium' - at `$.best_effort_priorities[0]`; "
            "write one of 'koord-batch', 'koord-free', 'koord-mid'",
            id="priority",
        ),
        pytest.param({"allocator": "x"}, "allocator", id="unknown"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadConfiguration, match=r"dialects\.koordinator") as refused:
        load({"koordinator": options})
    assert said in str(refused.value)


def test_a_deprecated_name_may_be_made_the_name() -> None:
    registry = load({"koordinator": {"resource_core": "kubernetes.io/gpu-core"}})
    assert registry.owners["kubernetes.io/gpu-core"] == "koordinator"


@pytest.mark.parametrize(
    ("asked", "minors"),
    [
        pytest.param("gpu=200", "0,1", id="I2"),
        pytest.param(HALF, "0", id="one-card"),
    ],
)
def test_patched_device_plugins_are_given_minors_and_time(asked: str, minors: str) -> None:
    (outcome,) = plan(
        [a_koord_pod(asked)], [a_node()], customs=[flat(2, "16Gi")],
        config={"koordinator": {"device_plugin_adaption": True}},
    )  # fmt: skip
    written = {k: v for k, v in outcome.annotations.items() if k.startswith(PREFIX)}
    assert written.pop(ALLOCATED)
    assert written == {f"{PREFIX}/bind-timestamp": str(NOW_NS), f"{PREFIX}/gpu-minors": minors}


def test_by_default_the_allocation_alone_is_written() -> None:
    (outcome,) = plan([a_koord_pod(HALF)], [a_node()], customs=[flat(2, "16Gi")])
    assert [k for k in outcome.annotations if k.startswith(PREFIX)] == [ALLOCATED]


def test_a_part_beyond_one_card_is_given_a_remedy_that_is_accepted() -> None:
    (outcome,) = plan([a_koord_pod("gpu=150")], [a_node()], customs=[flat(2, "16Gi")])
    assert "Write 200, or write gpu-core and gpu-memory-ratio instead" in outcome.message
    remedied = ("gpu=200", "sh=2 core=150 ratio=150")
    outcomes = (
        plan([a_koord_pod(text)], [a_node()], customs=[flat(2, "16Gi")])[0] for text in remedied
    )
    assert [len(o.grant.shares) for o in outcomes if o.grant] == [2, 2]
