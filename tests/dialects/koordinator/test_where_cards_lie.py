"""Scopes, selectors and partitions: what pods and nodes say of where cards lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tessera_core.dialect_kit.contract import Admitted, Rejected
from tessera_schema.kube import Custom
from tessera_schema.requests import Grouping, Scope
from tessera_schema.verdicts import PlanOutcome
from tessera_testing.builders import a_node
from tessera_testing.plan import plan
from tests.dialects.koordinator.spoken import (
    HALF,
    KOORDINATOR,
    a_device,
    a_koord_pod,
    bound,
    devices,
    flat,
    pairs_of_eight,
)

HINT = "scheduling.koordinator.sh/device-allocate-hint"
JOINT = "scheduling.koordinator.sh/device-joint-allocate"
SPEC = "scheduling.koordinator.sh/gpu-partition-spec"
TABLE = "scheduling.koordinator.sh/gpu-partitions"
POLICY = "node.koordinator.sh/gpu-partition-policy"
MODEL = "node.koordinator.sh/gpu-model"
RDMA = "koordinator.sh/rdma=100"


def hint(**gpu: Any) -> dict[str, str]:
    return {HINT: msgspec.json.encode({"gpu": gpu}).decode()}


def scope(name: str) -> dict[str, str]:
    return hint(requiredTopologyScope=name)


def joined(*groups: tuple[int, ...], speed: str = "200Gi", scores: Sequence[int] = ()) -> Custom:
    """Eight cards with a table of partitions; scores in their order, else 1."""
    table: dict[str, list[dict[str, Any]]] = {}
    for n, group in enumerate(groups):
        score = scores[n] if scores else 1
        entry = {"minors": group, "ringBusBandwidth": speed, "allocationScore": score}
        table.setdefault(str(len(group)), []).append(entry)
    device = pairs_of_eight("80Gi")
    notes = {TABLE: msgspec.json.encode(table).decode()}
    return replace(device, metadata=replace(device.metadata, annotations=notes))


def honored(device: Custom) -> Custom:
    return replace(device, metadata=replace(device.metadata, labels={POLICY: "Honor"}))


def planned(
    device: Custom,
    texts: Sequence[str],
    notes: Mapping[str, str] | None = None,
    *,
    used: Sequence[int] = (),
    labels: Mapping[str, str] | None = None,
) -> list[PlanOutcome]:
    pods = [
        a_koord_pod(t, name=f"p{i}", annotations=dict(notes or {})) for i, t in enumerate(texts)
    ]
    old = [bound(used)] if used else []
    return plan(pods, [a_node(labels=dict(labels or {}))], customs=[device], bound=old)


def minors(outcomes: Sequence[PlanOutcome]) -> list[tuple[int, ...]]:
    return [tuple(s.index for s in o.grant.shares) if o.grant else () for o in outcomes]


def said(outcome: PlanOutcome) -> str:
    assert outcome.verdict == "waiting", outcome
    return "; ".join(why.message for why in outcome.reasons)


H100 = {MODEL: "H100", POLICY: "Honor"}
PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7))
CROSSED = ((0, 4), (1, 5), (2, 6), (3, 7))


@pytest.mark.parametrize(
    ("device", "labels", "notes", "text", "says"),
    [
        pytest.param(
            pairs_of_eight("80Gi"), H100, {}, "nv=3", "unsupported number of GPU requests", id="D19"
        ),
        pytest.param(
            pairs_of_eight("80Gi"), {}, {SPEC: "{}"}, "nv=2", "missing GPU partition table",
            id="D22",
        ),
        pytest.param(
            joined(*PAIRS), {}, {SPEC: '{"ringBusBandwidth":"400Gi"}'}, "nv=2",
            "insufficient partitioned GPU devices", id="D26",
        ),
        pytest.param(
            pairs_of_eight("80Gi"), {}, scope("NUMANode"), "nv=5", "no NUMANode has 5",
            id="five-of-four",
        ),
        pytest.param(
            pairs_of_eight("80Gi"), {}, scope("PCIe"), "nv=3", "no PCIe has 3", id="three-of-two"
        ),
        pytest.param(
            pairs_of_eight("80Gi"), {}, scope("Device"), "nv=2", "within one Device",
            id="two-cards-are-no-one",
        ),
        pytest.param(
            pairs_of_eight("80Gi"), {}, scope("PCIe"), "sh=2 core=100 ratio=100",
            "ask whole cards", id="several-shares-have-no-scope",
        ),
        pytest.param(
            flat(4, "80Gi"), {}, scope("PCIe"), "nv=2", "does not tell", id="no-topology"
        ),
        pytest.param(
            pairs_of_eight("80Gi"), {}, hint(selector={"matchLabels": {"a": "b"}}), "nv=1",
            "labels a In (b)", id="no-such-label",
        ),
    ],
)  # fmt: skip
def test_a_pod_waits_and_learns_why(
    device: Custom, labels: Mapping[str, str], notes: Mapping[str, str], text: str, says: str
) -> None:
    (outcome,) = planned(device, [text], notes, labels=labels)
    assert says in said(outcome)


def test_a_used_card_in_each_numa_node_leaves_no_four_in_one() -> None:
    (outcome,) = planned(
        pairs_of_eight("80Gi"), ["nv=4"], scope("NUMANode"), used=[0, 5], labels={}
    )
    assert "no NUMANode has 4" in said(outcome)


@pytest.mark.parametrize(
    ("used", "text", "name", "expected"),
    [
        pytest.param([5], "nv=2", "PCIe", (6, 7), id="E6"),
        pytest.param([5], "nv=4", "NUMANode", (0, 1, 2, 3), id="E7"),
        pytest.param([0, 5], "nv=4", "NUMANode", (), id="E8"),
        pytest.param([5], "nv=4", "Node", (0, 1, 2, 3), id="the-node-is-no-demand"),
        pytest.param([5], "nv=1", "Device", (4,), id="one-card-is-a-device"),
        pytest.param([5], HALF, "PCIe", (4,), id="a-share"),
    ],
)
def test_a_demanded_scope_holds(
    used: list[int], text: str, name: str, expected: tuple[int, ...]
) -> None:
    assert minors(planned(pairs_of_eight("80Gi"), [text], scope(name), used=used)) == [expected]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param({"matchLabels": {"kind": "b"}}, (2,), id="equal"),
        pytest.param({}, (0,), id="all"),
        pytest.param(
            {"matchExpressions": [{"key": "kind", "operator": "NotIn", "values": ["a"]}]}, (2,),
            id="not-in",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "kind", "operator": "DoesNotExist"}]}, (3,), id="without"
        ),
    ],
)  # fmt: skip
def test_a_selector_chooses_among_cards_by_their_labels(
    selector: dict[str, Any], expected: tuple[int, ...]
) -> None:
    kinds = ({"kind": "a"}, {"kind": "a"}, {"kind": "b"}, None)
    device = devices(*(a_device(i, labels=labels) for i, labels in enumerate(kinds)))
    assert minors(planned(device, ["nv=1"], hint(selector=selector))) == [expected]


@pytest.mark.parametrize(
    ("device", "labels", "notes", "texts", "expected"),
    [
        pytest.param(
            pairs_of_eight("80Gi"), H100, {}, [HALF], [(0,)], id="D20-shares-know-no-partition"
        ),
        pytest.param(
            pairs_of_eight("80Gi"), H100, {}, ["nv=1", "nv=4", "nv=2", "nv=1"],
            [(0,), (4, 5, 6, 7), (2, 3), (1,)], id="what-stays-whole-counts",
        ),
        pytest.param(
            joined(*CROSSED), {}, {}, ["nv=2", "nv=3"], [(0, 4), (1, 2, 3)],
            id="a-table-alone-is-preferred-and-binds-nobody",
        ),
        pytest.param(
            honored(joined(*CROSSED)), {}, {}, ["nv=2", "nv=3"], [(0, 4), ()],
            id="the-devices-label-binds",
        ),
        pytest.param(
            joined(*CROSSED), {POLICY: "Honor"}, {}, ["nv=3"], [(0, 1, 2)],
            id="the-nodes-label-is-for-the-built-in-table",
        ),
        pytest.param(
            joined(*PAIRS, scores=[1, 1, 9, 5]), {}, {SPEC: "{}"}, ["nv=2"] * 3,
            [(4, 5), (6, 7), (0, 1)], id="the-best-score-comes-first",
        ),
        pytest.param(
            joined(*PAIRS, scores=[1, 1, 9, 5]), {}, {SPEC: '{"allocatePolicy":"Restricted"}'},
            ["nv=2"] * 2, [(4, 5), ()], id="restricted-takes-the-best-or-none",
        ),
        pytest.param(
            joined(*PAIRS, speed="200Gi"), {}, {SPEC: '{"ringBusBandwidth":"200Gi"}'}, ["nv=2"],
            [(0, 1)], id="fast-enough",
        ),
    ],
)  # fmt: skip
def test_partitions_decide(
    device: Custom,
    labels: Mapping[str, str],
    notes: Mapping[str, str],
    texts: Sequence[str],
    expected: list[tuple[int, ...]],
) -> None:
    assert minors(planned(device, texts, notes, labels=labels)) == expected


def test_a_partition_lies_within_the_scope_that_is_demanded() -> None:
    both = joined(*CROSSED, (2, 3))
    assert minors(planned(both, ["nv=2", "nv=2"], scope("PCIe"))) == [(2, 3), (0, 1)]
    bound = honored(joined(*CROSSED))
    (outcome,) = planned(bound, ["nv=2"], scope("NUMANode"))
    assert "no idle partition of 2" in said(outcome)


def test_a_partition_with_a_card_in_use_or_unhealthy_is_not_taken() -> None:
    cards = [a_device(i, switch=str(i // 2), numa=i // 4, health=i != 2) for i in range(8)]
    device = devices(*cards)
    outcomes = planned(device, ["nv=2", "nv=2", "nv=2"], used=[0], labels=H100)
    assert minors(outcomes) == [(4, 5), (6, 7), ()]


def admitted(text: str, notes: Mapping[str, str]) -> Admitted | Rejected:
    return KOORDINATOR.admit(a_koord_pod(text, annotations=dict(notes)))


@pytest.mark.parametrize("_case", [pytest.param(0, id="I12")])
def test_a_partition_spec_is_read(_case: int) -> None:
    notes = {SPEC: '{"allocatePolicy":"Restricted","ringBusBandwidth":"200Gi"}'}
    answer = admitted("core=200 ratio=200", notes)
    assert isinstance(answer, Admitted)
    (request,) = answer.containers[0].requests
    assert (request.count, request.cores_percent, request.memory_percent) == (2, 100, 100)
    assert request.exclusive
    assert request.policy.grouping == Grouping(best_only=True, bandwidth=200 << 30)
    assert request.policy.scope is Scope.NODE


@pytest.mark.parametrize(
    ("text", "notes", "field"),
    [
        pytest.param("nv=1", {HINT: "{"}, HINT, id="hint-no-json"),
        pytest.param("nv=1", {HINT: '{"gpu":{"selector":"x"}}'}, HINT, id="selector-of-text"),
        pytest.param(
            "nv=1", hint(selector={"matchExpressions": [{"key": "a", "operator": "Near"}]}), HINT,
            id="operator",
        ),
        pytest.param("nv=1", scope("Rack"), HINT, id="scope"),
        pytest.param("nv=1", hint(vfSelector={}), HINT, id="virtual-functions"),
        pytest.param("nv=1", {SPEC: "[]"}, SPEC, id="spec-a-list"),
        pytest.param("nv=1", {SPEC: '{"allocatePolicy":"Best"}'}, SPEC, id="policy"),
        pytest.param("nv=1", {SPEC: '{"ringBusBandwidth":"fast"}'}, SPEC, id="bandwidth"),
        pytest.param("nv=1", {JOINT: "gpu"}, JOINT, id="joint-no-json"),
        pytest.param(
            f"nv=1 {RDMA}", {JOINT: '{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}'},
            JOINT, id="one-switch-with-a-network-card",
        ),
    ],
)  # fmt: skip
def test_what_makes_no_sense_or_cannot_be_promised_is_refused(
    text: str, notes: Mapping[str, str], field: str
) -> None:
    answer = admitted(text, notes)
    assert isinstance(answer, Rejected)
    assert field in answer.field
    assert answer.remedy


@pytest.mark.parametrize(
    ("text", "notes", "reported"),
    [
        pytest.param("nv=1", {JOINT: '{"deviceTypes":["gpu","rdma"]}'}, "", id="no-network-card"),
        pytest.param(
            f"nv=1 {RDMA}", {JOINT: '{"deviceTypes":["gpu","rdma"]}'}, JOINT, id="near-if-possible"
        ),
        pytest.param("nv=1", hint(exclusivePolicy="PCIeLevel"), "exclusivePolicy", id="exclusive"),
        pytest.param("nv=1", hint(allocateStrategy="ApplyForAll"), "allocateStrategy", id="all"),
        pytest.param("nv=1", {HINT: '{"rdma":{"vfSelector":{}}}'}, "", id="of-others"),
    ],
)
def test_what_is_not_honoured_is_reported(
    text: str, notes: Mapping[str, str], reported: str
) -> None:
    answer = admitted(text, notes)
    assert isinstance(answer, Admitted)
    about = [w for w in answer.warnings if "is not placed here" not in w]
    assert [reported in w for w in about] == ([True] if reported else [])
