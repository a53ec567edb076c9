"""What vgpu limits and annotations mean (spec 4.1, 4.2; K1 to K7)."""

from __future__ import annotations

from typing import Any

import pytest

from tessera_schema.cards import MIB
from tessera_schema.kube import Container, Pod
from tessera_schema.requests import CardKey, NodeOrder, Request
from tessera_testing.builders import a_container, a_pod
from tessera_testing.plan import plan
from tests.dialects.volcano.setting import (
    VGPU_CORES,
    VGPU_MEMORY,
    VGPU_NUMBER,
    VGPU_PERCENT,
    a_vgpu_node,
    accepted,
    memory,
    rejected,
    vgpu,
)


def request(container: Container, **options: Any) -> Request:
    (asked,) = accepted(a_pod(container), **options).containers
    (only,) = asked.requests
    return only


@pytest.mark.parametrize(
    ("container", "count", "mib", "percent", "cores"),
    [
        pytest.param(vgpu(1), 1, 0, 100, 0, id="number-alone-is-the-whole-card"),
        pytest.param(vgpu(2, 100, 30), 2, 100, 0, 30, id="all-per-card"),
        pytest.param(vgpu(None, 100), 1, 100, 0, 0, id="memory-alone-is-one-card"),
        pytest.param(vgpu(None, 100, 5), 1, 100, 0, 5, id="memory-and-cores"),
        pytest.param(vgpu(1, percent=50), 1, 0, 50, 0, id="percentage"),
        pytest.param(vgpu(1, 100, percent=50), 1, 0, 50, 0, id="percentage-wins"),
        pytest.param(vgpu(1, 0), 1, 0, 100, 0, id="memory-0-is-the-whole-card"),
        pytest.param(
            a_container({VGPU_NUMBER: 1}, {VGPU_MEMORY: 7, VGPU_CORES: 8}),
            1, 7, 0, 8, id="memory-and-cores-from-requests",
        ),
        pytest.param(
            a_container({VGPU_NUMBER: 1}, {VGPU_PERCENT: 7}),
            1, 0, 7, 0, id="percentage-from-requests",
        ),
    ],
)  # fmt: skip
def test_what_is_requested_of_each_card(
    container: Container, count: int, mib: int, percent: int, cores: float
) -> None:
    asked = request(container)
    assert (asked.count, asked.memory_bytes // MIB, asked.memory_percent, asked.cores_percent) == (
        count, mib, percent, cores,
    )  # fmt: skip
    assert not asked.together


@pytest.mark.parametrize(("cores", "exclusive"), [(0, False), (99, False), (100, True)])
def test_all_cores_are_the_card_alone(cores: int, *, exclusive: bool) -> None:
    assert request(vgpu(1, cores=cores)).exclusive is exclusive


