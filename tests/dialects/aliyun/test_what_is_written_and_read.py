"""Annotations for the device plugins of both releases, and what they say of a bound pod."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tessera_core.dialect_kit.contract import RecordedShares
from tessera_schema.kube import Container
from tessera_testing.builders import a_card, a_container, a_pod
from tessera_testing.plan import plan
from tests.dialects.aliyun.setting import (
    ACK,
    ALLOCATION,
    BY_CARD,
    BY_POD,
    CORE_ALLOCATION,
    COUNT,
    GIB,
    GIVEN,
    INDEX,
    TIME,
    a_gpu_node,
    asking,
    made,
)

CARDS = [
    a_card(f"GPU-{i}", i, mib=15360, vendor="nvidia", minor=minor) for i, minor in enumerate((3, 1))
]


def test_a_pod_on_one_card_has_both_releases_keys() -> None:
    pod = a_pod(asking(3, 20), asking(1, 10), a_container(), uid="u")
    (outcome,) = plan([pod], [a_gpu_node(60, 4)])
    notes = {k: v for k, v in outcome.annotations.items() if not k.startswith("tessera.dev/")}
    time = notes[TIME]
    assert time.isdecimal()
    assert notes == {
        INDEX: "0", BY_CARD: "15", BY_POD: "4", GIVEN: "false", TIME: time,
        ALLOCATION: '{"0":{"0":3},"1":{"0":1}}', CORE_ALLOCATION: '{"0":{"0":20},"1":{"0":10}}',
        f"{ACK}.assigned": "false", f"{ACK}.assume-time": time,
    }  # fmt: skip


def test_a_pod_on_several_cards_has_acks_alone() -> None:
    (outcome,) = plan([a_pod(asking(8), uid="u", labels={COUNT: "2"})], [a_gpu_node(60, 4)])
    assert json.loads(outcome.annotations[ALLOCATION]) == {"0": {"0": 4, "1": 4}}
    assert INDEX not in outcome.annotations
    assert CORE_ALLOCATION not in outcome.annotations


def test_an_init_container_has_no_number() -> None:
    (outcome,) = plan([a_pod(asking(2), init=(asking(4),), uid="u")], [a_gpu_node(60, 4)])
    assert outcome.annotations[ALLOCATION] == '{"0":{"0":2}}'
    assert outcome.annotations[BY_POD] == "2"


@pytest.mark.parametrize(
    ("options", "more"), [({}, {}), ({"disable_isolation": True}, {"CGPU_DISABLE": "true"})]
)
def test_a_container_gets_the_device_plugins_variables(
    options: dict[str, bool], more: dict[str, str]
) -> None:
    pod = a_pod(asking(3), asking(1), a_container(), uid="u")
    (outcome,) = plan([pod], [a_gpu_node(60, 4)], config={"aliyun": options})
    env = outcome.injections["c1"].env
    expected = {
        INDEX: "0", BY_POD: "4", "ALIYUN_COM_GPU_MEM_CONTAINER": "1", BY_CARD: "15", **more,
    }  # fmt: skip
    assert {k: v for k, v in env.items() if "ALIYUN" in k or "CGPU" in k} == expected
    assert env["NVIDIA_VISIBLE_DEVICES"] == "0"
    assert "c2" not in outcome.injections or INDEX not in outcome.injections["c2"].env


def recorded(
    notes: dict[str, str], containers: Sequence[Container] = (asking(3), asking(1))
) -> RecordedShares | None:
    return made().recorded(a_pod(*containers, annotations=notes, node="n1"), CARDS)


READ = [
    pytest.param({}, None, id="nothing is written"),
    pytest.param({GIVEN: "true", TIME: "1"}, None, id="no card is written"),
    pytest.param(
        {INDEX: "1", BY_POD: "4"}, [("c0", "GPU-1", 3, 0), ("c1", "GPU-1", 1, 0)],
        id="the extender's number is the minor",
    ),
    pytest.param(
        {INDEX: "3"}, [("c0", "GPU-0", 3, 0), ("c1", "GPU-0", 1, 0)], id="a sum that is missing"
    ),
    pytest.param(
        {INDEX: "3", BY_POD: "9"}, [("c0", "GPU-0", 3, 0), ("c1", "GPU-0", 6, 0)],
        id="a sum beyond the limits",
    ),
    pytest.param(
        {INDEX: "3", BY_POD: "2"}, [("c0", "GPU-0", 2, 0)], id="a sum below the limits"
    ),
    pytest.param(
        {ALLOCATION: '{"0":{"1":1},"1":{"1":7}}'},
        [("c0", "GPU-1", 1, 0), ("c1", "GPU-1", 7, 0)],
        id="ack by container",
    ),
    pytest.param(
        {ALLOCATION: '{"0":{"1":4,"3":4}}'}, [("c0", "GPU-1", 4, 0), ("c0", "GPU-0", 4, 0)],
        id="ack on two cards",
    ),
    pytest.param(
        {ALLOCATION: '{"0":{"1":1}}', CORE_ALLOCATION: '{"0":{"1":50}}'},
        [("c0", "GPU-1", 1, 50)],
        id="ack with compute",
    ),
    pytest.param(
        {ALLOCATION: '{"0":{"1":2}}', INDEX: "3", BY_POD: "4"}, [("c0", "GPU-1", 2, 0)],
        id="ack counts where both are written",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("notes", "shares"), READ)
def test_a_bound_pods_annotations_are_read(
    notes: dict[str, str], shares: list[tuple[str, str, int, int]] | None
) -> None:
    found = recorded(notes)
    if shares is None:
        assert found is None
        return
    assert found is not None
    assert found.problem == ""
    assert [
        (s.container, s.card, s.memory_bytes // GIB, s.cores_percent) for s in found.shares
    ] == shares


@pytest.mark.parametrize(
    ("notes", "problem"),
    [
        ({INDEX: "-1"}, f"metadata.annotations[{INDEX}]: '-1': the node has no card -1"),
        ({INDEX: "7"}, f"metadata.annotations[{INDEX}]: '7': the node has no card 7"),
        ({INDEX: "1", BY_POD: "x"}, f"metadata.annotations[{BY_POD}]: 'x': is no number of GiB"),
        ({ALLOCATION: "{}"}, f"metadata.annotations[{ALLOCATION}]: '{{}}': gives no memory"),
        ({ALLOCATION: '{"0":{"7":1}}'}, "the node has no card 7"),
        ({ALLOCATION: '{"5":{"1":1}}'}, "the pod has no container 5"),
        ({ALLOCATION: '{"x":{"1":1}}'}, "the pod has no container -1"),
        ({ALLOCATION: '{"0":{"1":-1}}'}, "Expected `int` >= 0"),
        ({ALLOCATION: "[" * 2000}, f"metadata.annotations[{ALLOCATION}]"),
    ],
)
def test_what_cannot_be_read_is_a_problem(notes: dict[str, str], problem: str) -> None:
    found = recorded(notes)
    assert found is not None
    assert found.shares == ()
    assert problem in found.problem


def test_a_pod_that_is_refused_today_is_read_by_its_annotation() -> None:
    found = recorded({INDEX: "1", BY_POD: "4"}, (asking("4.5"),))
    assert found is not None
    assert [(s.container, s.memory_bytes) for s in found.shares] == [("c0", 4 * GIB)]
