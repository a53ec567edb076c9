"""By which names kubelet asks device plugins for cards, and on which nodes."""

from __future__ import annotations

from typing import Any

import pytest

from tessera_core.admission.admit import AdmittedPod, admit
from tessera_core.inventory.extended_resources import allocated_names
from tessera_core.inventory.merge import node_cards_with_allocations
from tessera_core.registry.plugin_requests import AllocatedResources
from tessera_core.registry.registry import load
from tessera_schema.annotation_keys import CARDS_PREFIX
from tessera_schema.kube import Node, Quantity
from tessera_schema.node_cards import ALLOCATE, NodeCardsAnnotation, encode_node_cards
from tessera_testing.builders import a_card, a_container, a_node, a_pod
from tests.dialects.test_every_dialect import BY_EXAMPLE

REGISTRY = load()
NVIDIA = {
    "nvidia.com/gpu", "volcano.sh/vgpu-number", "volcano.sh/gpu-number", "volcano.sh/gpu-memory",
    "koordinator.sh/gpu.shared", "tencent.com/vcuda-core", "inspur.com/vcuda-core",
    "aliyun.com/gpu-mem", "nvidia.com/gpu.shared", "tessera.dev/gpu-fraction",
}  # fmt: skip
ILUVATAR = {
    "iluvatar.ai/vgpu", "iluvatar.ai/vcuda-core", "iluvatar.ai/MR-V100-vgpu",
    "iluvatar.ai/MR-V50-vgpu", "iluvatar.ai/BI-V150-vgpu", "iluvatar.ai/BI-V100-vgpu",
}  # fmt: skip
MTHREADS = {"mthreads.com/vgpu"}
AGENTS = [sample for sample in BY_EXAMPLE if sample.values[0] != "acme"]


def published(vendor: str, **more: Any) -> Node:
    text = encode_node_cards(NodeCardsAnnotation(cards=(a_card("c0", vendor=vendor),), **more))
    return a_node(annotations={f"{CARDS_PREFIX}{vendor}": text})


def allocated(node: Node) -> AllocatedResources:
    return node_cards_with_allocations(REGISTRY, node, {}).allocated


@pytest.mark.parametrize(
    ("vendor", "names"), [("nvidia", NVIDIA), ("iluvatar", ILUVATAR), ("mthreads", MTHREADS)]
)
def test_each_vendor_has_its_own(vendor: str, names: set[str]) -> None:
    assert allocated_names(REGISTRY, vendor) == names


def test_names_follow_the_configuration_and_count_where_a_dialect_is_off() -> None:
    hami = {"count": "acme.com/gpu", "enabled": False}
    renamed = load({"hami": hami, "iluvatar": {"legacy": False, "models": ["X1"]}})
    names = allocated_names(renamed, "nvidia")
    assert "acme.com/gpu" in names
    assert "nvidia.com/gpu" in names  # Koordinator's whole cards
    assert allocated_names(renamed, "iluvatar") == {"iluvatar.ai/X1-vgpu"}
    fewer = load({"volcano": {"gpu_number": False, "vgpu": False}})
    assert NVIDIA - allocated_names(fewer, "nvidia") == {
        "volcano.sh/gpu-number", "volcano.sh/vgpu-number",
    }  # fmt: skip


@pytest.mark.parametrize(("dialect", "limits"), AGENTS)
def test_every_container_that_requests_cards_has_one(
    dialect: str, limits: dict[str, Quantity]
) -> None:
    admission = admit(REGISTRY, a_pod(a_container(limits, limits)))
    assert isinstance(admission, AdmittedPod), admission
    (after,) = admission.containers.values()
    assert REGISTRY.dialects[dialect].plugin_resources & after.limits.keys()


@pytest.mark.parametrize("dialect", REGISTRY.readers)
def test_they_are_among_the_dialects_own_names(dialect: str) -> None:
    found = REGISTRY.readers[dialect]
    assert found.plugin_resources
    assert found.plugin_resources <= found.resources


@pytest.mark.parametrize("giving", [ALLOCATE, "something newer"])
def test_our_agent_says_that_kubelet_calls_it(giving: str) -> None:
    on = node_cards_with_allocations(REGISTRY, published("nvidia", giving=giving), {})
    assert on.allocated == AllocatedResources(by_agent=frozenset(NVIDIA))
    assert on.given == {"nvidia"}


def test_the_runtime_calls_our_agent_where_it_says_nothing() -> None:
    on = node_cards_with_allocations(REGISTRY, published("nvidia"), {})
    assert not on.allocated
    assert on.given == {"nvidia"}


@pytest.mark.parametrize(("vendor", "names"), [("iluvatar", ILUVATAR), ("mthreads", MTHREADS)])
@pytest.mark.parametrize("more", [{}, {"giving": ALLOCATE}])
def test_a_vendors_plugin_is_called_whatever_our_agent_does(
    vendor: str, names: set[str], more: dict[str, str]
) -> None:
    on = node_cards_with_allocations(REGISTRY, published(vendor, **more), {})
    assert on.allocated == AllocatedResources(by_own_plugin=frozenset(names))
    assert on.given == frozenset()


def test_and_where_no_agent_is() -> None:
    amounts = {"mthreads.com/sgpu-core": 32, "mthreads.com/sgpu-memory": 192}
    assert allocated(a_node(capacity=amounts)) == AllocatedResources(
        by_own_plugin=frozenset(MTHREADS)
    )
    amounts = {"tencent.com/vcuda-core": 200, "tencent.com/vcuda-memory": 128}
    assert allocated(a_node(capacity=amounts)) == AllocatedResources(
        by_own_plugin=frozenset(NVIDIA)
    )


def test_nothing_is_allocated_on_a_node_without_cards() -> None:
    assert not allocated(a_node(capacity={"cpu": 4}))


def test_two_vendors_on_one_node_each_have_their_way() -> None:
    notes = {
        **published("nvidia").metadata.annotations,
        **published("mthreads").metadata.annotations,
    }
    on = node_cards_with_allocations(REGISTRY, a_node(annotations=notes), {})
    assert on.allocated == AllocatedResources(by_own_plugin=frozenset(MTHREADS))
    assert on.given == {"nvidia"}
