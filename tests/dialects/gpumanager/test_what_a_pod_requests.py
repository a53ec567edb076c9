"""Reading a pod's limits and its ceiling, and refusing what cannot be meant."""

from __future__ import annotations

import pytest

from tessera_core.dialect_kit.contract import Admitted, ContainerChange
from tessera_core.dialects.gpumanager.amounts import read
from tessera_core.dialects.gpumanager.names import PrefixNames
from tessera_schema.kube import Pod, Quantity
from tessera_schema.requests import CardKey, Choice, NodeOrder, Request, Role
from tessera_testing.builders import a_container, a_pod
from tests.dialects.gpumanager.setting import (
    BLOCK,
    CORE,
    LIMIT,
    MEMORY,
    P,
    accepted,
    admitted,
    asking,
    made,
    rejected,
)

INSPUR = "inspur.com"


def requests_of(pod: Pod) -> list[Request]:
    return [r for c in accepted(pod).containers for r in c.requests]


@pytest.mark.parametrize("prefix", [P, INSPUR])
def test_a_part_of_a_card_is_cores_and_memory(prefix: str) -> None:
    (request,) = requests_of(a_pod(asking(50, 30, prefix)))
    assert (request.count, request.exclusive) == (1, False)
    assert (request.cores_percent, request.memory_bytes) == (50, 30 * BLOCK)
    assert (request.vendor, request.dialect) == ("nvidia", "gpumanager")
    policy = request.policy
    assert (policy.node, policy.cards, policy.choice) == (
        NodeOrder.LEAST_FREE, (CardKey.TIGHTEST,), Choice.TREE,
    )  # fmt: skip


@pytest.mark.parametrize(("core", "cards"), [(100, 1), (200, 2), (800, 8)])
@pytest.mark.parametrize("memory", [None, 0, 60])
def test_multiples_of_100_are_whole_cards(core: int, cards: int, memory: int | None) -> None:
    (request,) = requests_of(a_pod(asking(core, memory)))
    assert (request.count, request.exclusive, request.cores_percent) == (cards, True, 100)
    assert (request.memory_bytes, request.memory_percent, request.memory_unit) == (0, 100, 1)


@pytest.mark.parametrize(
    ("containers", "asking_containers"),
    [
        pytest.param([(50, 1)], [True], id="D03"),
        pytest.param([(100, 0)], [True], id="D04"),
        pytest.param([(0, 8)], [False], id="D05"),
        pytest.param([(0, 0)], [False], id="nothing"),
        pytest.param([(200, 10), (0, 0)], [True, False], id="one of two"),
        pytest.param([(10, 1), (100, 0), (0, 0), (1, 1)], [True, True, False, True], id="four"),
    ],
)
def test_containers_that_request_are_found(
    containers: list[tuple[int, int]], asking_containers: list[bool]
) -> None:
    pod = a_pod(*(asking(core, memory) for core, memory in containers))
    positions = [c.position for c in accepted(pod).containers]
    assert [i in positions for i in range(len(containers))] == asking_containers
    needing = [a.position for a in read(pod, PrefixNames(P)) if a.needs_card]
    assert needing == positions


def test_memory_next_to_an_explicit_0_is_reported_to_be_in_vain() -> None:
    (warning,) = accepted(a_pod(asking(0, 8))).warnings
    assert warning == (
        f"spec.containers[0].resources.limits[{MEMORY}]: 8: gives nothing, as {CORE} is 0"
    )


