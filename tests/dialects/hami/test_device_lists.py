"""Device lists on pods: the wire form, who holds what, and what is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.dialect_kit.hami_format import (
    BadList,
    DeviceListEntry,
    decode_lists,
    encode_lists,
)
from tessera_schema.cards import MIB
from tessera_schema.requests import Role
from tessera_testing.builders import a_card, a_container, a_pod
from tests.dialects.hami.setting import ALLOCATED, bound, made, needs

ONE = DeviceListEntry("UUID1", "Type1", 1000, 30)
CARDS = [a_card("a", 0, vendor="nvidia"), a_card("b", 1, vendor="nvidia")]


@pytest.mark.parametrize(
    ("lists", "text", "decoded"),
    [
        pytest.param([], "", ((),), id="ENC-01"),
        pytest.param([[ONE]], "UUID1,Type1,1000,30:;", ((ONE,), ()), id="ENC-02"),
        pytest.param(
            [[ONE], [ONE]],
            "UUID1,Type1,1000,30:;UUID1,Type1,1000,30:;",
            ((ONE,), (ONE,), ()),
            id="ENC-03",
        ),
        pytest.param(
            [[], [DeviceListEntry("a", "NVIDIA", 1, 2), DeviceListEntry("b", "NVIDIA", 3, 4)], []],
            ";a,NVIDIA,1,2:b,NVIDIA,3,4:;;",
            (
                (),
                (DeviceListEntry("a", "NVIDIA", 1, 2), DeviceListEntry("b", "NVIDIA", 3, 4)),
                (),
                (),
            ),
            id="containers without cards keep their place",
        ),
    ],
)
def test_lists_are_written_and_read(
    lists: list[list[DeviceListEntry]], text: str, decoded: tuple[tuple[DeviceListEntry, ...], ...]
) -> None:
    assert encode_lists(lists) == text
    assert decode_lists(text) == decoded


def test_the_end_of_a_list_reads_as_an_empty_container() -> None:
    """ENC-05."""
    text = "GPU-8d,NVIDIA,500,3:;GPU-eb,NVIDIA,500,3:;"
    decoded = decode_lists(text)
    assert len(decoded) == 3
    assert decoded[2] == ()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("uuid,type,100:;", id="ENC-06"),
        "uuid,type,1.5,3:;",
        "uuid,type,1,99999999999:;",
        "uuid,type,-1,3:;",
        "uuid,type,,:;",
        "uuid,type,\u0661,3:;",
    ],
)
def test_a_malformed_device_is_reported(text: str) -> None:
    with pytest.raises(BadList, match="uuid,type"):
        decode_lists(text)


def test_pieces_without_a_comma_are_passed_over_and_further_parts_too() -> None:
    assert decode_lists("x:a,N,1,2,more:;") == ((DeviceListEntry("a", "N", 1, 2),), ())


@given(st.text(alphabet="aG1,:;-x é", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        decoded = decode_lists(text)
    except BadList:
        return
    assert decode_lists(encode_lists(decoded))[:-1] == decoded


def test_a_bound_pod_holds_what_its_list_says() -> None:
    pod = bound(
        [[DeviceListEntry("a", "NVIDIA", 100, 10)], [], [DeviceListEntry("b", "NVIDIA", 200, 100)]],
        inits=1,
    )
    held = made().recorded(pod, CARDS)
    assert held is not None
    assert [(s.container, s.position, s.role, s.card, s.index) for s in held.shares] == [
        ("init0", 0, Role.INIT, "a", 0),
        ("c1", 2, Role.APP, "b", 1),
    ]
    assert [s.memory_bytes for s in held.shares] == [100 * MIB, 200 * MIB]
    assert [s.exclusive for s in held.shares] == [False, True]


def test_a_card_with_scaled_cores_is_not_taken_alone() -> None:
    pod = bound([[DeviceListEntry("a", "NVIDIA", 100, 100)]])
    held = made().recorded(pod, [a_card("a", vendor="nvidia", cores=200)])
    assert held is not None
    assert not held.shares[0].exclusive


def test_a_list_without_empty_places_is_matched_with_the_containers_that_request_cards() -> None:
    """HAMi leaves out NVIDIA's containers without cards; what they hold must not be lost."""
    pod = a_pod(
        a_container(name="plain"),
        needs({"gpu": 1}, name="gpu"),
        init=(a_container(name="setup"),),
        annotations={ALLOCATED: "a,NVIDIA,100,10:;"},
        node="n1",
    )
    held = made().recorded(pod, CARDS)
    assert held is not None
    assert [(s.container, s.position, s.card) for s in held.shares] == [("gpu", 2, "a")]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a,NVIDIA,100,10:;b,NVIDIA,1,1:;", "lists 2 containers, the pod has 1"),
        ("a,NVIDIA,100:;", "a device has id, type, MiB and cores"),
        ("GPU-a[1g-0],NVIDIA,100,10:;", "card GPU-a[1g-0] is not among the node's cards (a, b)"),
        ("", "lists 0 containers"),
    ],
)
def test_what_cannot_be_attributed_is_a_problem_not_a_guess(text: str, problem: str) -> None:
    pod = a_pod(needs({"gpu": 1}), annotations={ALLOCATED: text}, node="n1")
    held = made().recorded(pod, CARDS)
    assert held is not None
    assert not held.shares
    assert problem in held.problem
    assert ALLOCATED in held.problem


def test_a_pod_without_the_list_holds_nothing_of_this_dialect() -> None:
    assert made().recorded(a_pod(needs({"gpu": 1}), node="n1"), CARDS) is None
