"""The grammars of gpu-index and vgpu-ids-new, and what bound pods hold by them (B, K9 to K13)."""

from __future__ import annotations

import pytest

from tessera_core.dialects.volcano import codec
from tessera_schema.cards import MIB
from tessera_schema.grants import Share
from tessera_schema.kube import Container, Pod
from tessera_schema.requests import Role
from tessera_testing.builders import a_card, a_container, a_pod
from tests.dialects.volcano.setting import (
    IDS,
    INDEX,
    a_bound_pod,
    made,
    memory,
    number,
    vgpu,
)

CARDS = [a_card(f"GPU-{i}", i, mib=1000, vendor="nvidia") for i in range(4)]


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        pytest.param("", None, id="B2"),
        pytest.param("0", (0,), id="B3"),
        pytest.param("0,1,3", (0, 1, 3), id="B4"),
        pytest.param("0, 1", None, id="B6"),
        pytest.param("0,a", None, id="B7"),
        pytest.param("-1", (-1,), id="B8"),
        pytest.param("a", None, id="word"),
        pytest.param("0,", None, id="trailing-comma"),
        pytest.param("1,1", (1,), id="twice"),
        pytest.param("٣", None, id="digits-that-only-python-reads"),
        pytest.param("1_0", None, id="underscore"),
        pytest.param("9" * 30, None, id="long"),
    ],
)
def test_card_indices_are_read_all_or_nothing(text: str, indices: tuple[int, ...] | None) -> None:
    assert codec.indices(text) == indices


def holds(pod: Pod) -> list[tuple[int, int, int]]:
    """Container position, card index, MiB."""
    found = made().recorded(pod, CARDS)
    assert found is not None
    assert found.problem == ""
    return [(s.position, s.index, s.memory_mib) for s in found.shares]


def problem(pod: Pod) -> str:
    found = made().recorded(pod, CARDS)
    assert found is not None
    assert found.shares == ()
    return found.problem


def test_without_an_index_nothing_is_known() -> None:
    # B1
    assert made().recorded(a_bound_pod(memory(1)), CARDS) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("", "list of card numbers", id="B2"),
        pytest.param("0, 1", "list of card numbers", id="B6"),
        pytest.param("0,a", "list of card numbers", id="B7"),
        pytest.param("-1", "no card -1", id="B8"),
        pytest.param("0,9", "no card 9", id="unknown-card"),
    ],
)
def test_an_index_that_cannot_be_used_is_a_problem(text: str, said: str) -> None:
    assert INDEX in problem(a_bound_pod(memory(1), index=text))
    assert said in problem(a_bound_pod(memory(1), index=text))


def test_an_index_on_a_pod_that_requests_nothing_says_nothing() -> None:
    assert made().recorded(a_bound_pod(a_container(), index="0"), CARDS) is None
    assert made().recorded(a_bound_pod(memory(0), index="0"), CARDS) is None


def test_each_container_holds_its_memory_on_the_card() -> None:
    assert holds(a_bound_pod(memory(100), a_container(), memory(200), index="1")) == [
        (0, 1, 100),
        (2, 1, 200),
    ]


def test_each_listed_card_is_charged_the_full_amount() -> None:
    assert holds(a_bound_pod(memory(100), index="0,1")) == [(0, 0, 100), (0, 1, 100)]


def test_memory_is_read_in_blocks_of_the_factor() -> None:
    found = made(gpu_memory_factor=10).recorded(a_bound_pod(memory(100), index="0"), CARDS)
    assert found is not None
    assert found.shares[0].memory_bytes == 1000 * MIB


def test_whole_cards_are_dealt_to_the_containers_in_order() -> None:
    pod = a_bound_pod(number(1), number(3), index="0,1,2,3")
    assert holds(pod) == [(0, 0, 1000), (1, 1, 1000), (1, 2, 1000), (1, 3, 1000)]
    found = made().recorded(pod, CARDS)
    assert found is not None
    assert all(s.exclusive and s.cores_percent == 100 for s in found.shares)


def test_init_containers_have_the_cards_before_the_others() -> None:
    pod = a_pod(number(2), init=(number(1), number(3)), node="n1", annotations={INDEX: "0,1,3"})
    assert [(p, i) for p, i, _ in holds(pod)] == [(0, 0), (1, 0), (1, 1), (1, 3), (2, 0), (2, 1)]


def test_every_listed_card_counts_as_taken() -> None:
    assert [i for _, i, _ in holds(a_bound_pod(number(1), index="0,2"))] == [0, 2]


def devices(text: str) -> list[tuple[tuple[str, int, int], ...]]:
    return [
        tuple((d.card, d.memory, d.cores) for d in container)
        for container in codec.devices(text).containers
    ]


