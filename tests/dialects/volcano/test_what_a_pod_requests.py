"""gpushare: only limits count, and a pod is one unit (cases A)."""

from __future__ import annotations

import pytest

from tessera_core.dialect_kit.contract import Admitted
from tessera_schema.cards import MIB
from tessera_schema.kube import Container, Pod, Quantity
from tessera_schema.requests import Role
from tessera_testing.builders import a_container, a_node, a_pod
from tessera_testing.plan import plan
from tests.dialects.volcano.setting import (
    MEMORY,
    NUMBER,
    a_counted_node,
    accepted,
    made,
    memory,
    number,
    rejected,
    vgpu,
)


@pytest.mark.parametrize(
    ("pod", "needs"),
    [
        pytest.param(a_pod(memory(1), memory(3)), 4, id="A1"),
        pytest.param(a_pod(memory(2), init=(memory(1), memory(3))), 3, id="A2"),
        pytest.param(a_pod(memory(2), memory(2), init=(memory(3),)), 4, id="sum-over-init"),
        pytest.param(a_pod(memory("1k")), 1000, id="decimal-suffix"),
        pytest.param(a_pod(memory("1Ki")), 1024, id="binary-suffix"),
    ],
)
def test_one_card_must_hold_the_sum_of_containers_or_the_largest_init(pod: Pod, needs: int) -> None:
    too_small, big_enough = a_counted_node(needs - 1, 1), a_counted_node(needs, 1)
    assert plan([pod], [too_small])[0].verdict == "waiting"
    assert plan([pod], [big_enough])[0].verdict == "placed"


@pytest.mark.parametrize(
    ("pod", "needs"),
    [
        pytest.param(a_pod(number(1), number(3)), 4, id="A3"),
        pytest.param(a_pod(number(2), init=(number(1), number(3))), 3, id="A4"),
    ],
)
def test_whole_cards_are_counted_like_memory(pod: Pod, needs: int) -> None:
    assert plan([pod], [a_counted_node(0, needs - 1)])[0].verdict == "waiting"
    outcome = plan([pod], [a_counted_node(0, needs)])[0]
    assert outcome.verdict == "placed"
    assert outcome.annotations["volcano.sh/gpu-index"] == ",".join(map(str, range(needs)))


