"""Labels of nodes, which count in plans alone, and pods that run on such nodes."""

from __future__ import annotations

import pytest

from tessera_core.inventory.merge import node_cards_with_allocations
from tessera_core.registry.registry import load
from tessera_schema.cards import MIB, Inventory, Precision
from tessera_schema.kube import Node
from tessera_testing.builders import a_container, a_node, a_pod
from tessera_testing.plan import plan
from tests.dialects.replicas.setting import SHARED, WHOLE, a_gfd_node, made, shared, whole

REGISTRY = load()
REGISTER = "GPU-0,10,16384,100,NVIDIA-T4,0,true,0,hami-core:"


def inventory(node: Node) -> Inventory | None:
    found = made().inventory(node, ())
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.parametrize(
    ("node", "cards"),
    [
        (a_gfd_node(cards=2), [("Tesla-T4", 15360, 4, "")] * 2),
        (a_gfd_node(product="Tesla-T4-SHARED", renamed=False), [("Tesla-T4", 15360, 4, "")] * 2),
        (a_gfd_node(cards=1, strategy="mps"), [("Tesla-T4", 15360, 4, "mps")]),
        (a_gfd_node(replicas=1, strategy="none"), [("Tesla-T4", 15360, 100, "")] * 2),
        (a_gfd_node(replicas=0, strategy="none"), [("Tesla-T4", 15360, 100, "")] * 2),
        (a_gfd_node(replicas="many"), [("Tesla-T4", 15360, 100, "")] * 2),
        (a_gfd_node(cards=0), None),
        (a_node("n1", labels={"nvidia.com/gpu.count": "8"}), None),
        (a_node("n1", labels={"nvidia.com/gpu.memory": "15360"}), None),
        (a_node("n1", capacity={WHOLE: 8}), None),
    ],
)
def test_labels_say_what_cards_a_node_has(
    node: Node, cards: list[tuple[str, int, int, str]] | None
) -> None:
    found = inventory(node)
    if cards is None:
        assert found is None
        return
    assert found is not None
    assert (found.precision, found.warnings) == (Precision.LABELLED, ())
    assert [(c.model, c.memory_bytes // MIB, c.slots, c.mode) for c in found.cards] == cards


@pytest.mark.parametrize(
    ("node", "warning"),
    [
        (a_gfd_node(cards="two"), "label nvidia.com/gpu.count: 'two' is no number from 0 to 64"),
        (a_gfd_node(cards=65), "label nvidia.com/gpu.count: '65' is no number from 0 to 64"),
        (a_gfd_node(mib="15Gi"), "label nvidia.com/gpu.memory: '15Gi' is no number from 0 to"),
        (
            a_gfd_node(product="A100-SXM4-40GB-MIG-1g.5gb-SHARED"),
            "label nvidia.com/gpu.product: A100-SXM4-40GB-MIG-1g.5gb-SHARED: cards in MIG mode are "
            "left alone",
        ),
    ],
)
def test_what_cannot_be_read_is_a_warning(node: Node, warning: str) -> None:
    found = inventory(node)
    assert found is not None
    assert found.cards == ()
    assert found.warnings[0].startswith(f"node n1: {warning}")


def test_labels_count_in_plans_where_nothing_better_is_known() -> None:
    node = a_gfd_node()
    planned = node_cards_with_allocations(REGISTRY, node, {}, labelled=True)
    assert (len(planned.cards), planned.labelled) == (2, frozenset({"nvidia"}))
    real = node_cards_with_allocations(REGISTRY, node, {})
    assert (real.cards, real.warnings, real.labelled) == ((), (), frozenset())
    assert real.missing == {"nvidia"}, "no pod is bound where another plugin chooses cards"


def test_a_register_is_better_than_labels() -> None:
    labels = a_gfd_node().metadata.labels
    node = a_node("n1", labels=labels, annotations={"hami.io/node-nvidia-register": REGISTER})
    found = node_cards_with_allocations(REGISTRY, node, {}, labelled=True)
    assert [c.id for c in found.cards] == ["GPU-0"]
    assert (found.warnings, found.labelled) == ((), frozenset())


def test_running_replicas_are_counted_by_what_they_request() -> None:
    node = a_gfd_node(cards=1)
    running = [a_pod(shared(), name=f"r{i}", uid=f"r{i}", node="n1") for i in range(3)]
    pods = [a_pod(shared(), name=f"p{i}", uid=f"p{i}") for i in range(2)]
    assert [o.verdict for o in plan(pods, [node], bound=running)] == ["placed", "waiting"]


@pytest.mark.parametrize(
    ("node", "verdicts"),
    [
        pytest.param(a_gfd_node(cards=1, renamed=False), ["placed"], id="replicas keep the name"),
        pytest.param(a_gfd_node(cards=1, replicas=1, strategy="none", renamed=False), ["waiting"],
                     id="whole cards"),
    ],
)  # fmt: skip
def test_what_runs_by_the_name_of_whole_cards_is_read_next_to_its_node(
    node: Node, verdicts: list[str]
) -> None:
    running = a_pod(whole(), name="r", uid="r", node="n1")
    part = a_container({WHOLE: 1, "nvidia.com/gpumem": 4000})
    assert [o.verdict for o in plan([a_pod(part, uid="u")], [node], bound=[running])] == verdicts


def test_only_plain_pods_are_read_as_replicas() -> None:
    node = a_gfd_node(renamed=False)
    pods = [
        a_pod(whole(), init=(whole(),), name="plain", node="n1"),
        a_pod(a_container({WHOLE: 1, "nvidia.com/gpumem": 4000}), name="amounts", node="n1"),
        a_pod(whole(), name="granted", node="n1", annotations={"tessera.dev/grant": "{}"}),
        a_pod(a_container({"cpu": 1}), name="none", node="n1"),
    ]
    read = made().on_node(node, pods)
    assert [pod.metadata.name for pod in read] == ["plain", "amounts", "granted", "none"]
    assert [c.resources.limits for c in read[0].all_containers] == [{SHARED: 1}] * 2
    assert list(read[1:]) == pods[1:]
    assert made().on_node(a_gfd_node(), pods) == pods