def test_defaults_are_those_configured() -> None:
    asked = request(vgpu(1), vgpu_default_memory=512, vgpu_default_cores=10)
    assert (asked.memory_bytes // MIB, asked.cores_percent) == (512, 10)
    assert request(vgpu(None, 5), vgpu_default_number=2).count == 2
    assert request(vgpu(1, percent=20), vgpu_default_memory=512).memory_percent == 20


def test_memory_counts_in_blocks_of_the_factor() -> None:
    asked = request(vgpu(1, 10), vgpu_memory_factor=10)
    assert (asked.memory_bytes // MIB, asked.memory_unit) == (100, 10 * MIB)


def test_without_its_name_the_percentage_belongs_to_another() -> None:
    asked = request(vgpu(1, percent=50), vgpu_memory_percentage_resource="")
    assert asked.memory_percent == 100


def test_what_was_understood_is_filled_in_and_stays() -> None:
    changes = accepted(a_pod(vgpu(None, 100))).changes
    amounts = {VGPU_NUMBER: "1", VGPU_MEMORY: "100"}
    assert changes["c0"].limits == changes["c0"].requests == amounts
    again = a_pod(a_container(amounts, amounts))
    assert accepted(again).changes == changes
    assert accepted(again).containers == accepted(a_pod(vgpu(None, 100))).containers


def test_init_containers_are_served_too() -> None:
    asked = accepted(a_pod(vgpu(1), init=(vgpu(1, 5),))).containers
    assert [(c.container, c.role.value) for c in asked] == [("init0", "init"), ("c0", "app")]


@pytest.mark.parametrize(
    ("policy", "weight", "keys", "from_the_end", "node"),
    [
        ("", 0, (), True, NodeOrder.BINPACK),
        ("binpack", 0, (CardKey.MOST_USED_MEMORY,), False, NodeOrder.BINPACK),
        ("spread", 0, (CardKey.FEWEST_SHARERS,), False, NodeOrder.BINPACK),
        ("spread", 1, (CardKey.FEWEST_SHARERS,), False, NodeOrder.SPREAD),
    ],
)
def test_the_policy_orders_cards_and_with_a_weight_nodes(
    policy: str, weight: int, keys: tuple[CardKey, ...], *, from_the_end: bool, node: NodeOrder
) -> None:
    got = request(vgpu(1), schedule_policy=policy, schedule_weight=weight).policy
    assert (got.cards, got.highest_index_first, got.node) == (keys, from_the_end, node)


@pytest.mark.parametrize(
    ("pod", "field", "value"),
    [
        pytest.param(a_pod(vgpu(None, cores=30)), VGPU_CORES, "30", id="cores-alone"),
        pytest.param(a_pod(vgpu(None, percent=30)), VGPU_PERCENT, "30", id="percentage-alone"),
        pytest.param(
            a_pod(a_container(requests={VGPU_MEMORY: 5})), VGPU_MEMORY, "5", id="memory-request"
        ),
        pytest.param(
            a_pod(a_container(requests={VGPU_NUMBER: 5})), VGPU_NUMBER, "5", id="number-request"
        ),
        pytest.param(
            a_pod(a_container({VGPU_NUMBER: 1, VGPU_CORES: 3}, {VGPU_CORES: 4})),
            VGPU_CORES,
            "4",
            id="request-differs",
        ),
        pytest.param(a_pod(vgpu(None, 0, 30)), VGPU_CORES, "30", id="cores-and-no-memory"),
        pytest.param(a_pod(vgpu(-1)), VGPU_NUMBER, "-1", id="negative-number"),
        pytest.param(a_pod(vgpu("1.5")), VGPU_NUMBER, "1.5", id="half-a-card"),
        pytest.param(a_pod(vgpu(1, -1)), VGPU_MEMORY, "-1", id="negative-memory"),
        pytest.param(a_pod(vgpu(1, "9E")), VGPU_MEMORY, "9E", id="overflow"),
        pytest.param(a_pod(vgpu(1, cores=101)), VGPU_CORES, "101", id="cores-over-100"),
        pytest.param(a_pod(vgpu(1, percent=101)), VGPU_PERCENT, "101", id="percent-over-100"),
        pytest.param(a_pod(vgpu(1, percent=0)), VGPU_PERCENT, "0", id="percent-0"),
    ],
)
def test_nonsense_is_refused_by_field_and_value(pod: Pod, field: str, value: str) -> None:
    answer = rejected(pod)
    assert field in answer.field
    assert answer.value == value
    assert answer.remedy


def test_gpushare_and_vgpu_in_one_pod_are_refused_naming_both() -> None:
    answer = rejected(a_pod(memory(1), vgpu(1)))
    assert "containers[1].resources.limits[volcano.sh/vgpu-number]" in answer.message
    assert "containers[0].resources.limits[volcano.sh/gpu-memory]" in answer.message


def test_a_number_of_0_requests_nothing_and_says_so() -> None:
    answer = accepted(a_pod(vgpu(0, 100)))
    assert answer.containers == ()
    assert "asks for no card" in answer.warnings[0]


def test_memory_next_to_a_percentage_is_reported() -> None:
    (warning,) = accepted(a_pod(vgpu(1, 100, percent=50))).warnings
    assert VGPU_PERCENT in warning


# -- annotations

USE, NOUSE = "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"
USE_ID, NOUSE_ID = "volcano.sh/vgpu-use-gpuuuid", "volcano.sh/vgpu-nouse-gpuuuid"


def fits(annotations: dict[str, str], *, model: str = "NVIDIA-x", id: str = "GPU-1") -> bool:
    node = a_vgpu_node(f"{id},10,1000,{model},true,hami-core:")
    (outcome,) = plan([a_pod(vgpu(1, 1), annotations=annotations)], [node])
    return outcome.verdict == "placed"


@pytest.mark.parametrize(
    ("annotations", "placed"),
    [
        pytest.param({USE: "NVIDIA"}, True, id="K1-same"),
        pytest.param({USE: "nvidia"}, True, id="K1-lower"),
        pytest.param({USE: "AMD,NVIDIA,INTEL"}, True, id="K1-among-others"),
        pytest.param({USE: "AMD,INTEL,MLU"}, False, id="K1-not-among-others"),
        pytest.param({NOUSE: "NVIDIA"}, False, id="K2-same"),
        pytest.param({NOUSE: "nvidia"}, False, id="K2-lower"),
        pytest.param({NOUSE: "AMD,NVIDIA,INTEL"}, False, id="K2-among-others"),
        pytest.param({NOUSE: "AMD,INTEL,MLU"}, True, id="K2-not-among-others"),
        pytest.param({USE: "NVIDIA", NOUSE: "NVIDIA"}, True, id="use-wins"),
        pytest.param({USE: "AMD,"}, False, id="an-empty-part-matches-nothing"),
        pytest.param({NOUSE: ""}, True, id="an-empty-list-denies-nothing"),
        pytest.param({USE_ID: "  "}, True, id="K3-blank"),
        pytest.param({USE_ID: ", ,"}, True, id="K3-commas"),
        pytest.param({USE_ID: "GPU-0,, GPU-1,"}, True, id="K4"),
        pytest.param({USE_ID: "GPU-10"}, False, id="K5"),
        pytest.param({USE_ID: "GPU-1", NOUSE_ID: "GPU-1"}, False, id="K7"),
        pytest.param({NOUSE_ID: "GPU-1"}, False, id="denied"),
        pytest.param({NOUSE_ID: "GPU-10"}, True, id="another-denied"),
    ],
)
def test_models_and_ids_are_chosen_by_annotation(
    annotations: dict[str, str], *, placed: bool
) -> None:
    assert fits(annotations) is placed


def test_a_card_without_an_id_is_no_card() -> None:
    # K6
    assert not fits({USE_ID: "GPU-1"}, id="")


@pytest.mark.parametrize(
    ("mode", "placed"),
    [pytest.param("hami-core", True, id="same"), pytest.param("mig", False, id="J19")],
)
def test_the_mode_must_be_that_of_the_card(mode: str, *, placed: bool) -> None:
    assert fits({"volcano.sh/vgpu-mode": mode}) is placed


def test_a_mig_instance_is_not_promised() -> None:
    answer = accepted(a_pod(vgpu(1), annotations={"volcano.sh/vgpu-mode": "mig"}))
    assert "MIG" in answer.warnings[0]


@pytest.mark.parametrize("mode", ["mps", "", "HAMI-CORE", "time-slicing"])
def test_a_mode_that_no_card_can_have_is_refused(mode: str) -> None:
    answer = rejected(a_pod(vgpu(1), annotations={"volcano.sh/vgpu-mode": mode}))
    assert answer.field == "metadata.annotations[volcano.sh/vgpu-mode]"
    assert "hami-core" in answer.remedy


def test_a_list_that_is_not_followed_is_reported() -> None:
    answer = accepted(a_pod(vgpu(1), annotations={USE: "A100", NOUSE: "P4"}))
    assert NOUSE in answer.warnings[0]
