"""What a container writes comes to so much of each of so many cards."""

from __future__ import annotations

from itertools import combinations

import pytest

from tessera_core.dialect_kit.contract import Admitted, Rejected
from tessera_schema.requests import CardKey, Choice, NodeOrder, Request
from tests.dialects.koordinator.spoken import KOORDINATOR, NAMES, a_koord_pod, amounts

GI = 1 << 30


def the_request(text: str) -> Request:
    answer = KOORDINATOR.admit(a_koord_pod(text))
    assert isinstance(answer, Admitted), answer
    ((request,),) = [c.requests for c in answer.containers]
    return request


def refusal(text: str) -> Rejected:
    answer = KOORDINATOR.admit(a_koord_pod(text))
    assert isinstance(answer, Rejected), answer
    return answer


@pytest.mark.parametrize(
    ("text", "count", "cores", "ratio", "memory"),
    [
        pytest.param("gpu=50", 1, 50, 50, 0, id="A1"),
        pytest.param("gpu=100", 1, 100, 100, 0, id="one-card-by-gpu"),
        pytest.param("gpu=300", 3, 100, 100, 0, id="three-cards-by-gpu"),
        pytest.param("ratio=1", 1, 0, 1, 0, id="A7-1"),
        pytest.param("ratio=50", 1, 0, 50, 0, id="A7-50"),
        pytest.param("core=50 ratio=50", 1, 50, 50, 0, id="A12"),
        pytest.param("core=200 ratio=200", 2, 100, 100, 0, id="A13"),
        pytest.param("core=50 ratio=200", 2, 25, 100, 0, id="A14"),
        pytest.param("core=200 mem=16Gi", 2, 100, 0, 8 * GI, id="A17-with-the-webhooks-rescue"),
        pytest.param("core=50 mem=16Gi", 1, 50, 0, 16 * GI, id="cores-and-bytes"),
        pytest.param("mem=8Gi", 1, 0, 0, 8 * GI, id="bytes-alone"),
        pytest.param("mem=8000M", 1, 0, 0, 8_000_000_000, id="decimal-bytes"),
        pytest.param("sh=2 ratio=200", 2, 0, 100, 0, id="A23"),
        pytest.param("sh=3 ratio=99", 3, 0, 33, 0, id="A25-99"),
        pytest.param("sh=1 ratio=100", 1, 0, 100, 0, id="A26-100"),
        pytest.param("sh=3 mem=10Gi", 3, 0, 0, 3579139413, id="A28"),
        pytest.param("sh=0 ratio=50", 1, 0, 50, 0, id="A30"),
        pytest.param("sh=1 core=50 ratio=33", 1, 50, 33, 0, id="A38"),
        pytest.param("sh=2 core=100 ratio=100", 2, 50, 50, 0, id="halves-of-two"),
        pytest.param("sh=2 core=0 mem=16Gi", 2, 0, 0, 8 * GI, id="zero-is-as-if-not-written"),
        pytest.param("nv=2", 2, 100, 100, 0, id="B8-nvidia"),
    ],
)
def test_amounts_are_spread_over_the_cards(
    text: str, count: int, cores: int, ratio: int, memory: int
) -> None:
    request = the_request(text)
    assert request.count == count
    assert request.cores_percent == cores
    assert (request.memory_percent, request.memory_bytes) == (ratio, memory)
    assert request.memory_unit == 1
    assert not request.needs_free_cores


@pytest.mark.parametrize(
    ("text", "exclusive"),
    [
        pytest.param("gpu=50", False, id="A1"),
        pytest.param("ratio=50", False, id="A7"),
        pytest.param("core=200 ratio=200", True, id="A13"),
        pytest.param("core=50 ratio=200", True, id="A14"),
        pytest.param("core=200 mem=16Gi", False, id="A17"),
        pytest.param("sh=2 ratio=200", True, id="A23"),
        pytest.param("sh=3 ratio=99", False, id="A25"),
        pytest.param("sh=1 ratio=100", True, id="A26"),
        pytest.param("sh=1 mem=24Gi", False, id="bytes-are-always-a-share"),
        pytest.param("sh=1 core=100 ratio=50", False, id="cores-do-not-matter"),
        pytest.param("nv=1", True, id="whole-cards"),
    ],
)
def test_all_of_a_cards_memory_in_percent_is_exclusive(*, text: str, exclusive: bool) -> None:
    assert the_request(text).exclusive is exclusive


