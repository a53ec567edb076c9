"""Volcano runs pods that are refused here as new ones: where they run, their cards are taken."""

from __future__ import annotations

import pytest

from tessera_schema.cards import MIB
from tessera_schema.kube import Container, Node, Pod
from tessera_schema.requests import Role
from tessera_testing.builders import a_card, a_container, a_pod
from tessera_testing.plan import plan
from tests.dialects.volcano.setting import (
    IDS,
    INDEX,
    MEMORY,
    NUMBER,
    a_bound_pod,
    a_counted_node,
    a_vgpu_node,
    cards_of,
    indices_of,
    made,
    memory,
    number,
    rejected,
    vgpu,
)

CARDS = [a_card(f"GPU-{i}", i, mib=1000, vendor="nvidia") for i in range(4)]


def taken(pod: Pod) -> list[tuple[str, str, int]]:
    """Container, card and MiB of what the pod holds."""
    found = made().recorded(pod, CARDS)
    assert found is not None
    assert found.problem == ""
    return [(s.container, s.card, s.memory_bytes // MIB) for s in found.shares]


@pytest.mark.parametrize(
    "containers",
    [
        pytest.param((vgpu(1, 700), vgpu(None, None, 30)), id="cores-alone-beside-a-card"),
        pytest.param((vgpu(1, percent=150),), id="percentage-beyond-100"),
        pytest.param((vgpu(1, percent=0),), id="percentage-of-0"),
        pytest.param((vgpu(1, 700, 10), vgpu(0, "x")), id="memory-that-is-no-amount"),
    ],
)
def test_the_cards_in_its_device_list_are_taken(containers: tuple[Container, ...]) -> None:
    rejected(a_pod(*containers))
    assert taken(a_bound_pod(*containers, ids="GPU-1,NVIDIA,700,0:")) == [("c0", "GPU-1", 700)]


def test_memory_counts_where_a_running_pod_also_names_whole_cards() -> None:
    both = a_container({MEMORY: 300, NUMBER: 1})
    rejected(a_pod(both))
    assert taken(a_bound_pod(both, index="2")) == [("c0", "GPU-2", 300)]


def test_amounts_of_a_running_pod_are_rounded_up_and_bounded() -> None:
    assert taken(a_bound_pod(memory("1500m"), index="0")) == [("c0", "GPU-0", 2)]
    [(_, _, most)] = taken(a_bound_pod(memory("1Ei"), index="0"))
    assert most == (1 << 31) - 1
    found = made().recorded(a_bound_pod(memory("-5"), index="0"), CARDS)
    assert found is None


def test_init_containers_of_a_running_pod_keep_their_role() -> None:
    pod = a_pod(memory(1), init=(memory(2),), node="n1", annotations={INDEX: "0"})
    found = made().recorded(pod, CARDS)
    assert found is not None
    assert [s.role for s in found.shares] == [Role.INIT, Role.APP]


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param("GPU-3,NVIDIA,700,0:;", id="after"),
        pytest.param(";GPU-3,NVIDIA,700,0:", id="before"),
        pytest.param(";;GPU-3,NVIDIA,700,0:;", id="around"),
    ],
)
def test_empty_lists_belong_to_no_container(ids: str) -> None:
    assert taken(a_bound_pod(vgpu(1, 700), ids=ids)) == [("c0", "GPU-3", 700)]


def test_a_list_for_each_container_is_read_as_well() -> None:
    pod = a_bound_pod(vgpu(1), a_container(), vgpu(1), ids="GPU-3,NVIDIA,7,0:;;GPU-1,NVIDIA,8,0:;")
    assert taken(pod) == [("c0", "GPU-3", 7), ("c2", "GPU-1", 8)]


@pytest.mark.parametrize(
    ("node", "running", "new", "given"),
    [
        pytest.param(
            a_vgpu_node(),
            a_bound_pod(vgpu(1, percent=150), ids="GPU-b,NVIDIA,11178,0:"),
            vgpu(1, 500),
            ["GPU-a"],
            id="vgpu",
        ),
        pytest.param(
            a_counted_node(2000, 2),
            a_bound_pod(a_container({MEMORY: 900, NUMBER: 1}), index="0"),
            number(1),
            ["n1-nvidia-1"],
            id="gpushare",
        ),
    ],
)
def test_a_new_pod_is_not_placed_on_their_cards(
    node: Node, running: Pod, new: Container, given: list[str]
) -> None:
    (outcome,) = plan([a_pod(new)], [node], bound=[running])
    assert cards_of(outcome) == given


def test_a_switched_off_kind_holds_nothing() -> None:
    (outcome,) = plan(
        [a_pod(memory(1000))],
        [a_counted_node(2000, 2)],
        bound=[a_bound_pod(number(1), index="0")],
        config={"volcano": {"gpu_number": False}},
    )
    assert indices_of(outcome) == [0]
    assert made(vgpu=False).recorded(a_bound_pod(vgpu(1), ids="GPU-1,NVIDIA,1,0:"), CARDS) is None
    assert IDS not in outcome.annotations