@pytest.mark.parametrize(
    ("text", "expected", "malformed"),
    [
        pytest.param(
            "GPU-0,NVIDIA,-5,30:GPU-1,NVIDIA,2048,10:",
            [(("GPU-1", 2048, 10),)],
            ("GPU-0,NVIDIA,-5,30",),
            id="K9",
        ),
        pytest.param("GPU-0,NVIDIA:", [()], ("GPU-0,NVIDIA",), id="K10-few-fields"),
        pytest.param("GPU-0,NVIDIA,abc,30:", [()], ("GPU-0,NVIDIA,abc,30",), id="K10-word"),
        pytest.param(
            "GPU-0,NVIDIA,1,2:GPU-1,NVIDIA,3,4:;GPU-0,NVIDIA,5,6:",
            [(("GPU-0", 1, 2), ("GPU-1", 3, 4)), (("GPU-0", 5, 6),)],
            (),
            id="two-containers",
        ),
        pytest.param("", [], (), id="empty"),
        pytest.param("GPU-0[0-1],NVIDIA,1,0:", [(("GPU-0", 1, 0),)], (), id="MIG-instance"),
        pytest.param(",NVIDIA,1,0:", [()], (",NVIDIA,1,0",), id="no-id"),
        pytest.param(
            "GPU-0,NVIDIA,99999999999,0:", [()], ("GPU-0,NVIDIA,99999999999,0",), id="overflow"
        ),
    ],
)
def test_device_lists_are_read_entry_by_entry(
    text: str, expected: list[tuple[tuple[str, int, int], ...]], malformed: tuple[str, ...]
) -> None:
    assert devices(text) == expected
    assert codec.devices(text).malformed == malformed


def test_device_lists_are_written_as_they_are_read() -> None:
    text = "GPU-1,NVIDIA,100,0:GPU-0,NVIDIA,100,0:;GPU-1,NVIDIA,200,30:"
    found = made().recorded(a_bound_pod(vgpu(2), a_container(), vgpu(1), ids=text), CARDS)
    assert found is not None
    assert codec.devices_text(found.shares, 1) == text


def vgpu_shares(*containers: Container, ids: str, init: tuple[Container, ...] = ()) -> list[Share]:
    pod = a_pod(*containers, init=init, node="n1", annotations={IDS: ids})
    found = made().recorded(pod, CARDS)
    assert found is not None
    assert found.problem == ""
    return list(found.shares)


def test_segments_belong_to_the_containers_that_request() -> None:
    shares = vgpu_shares(
        vgpu(1), a_container(), vgpu(1), ids="GPU-0,NVIDIA,1,0:;GPU-1,NVIDIA,2,100:"
    )
    assert [(s.container, s.card, s.memory_mib, s.exclusive) for s in shares] == [
        ("c0", "GPU-0", 1, False),
        ("c2", "GPU-1", 2, True),
    ]


def test_upstream_writes_no_segment_for_init_containers_and_tessera_does() -> None:
    others = vgpu_shares(vgpu(1), init=(vgpu(1),), ids="GPU-0,NVIDIA,1,0:")
    assert [(s.role, s.card) for s in others] == [(Role.APP, "GPU-0")]
    own = vgpu_shares(vgpu(1), init=(vgpu(1),), ids="GPU-2,NVIDIA,1,0:;GPU-0,NVIDIA,1,0:")
    assert [(s.role, s.card) for s in own] == [(Role.INIT, "GPU-2"), (Role.APP, "GPU-0")]


def test_two_containers_on_one_card_are_both_counted() -> None:
    # K13: upstream's rebuild knows 1000 of the 3000
    shares = vgpu_shares(vgpu(1), vgpu(1), ids="GPU-0,NVIDIA,1000,0:;GPU-0,NVIDIA,2000,0:")
    assert sum(s.memory_mib for s in shares) == 3000
    assert len(shares) == 2


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        pytest.param("", "0 lists for 1", id="empty"),
        pytest.param(":", "lists no card", id="no-entry"),
        pytest.param("GPU-0,NVIDIA:", "'GPU-0,NVIDIA' cannot be read", id="K10-few-fields"),
        pytest.param("GPU-0,NVIDIA,abc,30:", "cannot be read", id="K10-word"),
        pytest.param("GPU-0,NVIDIA,-5,30:GPU-1,NVIDIA,2048,10:", "cannot be read", id="K9"),
        pytest.param("GPU-9,NVIDIA,1,1:", "no card GPU-9", id="unknown-card"),
        pytest.param("GPU-0,NVIDIA,1,1:;GPU-0,NVIDIA,1,1:", "2 lists for 1", id="too-many"),
    ],
)
def test_a_device_list_that_cannot_be_used_is_a_problem(ids: str, said: str) -> None:
    said_here = problem(a_bound_pod(vgpu(1), ids=ids))
    assert IDS in said_here
    assert said in said_here
