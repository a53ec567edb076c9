"""Quotas in cards of a model, as gpu-admission had them."""

from __future__ import annotations

import pytest

from tessera_schema.kube import Pod
from tessera_schema.quotas import Limit
from tessera_schema.reasons import Reason
from tessera_testing.builders import a_pod
from tessera_testing.plan import plan
from tests.dialects.gpumanager.setting import a_bound_pod, a_gpu_node, asking

NODES = [
    a_gpu_node("m1", 8, 8 * 64, labels={"gaia.tencent.com/gpu-model": "M40"}),
    a_gpu_node("p1", 8, 8 * 64, labels={"gaia.tencent.com/gpu-model": "P100"}),
]


def in_use(namespace: str, node: str, core: int) -> list[Pod]:
    """Bound pods that use so many core units of a node."""
    parts = [100] * (core // 100) + [core % 100] * bool(core % 100)
    return [
        a_bound_pod(
            asking(part, 1), idx={0: str(i)}, name=f"used-{i}", node=node, assigned="false",
            namespace=namespace,
        )
        for i, part in enumerate(parts)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("namespace", "models", "used", "core", "node"),
    [
        pytest.param("foo", {"M40": 2.0}, ("m1", 150), 50, "m1", id="G02"),
        pytest.param("foo", {"M40": 2.0}, ("m1", 150), 51, "", id="G03"),
        pytest.param("bar", {"M40": 1.0, "P100": 1.0}, ("m1", 100), 10, "p1", id="G04"),
        pytest.param("other", None, ("m1", 700), 800, "p1", id="G06"),
        pytest.param("default", {"M40": 4.0, "P100": 4.0}, ("p1", 400), 10, "m1", id="G07"),
    ],
)
def test_cards_of_a_model_are_limited_by_namespace(
    namespace: str, models: dict[str, float] | None, used: tuple[str, int], core: int, node: str
) -> None:
    limits = [] if models is None else [Limit(namespace=namespace, source="quota", models=models)]
    pod = a_pod(asking(core, 1), namespace=namespace)
    (outcome,) = plan([pod], NODES, bound=in_use(namespace, *used), limits=limits)
    assert outcome.node == node


def test_an_exhausted_quota_is_the_reason() -> None:
    limits = [Limit(namespace="foo", source="quota", models={"M40": 2.0})]
    pod = a_pod(asking(51, 1), namespace="foo")
    (outcome,) = plan([pod], NODES, bound=in_use("foo", "m1", 150), limits=limits)
    assert {why.reason for why in outcome.reasons} == {Reason.RESOURCE_QUOTA_NOT_FIT}
