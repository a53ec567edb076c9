"""Nothing that a user, a node or another system writes makes the dialect raise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.dialect_kit.contract import Admitted, Rejected
from tessera_schema.kube import Custom, ObjectMeta
from tessera_testing.builders import a_card, a_container, a_node, a_pod
from tests.dialects.koordinator.spoken import ALLOCATED, KOORDINATOR, NAMES, a_device, a_koord_pod

CARD = a_card("GPU-a", 0, vendor="nvidia")
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
KEYS = st.sampled_from(
    ["type", "gpu", "minor", "id", "health", "resources", "topology", "nodeID", *NAMES.values()]
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=12
)
QUANTITIES = (
    st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.from_regex(r"-?[0-9]{1,20}(\.[0-9])?(m|k|Ki|Gi|Ei|e3)?", fullmatch=True)
)


@given(JSON)
def test_any_annotation_is_shares_or_a_problem(value: Any) -> None:
    pod = a_koord_pod("gpu=50", annotations={ALLOCATED: json.dumps({"gpu": value})}, node="n1")
    held = KOORDINATOR.recorded(pod, (CARD,))
    assert held is None or bool(held.shares) != bool(held.problem)


@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_a_deeply_nested_annotation_is_a_problem(depth: int) -> None:
    for text in ("[" * depth, '{"gpu":' * depth, '{"rdma":' + "[" * depth):
        pod = a_koord_pod("gpu=50", annotations={ALLOCATED: text}, node="n1")
        held = KOORDINATOR.recorded(pod, (CARD,))
        assert held is not None
        assert held.problem


@given(JSON)
def test_any_device_object_is_read_as_far_as_it_goes(value: Any) -> None:
    for entry in (value, a_device(1) | {"resources": value}, a_device(1) | {"topology": value}):
        spec = {"devices": [entry, a_device(0)]}
        custom = Custom(kind="Device", metadata=ObjectMeta(name="n1"), spec=spec)
        (inventory,) = KOORDINATOR.inventory(a_node(), [custom])
        assert any(c.index == 0 for c in inventory.cards)


@given(st.dictionaries(st.sampled_from([*NAMES.values(), "kubernetes.io/gpu"]), QUANTITIES))
def test_any_amounts_are_admitted_or_rejected(amounts: dict[str, Any]) -> None:
    answer = KOORDINATOR.admit(a_pod(a_container(amounts, amounts)))
    if isinstance(answer, Rejected):
        assert answer.field
        assert answer.remedy
        return
    assert isinstance(answer, Admitted)
    for request in (r for c in answer.containers for r in c.requests):
        assert request.count > 0
        assert 0 <= request.cores_percent <= 100
        assert bool(request.memory_bytes) != bool(request.memory_percent)