def test_every_container_that_requests_cards_is_a_request_of_its_own() -> None:
    pod = a_pod(
        memory(2),
        a_container(),
        memory(3),
        init=(memory(4), a_container({MEMORY: 5}, sidecar=True)),
    )
    asked = accepted(pod).containers
    assert [(c.container, c.position, c.role) for c in asked] == [
        ("init0", 0, Role.INIT),
        ("init1", 1, Role.SIDECAR),
        ("c0", 2, Role.APP),
        ("c2", 4, Role.APP),
    ]
    assert [r.memory_bytes // MIB for c in asked for r in c.requests] == [4, 5, 2, 3]
    assert all(r.together and not r.exclusive for c in asked for r in c.requests)


def test_requests_without_limits_are_refused_instead_of_dropped() -> None:
    # A6: upstream reads 0 and the pod would get no card at all
    answer = rejected(a_pod(a_container(requests={MEMORY: 5})))
    assert answer.field == f"spec.containers[0].resources.requests[{MEMORY}]"
    assert answer.value == "5"
    assert "limits" in answer.remedy


@pytest.mark.parametrize(
    ("name", "served"),
    [pytest.param(MEMORY, False, id="A7-memory"), pytest.param(NUMBER, True, id="A7-number")],
)
def test_kinds_that_are_switched_off_belong_to_others(*, name: str, served: bool) -> None:
    dialect = made(gpu_sharing=False, gpu_number=True)
    pod = a_pod(a_container({name: 1}))
    assert (name in dialect.resources) is served
    assert bool(dialect.claim(pod).fields) is served
    answer = dialect.admit(pod)
    assert isinstance(answer, Admitted)
    assert bool(answer.containers) is served


def test_a_block_is_as_many_mib_as_the_factor_says() -> None:
    (asked,) = accepted(a_pod(memory(100)), gpu_memory_factor=10).containers
    assert asked.requests[0].memory_bytes == 1000 * MIB


def test_whole_cards_are_idle_and_stay_alone() -> None:
    (asked,) = accepted(a_pod(number(2))).containers
    (request,) = asked.requests
    assert (request.count, request.exclusive, request.memory_percent) == (2, True, 100)
    assert not request.together


@pytest.mark.parametrize("container", [memory(0), number(0), memory("0")])
def test_zero_requests_nothing(container: Container) -> None:
    answer = accepted(a_pod(container))
    assert answer.containers == ()
    assert plan([a_pod(memory(0))], [a_node()])[0].verdict == "ignored"


def test_limits_become_requests_and_a_second_admission_changes_nothing() -> None:
    changes = accepted(a_pod(memory("1Ki"), a_container())).changes
    assert set(changes) == {"c0"}
    assert changes["c0"].limits == changes["c0"].requests == {MEMORY: "1024"}
    again = a_pod(a_container({MEMORY: "1024"}, {MEMORY: "1024"}))
    assert accepted(again).changes["c0"] == changes["c0"]
    assert accepted(again).containers == accepted(a_pod(memory(1024))).containers


def test_the_containers_of_the_seed_are_admitted_without_a_word() -> None:
    answer = accepted(a_pod(memory(1024), scheduler="volcano"))
    assert answer.warnings == ()
    assert made().schedulers == ("volcano",)


@pytest.mark.parametrize(
    ("pod", "field", "value"),
    [
        pytest.param(a_pod(memory(-1)), f"limits[{MEMORY}]", "-1", id="negative"),
        pytest.param(a_pod(memory("1.5")), f"limits[{MEMORY}]", "1.5", id="fraction"),
        pytest.param(a_pod(memory("500m")), f"limits[{MEMORY}]", "500m", id="milli"),
        pytest.param(a_pod(memory("9E")), f"limits[{MEMORY}]", "9E", id="overflows-bytes"),
        pytest.param(a_pod(memory("99E")), f"limits[{MEMORY}]", "99E", id="overflows-64-bits"),
        pytest.param(a_pod(memory("much")), f"limits[{MEMORY}]", "much", id="no-quantity"),
        pytest.param(a_pod(number("0.5")), f"limits[{NUMBER}]", "0.5", id="half-a-card"),
        pytest.param(a_pod(memory(1), number(1)), NUMBER, "1", id="two-kinds-in-two-containers"),
        pytest.param(
            a_pod(a_container({MEMORY: 1, NUMBER: 2})), NUMBER, "2", id="two-kinds-in-one"
        ),
    ],
)
def test_nonsense_is_refused_by_field_and_value(pod: Pod, field: str, value: str) -> None:
    answer = rejected(pod)
    assert field in answer.field
    assert answer.value == value
    assert answer.remedy


@pytest.mark.parametrize("request_", [5, "4k", "x"])
def test_a_request_that_differs_from_the_limit_is_refused(request_: Quantity) -> None:
    answer = rejected(a_pod(a_container({MEMORY: 4}, {MEMORY: request_})))
    assert answer.field == f"spec.containers[0].resources.requests[{MEMORY}]"
    assert "limit 4" in answer.remedy


@pytest.mark.parametrize("request_", [1024, "1024", "1Ki"])
def test_one_amount_may_be_spelt_in_two_ways(request_: Quantity) -> None:
    answer = accepted(a_pod(a_container({MEMORY: "1Ki"}, {MEMORY: request_})))
    assert answer.containers[0].requests[0].memory_bytes == 1024 * MIB


def test_memory_and_number_in_one_pod_are_refused_naming_both() -> None:
    answer = rejected(a_pod(memory(1), number(1)))
    assert f"containers[1].resources.limits[{NUMBER}]" in answer.message
    assert f"containers[0].resources.limits[{MEMORY}]" in answer.message


def test_a_number_of_0_next_to_memory_is_no_conflict() -> None:
    (asked,) = accepted(a_pod(a_container({MEMORY: 1, NUMBER: 0}))).containers
    assert asked.requests[0].together


def test_memory_beyond_belief_is_given_the_unit() -> None:
    refused = rejected(a_pod(memory("16Gi")))
    assert "For 16 GiB write 16384." in refused.remedy
    by_ten = rejected(a_pod(memory("16Gi")), gpu_memory_factor=10).remedy
    assert "counts units of 10 MiB" in by_ten
    assert "For 16 GiB write 1639, rounded up." in by_ten
    assert "For 16 GiB write 16384." in rejected(a_pod(vgpu(1, "16Gi"))).remedy