@pytest.mark.parametrize(
    ("text", "field", "says"),
    [
        pytest.param("ratio=101", "ratio", "multiple of 100", id="A9-101"),
        pytest.param("ratio=150", "ratio", "Write 200", id="A9-150"),
        pytest.param("core=150 ratio=200", "core", "multiple of 100", id="A16"),
        pytest.param("sh=3 ratio=100", "ratio", "such as 102", id="A25-100"),
        pytest.param("sh=1 ratio=101", "ratio", "at most 100", id="A26-101"),
        pytest.param("nv=1 ratio=100", "nv", "whole cards", id="A34-nv"),
        pytest.param("gpu=100 sh=1", "gpu", "alone", id="A34-gpu"),
        pytest.param("gpu=150", "gpu", "multiple of 100", id="gpu-150"),
        pytest.param("core=50", "core", "gpu-memory-ratio", id="cores-alone"),
        pytest.param("sh=1", "sh", "gpu-memory-ratio", id="shared-alone"),
        pytest.param("mem=4Gi ratio=50", "ratio", "keep one", id="memory-twice"),
        pytest.param("core=50 ratio=300", "core", "number of cards (3)", id="50-over-three-cards"),
        pytest.param("core=200 ratio=50", "core", "at most 100", id="cores-of-two-memory-of-one"),
        pytest.param("sh=2 mem=1", "mem", "1 is 1 byte: write 1Mi if MiB", id="a-byte"),
        pytest.param("mem=8192", "mem", "write 8Gi or 8192Mi if MiB were meant", id="MiB-meant"),
        pytest.param("sh=2 mem=8000", "mem", "write 8000Mi if MiB were meant", id="no-whole-GiB"),
        pytest.param("sh=2 mem=1Mi", "mem", "for 2 cards: write 2Mi or more", id="half-each"),
        pytest.param("mem=512Ki", "mem", "is 524288 bytes: write 1Mi or more", id="too-little"),
        pytest.param("sh=2 mem=9Ti", "mem", "no 2 cards have that much. Write at most 8Ti",
                     id="more-bytes-than-two-cards"),
        pytest.param("ratio=-1", "ratio", "0 or more", id="negative"),
        pytest.param("core=500m ratio=1", "core", "whole number", id="fractional"),
        pytest.param("ratio=99999999999", "ratio", "at most", id="overflow"),
        pytest.param("mem=9Pi", "mem", "at most", id="more-bytes-than-any-card"),
        pytest.param("mem=lots", "mem", "not a quantity", id="no-quantity"),
        pytest.param("sh=1 ratio=50 huawei.com/npu-core=8", "huawei.com/npu-core", "NVIDIA",
                     id="other-vendor"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_field_value_and_remedy(
    text: str, field: str, says: str
) -> None:
    rejected = refusal(text)
    name = NAMES.get(field, field)
    assert rejected.field == f"spec.containers[0].resources.limits[{name}]"
    assert rejected.value == amounts(text)[name]
    assert says in rejected.remedy


@pytest.mark.parametrize("size", range(1, 7))
def test_exactly_ten_of_the_63_sets_of_names_are_valid(size: int) -> None:
    one_of_each = {"nv": "1", "gpu": "100", "sh": "1", "core": "50", "mem": "4Gi", "ratio": "50"}
    valid = {
        chosen
        for chosen in combinations(one_of_each, size)
        if isinstance(
            KOORDINATOR.admit(a_koord_pod(" ".join(f"{n}={one_of_each[n]}" for n in chosen))),
            Admitted,
        )
    }
    ten = (
        ("nv",), ("gpu",), ("mem",), ("ratio",), ("core", "mem"), ("core", "ratio"),
        ("sh", "mem"), ("sh", "ratio"), ("sh", "core", "mem"), ("sh", "core", "ratio"),
    )  # fmt: skip
    assert valid == {chosen for chosen in ten if len(chosen) == size}


@pytest.mark.parametrize("text", [pytest.param("gpu=0", id="A5"), "ratio=0 core=0", "nv=0"])
def test_an_amount_of_nothing_requests_nothing(text: str) -> None:
    answer = KOORDINATOR.admit(a_koord_pod(text))
    assert isinstance(answer, Admitted)
    assert not answer.containers
    assert not answer.changes


def test_the_strategy_orders_nodes_and_cards() -> None:
    policy = the_request("ratio=50").policy
    assert policy.node is NodeOrder.LEAST_ALLOCATED
    assert policy.cards == (CardKey.LEAST_ALLOCATED,)
    assert policy.choice is Choice.SCOPES


def test_limits_that_differ_from_requests_are_refused() -> None:
    pod = a_koord_pod("ratio=50")
    pod.spec.containers[0].resources.requests[NAMES["ratio"]] = "40"
    answer = KOORDINATOR.admit(pod)
    assert isinstance(answer, Rejected)
    assert answer.field == f"spec.containers[0].resources.requests[{NAMES['ratio']}]"
    assert "50" in answer.remedy
