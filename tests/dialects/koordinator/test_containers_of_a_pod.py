"""Several containers: each its own cards, by the pod-level rules that make sense of the sum."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tessera_core.dialect_kit.contract import Admitted, Rejected
from tessera_schema.requests import Role
from tessera_testing.builders import a_node, a_pod
from tessera_testing.plan import plan
from tests.dialects.koordinator.spoken import (
    ALLOCATED,
    HALF,
    KOORDINATOR,
    NAMES,
    a_koord_pod,
    flat,
    needs,
)


def admitted(pod: Any) -> Admitted:
    answer = KOORDINATOR.admit(pod)
    assert isinstance(answer, Admitted), answer
    return answer


def test_each_container_that_requests_cards_has_its_own_request() -> None:
    answer = admitted(a_koord_pod("sh=1 ratio=33", "cpu=1", "sh=1 core=20 ratio=34"))
    assert [(c.container, c.position) for c in answer.containers] == [("c0", 0), ("c2", 2)]
    assert [c.requests[0].memory_percent for c in answer.containers] == [33, 34]
    assert [c.requests[0].cores_percent for c in answer.containers] == [0, 20]


@pytest.mark.parametrize(
    ("first", "second", "blamed"),
    [("sh=1 ratio=50", "sh=1 mem=8Gi", "mem"), ("sh=1 ratio=50", "nv=1", "nv")],
)
def test_containers_that_request_in_ways_that_do_not_add_up_are_refused(
    first: str, second: str, blamed: str
) -> None:
    answer = KOORDINATOR.admit(a_koord_pod(first, second))
    assert isinstance(answer, Rejected)
    assert answer.field == f"spec.containers[1].resources.limits[{NAMES[blamed]}]"
    assert NAMES["ratio"] in answer.remedy


@pytest.mark.parametrize(("first", "second"), [("gpu=50", "ratio=50"), ("nv=1", "nv=1")])
def test_containers_that_come_to_the_same_names_are_accepted(first: str, second: str) -> None:
    assert len(admitted(a_koord_pod(first, second)).containers) == 2


def test_init_and_sidecar_have_their_roles() -> None:
    pod = a_pod(needs("gpu=50"), init=(needs("gpu=50"), needs("gpu=50", sidecar=True)))
    answer = admitted(pod)
    assert [c.role for c in answer.containers] == [Role.INIT, Role.SIDECAR, Role.APP]
    assert [c.position for c in answer.containers] == [0, 1, 2]


@pytest.mark.parametrize(
    ("init", "apps", "together"),
    [
        ((), ("gpu=50",), False),
        ((), ("gpu=50", "gpu=50"), False),
        (("gpu=100",), ("gpu=50",), True),
        (("gpu=200",), ("gpu=50",), False),
    ],
)
def test_containers_that_never_need_two_cards_at_once_share_one(
    *, init: tuple[str, ...], apps: tuple[str, ...], together: bool
) -> None:
    pod = a_pod(*(needs(t) for t in apps), init=tuple(needs(t) for t in init))
    requests = [r for c in admitted(pod).containers for r in c.requests]
    assert [r.together for r in requests] == [together] * len(requests)


def test_two_halves_get_a_card_each_as_upstreams_sum_does() -> None:
    (outcome,) = plan([a_koord_pod(HALF, HALF)], [a_node()], customs=[flat(2, "16Gi")])
    assert outcome.grant is not None
    assert [(s.container, s.index) for s in outcome.grant.shares] == [("c0", 0), ("c1", 1)]
    entries = json.loads(outcome.annotations[ALLOCATED])["gpu"]
    assert [e["minor"] for e in entries] == [0, 1]
    assert {e["resources"][NAMES["mem"]] for e in entries} == {"8Gi"}
    assert outcome.injections["c0"].env["NVIDIA_VISIBLE_DEVICES"] == "0"
    assert outcome.injections["c1"].env["NVIDIA_VISIBLE_DEVICES"] == "1"


def test_two_halves_on_the_only_card_are_one_entry() -> None:
    (outcome,) = plan([a_koord_pod(HALF, HALF)], [a_node()], customs=[flat(1, "16Gi")])
    assert outcome.annotations[ALLOCATED] == (
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100",'
        '"koordinator.sh/gpu-memory":"16Gi","koordinator.sh/gpu-memory-ratio":"100"}}]}'
    )


def test_init_and_app_on_one_card_are_written_as_the_larger_of_both() -> None:
    pod = a_pod(needs("gpu=50"), init=(needs("gpu=100"),), scheduler="koord-scheduler")
    (outcome,) = plan([pod], [a_node()], customs=[flat(2, "16Gi")])
    entries = json.loads(outcome.annotations[ALLOCATED])["gpu"]
    assert [(e["minor"], e["resources"][NAMES["ratio"]]) for e in entries] == [(0, "100")]


def test_containers_that_do_not_request_are_given_nothing() -> None:
    (outcome,) = plan([a_koord_pod(HALF, "cpu=1")], [a_node()], customs=[flat(1, "16Gi")])
    assert "c1" not in outcome.injections or not outcome.injections["c1"].env