@pytest.mark.parametrize(
    ("containers", "field", "value", "remedy"),
    [
        pytest.param([(150, 0)], 0, "150", "such as 100 or 200", id="C09 E09"),
        pytest.param([(250, 60)], 0, "250", "such as 200 or 300", id="250"),
        pytest.param([(101, 1)], 0, "101", "such as 100 or 200", id="101"),
        pytest.param([(50, 0), (50, 0)], 0, "50", f"add limits[{MEMORY}]", id="C10"),
        pytest.param([(40, 0), (0, 2)], 0, "40", f"add limits[{MEMORY}]", id="D09"),
        pytest.param([(10, 1), (50, None)], 1, "50", f"add limits[{MEMORY}]", id="no memory"),
        pytest.param([(100, 0), (99, 0)], 1, "99", "or write 100", id="99 without memory"),
        pytest.param([(-1, 1)], 0, "-1", "0 or more", id="negative"),
        pytest.param([("50.5", 1)], 0, "50.5", "whole number", id="fractional"),
        pytest.param([("500m", 1)], 0, "500m", "whole number", id="milli"),
        pytest.param([("a lot", 1)], 0, "a lot", "not a quantity", id="no quantity"),
        pytest.param([(1 << 31, 1)], 0, str(1 << 31), "at most", id="overflow"),
        pytest.param([("1Ei", 1)], 0, "1Ei", "at most", id="huge"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    containers: list[tuple[Quantity, Quantity]], field: int, value: str, remedy: str
) -> None:
    answer = rejected(a_pod(*(asking(core, memory) for core, memory in containers)))
    assert answer.field == f"spec.containers[{field}].resources.limits[{CORE}]"
    assert answer.value == value
    assert remedy in answer.remedy


@pytest.mark.parametrize(
    ("memory", "remedy"),
    [
        (-1, "0 or more"),
        ("1.5", "whole number"),
        (8388608, "at most 16384"),
        ("10Gi", "units of 256 MiB, and no card has that much. For 10 GiB write 40."),
        ("4Gi", "For 4 GiB write 16."),
        ("", "not a quantity"),
    ],
)
def test_bad_memory_is_refused(memory: Quantity, remedy: str) -> None:
    answer = rejected(a_pod(asking(50, memory)))
    assert answer.field == f"spec.containers[0].resources.limits[{MEMORY}]"
    assert remedy in answer.remedy


def test_quantities_are_read_as_kubernetes_reads_them() -> None:
    (request,) = requests_of(a_pod(asking("5e1", "1k")))
    assert (request.cores_percent, request.memory_bytes) == (50, 1000 * BLOCK)
    assert requests_of(a_pod(asking("0.1k")))[0].exclusive


def test_memory_without_cores_is_refused() -> None:
    answer = rejected(a_pod(asking(None, 8)))
    assert answer.field == f"spec.containers[0].resources.limits[{MEMORY}]"
    assert f"add limits[{CORE}]" in answer.remedy


@pytest.mark.parametrize("name", [CORE, MEMORY])
def test_requests_without_limits_are_refused(name: str) -> None:
    other = MEMORY if name == CORE else CORE
    answer = rejected(a_pod(a_container({other: 50}, {CORE: 50, MEMORY: 50})))
    assert answer.field == f"spec.containers[0].resources.requests[{name}]"
    assert "under limits" in answer.remedy


def test_requests_of_0_alone_request_nothing() -> None:
    assert accepted(a_pod(a_container({}, {CORE: 0}))).containers == ()


def test_limits_win_over_differing_requests() -> None:
    pod = a_pod(a_container({CORE: 50, MEMORY: 30}, {CORE: 30, MEMORY: 30}))
    answer = accepted(pod)
    assert answer.containers[0].requests[0].cores_percent == 50
    assert answer.changes == {"c0": ContainerChange(requests={CORE: "50"})}
    (warning,) = answer.warnings
    assert f"requests[{CORE}]: 30: the limit 50 counts" in warning


def test_a_bad_request_next_to_a_good_limit_is_refused() -> None:
    answer = rejected(a_pod(a_container({CORE: 50, MEMORY: 30}, {CORE: "x", MEMORY: 30})))
    assert answer.field == f"spec.containers[0].resources.requests[{CORE}]"


def test_limits_are_copied_to_requests_and_a_second_admission_changes_nothing() -> None:
    answer = accepted(a_pod(a_container({CORE: 50, MEMORY: "30"}), asking(100)))
    change = answer.changes["c0"]
    assert (change.limits, change.requests) == ({}, {CORE: "50", MEMORY: "30"})
    again = accepted(a_pod(a_container({CORE: 50, MEMORY: "30"}, change.requests), asking(100)))
    assert again.changes == {}
    assert again.containers == answer.containers


# -- prefixes


def test_both_prefixes_in_one_pod_are_refused_by_both_names() -> None:
    answer = rejected(a_pod(asking(50, 1), asking(50, 1, INSPUR)))
    assert answer.field == "spec.containers[1].resources.limits[inspur.com/vcuda-core]"
    assert "spec.containers[0].resources.limits[tencent.com/vcuda-core]" in answer.remedy


@pytest.mark.parametrize("core", [50, 100])
def test_both_prefixes_in_one_container_are_refused(core: int) -> None:
    both = a_container({CORE: core, f"{INSPUR}/vcuda-memory": 8})
    answer = rejected(a_pod(both))
    assert answer.field == "spec.containers[0].resources.limits[inspur.com/vcuda-memory]"
    assert f"conflicts with spec.containers[0].resources.limits[{CORE}]" in answer.remedy


def test_nothing_requested_with_the_other_prefix_is_no_conflict() -> None:
    assert len(accepted(a_pod(asking(50, 1), asking(0, 0, INSPUR))).containers) == 1


def test_prefixes_are_configurable() -> None:
    dialect = made(prefixes=["example.com"])
    assert dialect.resources == {"example.com/vcuda-core", "example.com/vcuda-memory"}
    assert dialect.claim(a_pod(asking(50, 1, "example.com"))).fields == {
        "example.com/vcuda-core": "spec.containers[0].resources.limits[example.com/vcuda-core]",
        "example.com/vcuda-memory": "spec.containers[0].resources.limits[example.com/vcuda-memory]",
    }
    assert dialect.claim(a_pod(asking(50, 1))).fields == {}


@pytest.mark.parametrize(
    "options",
    [
        {"prefixes": []}, {"prefixes": ["a.b/"]}, {"prefixes": [""]}, {"prefixes": ["a.b", "a.b"]},
        {"pod_directory": "vm"}, {"driver_directory": ""}, {"prefix": "a.b"},
    ],
)  # fmt: skip
def test_senseless_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        made(**options)


# -- init containers


def test_init_containers_and_sidecars_are_counted() -> None:
    sidecar = a_container({CORE: 20, MEMORY: 2}, name="side", sidecar=True)
    answer = accepted(a_pod(asking(50, 4), init=(asking(100), sidecar)))
    found = [(c.container, c.position, c.role) for c in answer.containers]
    assert found == [("init0", 0, Role.INIT), ("side", 1, Role.SIDECAR), ("c0", 2, Role.APP)]


def test_a_bad_init_container_is_refused() -> None:
    answer = rejected(a_pod(asking(50, 4), init=(asking(150),)))
    assert answer.field == f"spec.initContainers[0].resources.limits[{CORE}]"


# -- the ceiling


def with_ceiling(text: str, *, core: int = 50, key: str = LIMIT) -> Admitted:
    return accepted(a_pod(asking(core, 30), annotations={key: text}))


@pytest.mark.parametrize("text", ["x", "", "0", "-5", "50.5", " 50", "0x32", "5e1", "9" * 30, "½"])
def test_a_malformed_ceiling_is_refused(text: str) -> None:
    answer = rejected(a_pod(asking(50, 30), annotations={LIMIT: text}))
    assert answer.field == f"metadata.annotations[{LIMIT}]"
    assert answer.value == text
    assert "quoted whole number" in answer.remedy


@pytest.mark.parametrize("text", ["50", "80", "100", "+60", "0060"])
def test_a_sensible_ceiling_passes_without_a_word(text: str) -> None:
    assert with_ceiling(text).warnings == ()


@pytest.mark.parametrize(
    ("text", "core", "says"),
    [
        ("150", 50, "counts as 100"),
        ("30", 50, "is less than"),
        ("50", 200, "whole cards are not limited"),
    ],
)
def test_a_ceiling_that_does_not_do_what_it_seems_is_reported(
    text: str, core: int, says: str
) -> None:
    (warning,) = with_ceiling(text, core=core).warnings
    assert f"metadata.annotations[{LIMIT}]: {text}: " in warning
    assert says in warning


def test_a_ceiling_with_the_other_prefix_is_reported() -> None:
    (warning,) = with_ceiling("50", key="inspur.com/vcuda-core-limit").warnings
    assert f"rename it {LIMIT}" in warning


def test_a_ceiling_of_a_pod_that_requests_nothing_is_nobodys_business() -> None:
    assert admitted(a_pod(asking(0, 0), annotations={LIMIT: "x"})) == Admitted(containers=())


# -- other systems


def test_foreign_resources_belong_to_others() -> None:
    pod = a_pod(a_container({"nvidia.com/gpu": 1, "vcuda-core": 1, "x.tencent.com/vcuda-core": 1}))
    assert made().claim(pod).fields == {}
    assert accepted(pod).containers == ()
