"""Cards counted by capacity, results written and read back (ENC-27, ENC-28, PRB-10)."""

from __future__ import annotations

import pytest

from tessera_core.dialect_kit.contract import Placed
from tessera_schema.cards import MIB, Inventory, Precision
from tessera_schema.grants import Share
from tessera_schema.kube import Quantity
from tessera_testing.builders import a_card, a_container, a_node, a_pod
from tests.dialects.mthreads.setting import (
    ALLOCATED,
    CORE,
    MEM,
    a_slice,
    bound,
    cards,
    given,
    made,
    named,
    needs,
    outcome,
)


def published(**capacity: Quantity) -> Inventory:
    (found,) = made().inventory(a_node("test", capacity=named(**capacity)), ())
    return found


def test_capacity_counts_cards() -> None:  # ENC-27
    found = published(mem=1, core=1)
    (card,) = found.cards
    assert (card.id, card.index, card.slots, card.memory_mib) == ("test-mthreads-0", 0, 100, 8192)
    assert (card.model, card.cores_percent, card.healthy) == ("Mthreads", 100, True)
    assert found.precision is Precision.COUNTED
    assert "no multiple of 16" in found.warnings[0]


def test_cards_of_a_node_are_equal() -> None:
    found = published(mem=192, core=32)
    assert [(c.id, c.index, c.memory_mib) for c in found.cards] == [
        ("test-mthreads-0", 0, 49152),
        ("test-mthreads-1", 1, 49152),
    ]
    assert found.warnings == ()


@pytest.mark.parametrize("capacity", [{}, {"cpu": 4}, {MEM: 4}, {CORE: 0, MEM: 4}], ids=str)
def test_nodes_without_cores_have_no_cards(capacity: dict[str, Quantity]) -> None:
    assert made().inventory(a_node("test", capacity=capacity), ()) == ()


@pytest.mark.parametrize(
    ("capacity", "reported"),
    [
        ({"core": "many", "mem": 1}, CORE),
        ({"core": -16, "mem": 1}, CORE),
        ({"core": "1.5", "mem": 1}, CORE),
        ({"core": 16}, MEM),
        ({"core": 16, "mem": "1e99"}, MEM),
        ({"core": "1Ti", "mem": "1Ti"}, CORE),
    ],
    ids=str,
)
def test_capacity_that_makes_no_sense_is_reported(
    capacity: dict[str, Quantity], reported: str
) -> None:
    found = published(**capacity)
    assert found.cards == ()
    assert f"node test: status.capacity[{reported}]" in found.warnings[0]


def a_share(position: int, index: int, mib: int, cores: float) -> Share:
    return Share(
        container=f"c{position}", position=position, vendor="mthreads", dialect="mthreads",
        card=f"n-mthreads-{index}", index=index, memory_bytes=mib * MIB, cores_percent=cores,
    )  # fmt: skip


def test_results_are_those_that_the_toolkit_reads() -> None:  # ENC-28
    pod = a_pod(needs(gpu=1, mem=2))
    placed = Placed(
        pod=pod, node="", shares=(a_share(0, 0, 1000, 6.25),), cards={}, now_ns=5_000_000_007
    )
    assert made().annotate(placed) == {
        "hami.io/vgpu-node": "",
        "hami.io/vgpu-time": "5",
        "hami.io/bind-phase": "allocating",
        "hami.io/bind-time": "5",
        ALLOCATED: "n-mthreads-0,Mthreads,1000,1:;",
        "mthreads.com/gpu-index": "0",
        "mthreads.com/predicate-node": "",
        "mthreads.com/predicate-time": "5000000007",
    }


def test_containers_without_cards_have_empty_lists() -> None:  # PRB-10
    pod = a_pod(a_container(), needs(gpu=2), a_container())
    shares = (a_share(1, 0, 1, 12.5), a_share(1, 1, 1, 12.5))
    notes = made().annotate(Placed(pod=pod, node="nodeX", shares=shares, cards={}, now_ns=1))
    assert notes[ALLOCATED] == ";n-mthreads-0,Mthreads,1,2:n-mthreads-1,Mthreads,1,2:;;"
    assert notes["mthreads.com/gpu-index"] == "0,1"
    assert notes["mthreads.com/predicate-node"] == "nodeX"
    assert not [key for key in notes if key.endswith("to-allocate")]


CARDS = [a_card(f"n-mthreads-{i}", i, mib=49152, vendor="mthreads") for i in range(2)]


def test_what_was_written_is_read_back() -> None:
    pod = a_pod(a_container(), a_slice(32, 5), a_slice(2, 0))
    answer = outcome(pod, cards(2))
    back = made().recorded(a_pod(*pod.spec.containers, annotations=answer.annotations), CARDS)
    assert answer.grant is not None
    assert back is not None
    assert back.shares == answer.grant.shares


def test_whole_cards_stay_their_holders_own() -> None:
    pod = bound(
        "w", "n-mthreads-0,Mthreads,49152,16:n-mthreads-1,Mthreads,49152,16:;", needs(gpu=2)
    )
    back = made().recorded(pod, CARDS)
    assert back is not None
    assert [s.exclusive for s in back.shares] == [True, True]


@pytest.mark.parametrize(
    "text",
    [
        "n-mthreads-9,Mthreads,1,1:;",
        "n-mthreads-0,Mthreads,one,1:;",
        "n-mthreads-0,Mthreads,1:;",
        "n-mthreads-0,Mthreads,1,1:;n-mthreads-0,Mthreads,1,1:;",
        "n-mthreads-0,Mthreads,99999999999,1:;",
    ],
)
def test_lists_that_cannot_be_read_are_problems(text: str) -> None:
    back = made().recorded(bound("b", text, a_slice()), CARDS)
    assert back is not None
    assert ALLOCATED in back.problem
    assert back.shares == ()


def test_pods_without_our_keys_hold_nothing() -> None:
    assert made().recorded(a_pod(a_slice(), node="n"), CARDS) is None


def test_a_bound_pod_without_a_readable_list_is_counted_by_its_requests() -> None:
    pod = bound("b", "garbage,", needs(gpu=1))
    answer = outcome(a_pod(a_slice()), cards(2), bound=[pod])
    assert len(given(answer)) == 1
    assert outcome(a_pod(needs(gpu=2)), cards(2), bound=[pod]).verdict == "waiting"


def test_every_result_key_is_stripped_from_new_pods() -> None:
    answer = outcome(a_pod(a_slice()), cards(1))
    written = set(answer.annotations) - {"tessera.dev/grant"}
    assert written <= set(made().result_keys)


def test_quota_counts_memory_and_cores() -> None:
    quota = made().quota
    assert quota[MEM].unit == 512 * MIB
    assert quota[CORE].unit == 6.25
