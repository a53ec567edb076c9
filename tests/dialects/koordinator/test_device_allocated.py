"""The result annotation, byte for byte, and what a pod that carries one holds."""

from __future__ import annotations

import pytest

from tessera_core.dialect_kit.contract import Placed
from tessera_core.dialects.koordinator.recorded_shares import (
    CardAmounts,
    DeviceAllocation,
    allocation,
    encode,
    percent_of,
)
from tessera_schema.cards import Card
from tessera_schema.grants import Share
from tessera_schema.kube import Pod
from tessera_schema.requests import Role
from tessera_testing.builders import a_card, a_node, a_pod
from tessera_testing.plan import plan
from tests.dialects.koordinator.spoken import (
    ALLOCATED,
    HALF,
    KOORDINATOR,
    NAMES,
    UUIDS,
    a_device,
    a_koord_pod,
    devices,
    flat,
    needs,
)

GI = 1 << 30
MI = 1 << 20


def written(text: str, *memory: str) -> str:
    """The annotation of one pod on a node with such cards."""
    cards = devices(*(a_device(i, m) for i, m in enumerate(memory)))
    (outcome,) = plan([a_koord_pod(text)], [a_node()], customs=[cards])
    return outcome.annotations[ALLOCATED]


@pytest.mark.parametrize(
    ("asked", "total", "ratio"),
    [
        pytest.param("11520Mi", "23040Mi", "50", id="C2"),
        pytest.param("1Gi", "80Gi", "1", id="C4"),
        pytest.param("16Gi", "24Gi", "66", id="C8"),
        pytest.param("23Gi", "24Gi", "95", id="C10"),
        pytest.param("29Gi", "100Gi", "28", id="C12"),
        pytest.param("57Gi", "100Gi", "56", id="C13"),
        pytest.param("24Gi", "24Gi", "100", id="C14"),
        pytest.param("100Mi", "80Gi", "0", id="less-than-a-percent"),
    ],
)
def test_bytes_become_a_percent_that_is_rounded_down(asked: str, total: str, ratio: str) -> None:
    assert written(f"mem={asked}", total) == (
        f'{{"gpu":[{{"minor":0,"resources":{{"koordinator.sh/gpu-memory":"{asked}",'
        f'"koordinator.sh/gpu-memory-ratio":"{ratio}"}}}}]}}'
    )


@pytest.mark.parametrize(
    ("ratio", "total", "memory"),
    [
        pytest.param(50, "83201216Ki", "41600608Ki", id="C16"),
        pytest.param(33, "24Gi", "8504035246", id="C18"),
        pytest.param(33, "16384Mi", "5669356830", id="C22"),
        pytest.param(50, "23040Mi", "11520Mi", id="seed"),
        pytest.param(100, "80Gi", "80Gi", id="whole"),
    ],
)
def test_a_percent_becomes_bytes_that_are_rounded_down(ratio: int, total: str, memory: str) -> None:
    assert written(f"sh=1 ratio={ratio}", total) == (
        f'{{"gpu":[{{"minor":0,"resources":{{"koordinator.sh/gpu-memory":"{memory}",'
        f'"koordinator.sh/gpu-memory-ratio":"{ratio}"}}}}]}}'
    )


def test_the_seeds_pod_gets_the_seeds_annotation() -> None:
    cards = devices(a_device(0, "23040Mi", health=False), a_device(1, "23040Mi"))
    (outcome,) = plan([a_koord_pod(HALF, isolation="hami-core")], [a_node()], customs=[cards])
    assert outcome.annotations[ALLOCATED] == (
        '{"gpu":[{"minor":1,"resources":{"koordinator.sh/gpu-core":"50",'
        '"koordinator.sh/gpu-memory":"11520Mi","koordinator.sh/gpu-memory-ratio":"50"}}]}'
    )


@pytest.mark.parametrize(
    "text", [pytest.param("nv=2", id="I1"), "gpu=200", "sh=2 core=200 ratio=200"]
)
def test_two_whole_cards_with_their_ids(text: str) -> None:
    cards = devices(*(a_device(i, "16Gi", id=UUIDS[i]) for i in range(2)))
    (outcome,) = plan([a_koord_pod(text)], [a_node()], customs=[cards])
    assert outcome.annotations[ALLOCATED] == (
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100",'
        '"koordinator.sh/gpu-memory":"16Gi","koordinator.sh/gpu-memory-ratio":"100"},'
        '"id":"GPU-8c25ea37-2909-6e62-b7bf-e2fcadebea8d"},'
        '{"minor":1,"resources":{"koordinator.sh/gpu-core":"100",'
        '"koordinator.sh/gpu-memory":"16Gi","koordinator.sh/gpu-memory-ratio":"100"},'
        '"id":"GPU-befd76c3-8a36-7b8a-179c-eae75aa7d9f2"}]}'
    )


@pytest.mark.parametrize("_case", [pytest.param(0, id="I4")])
def test_an_allocation_without_resources_says_null(_case: int) -> None:
    assert encode({"gpu": [DeviceAllocation(0, None)]}) == '{"gpu":[{"minor":0,"resources":null}]}'


def test_types_and_resources_are_in_alphabetical_order() -> None:
    gpu = allocation(CardAmounts(minor=2, cores_percent=5, memory_bytes=1, memory_percent=1))
    nic = DeviceAllocation(1, {"koordinator.sh/rdma": "100"}, "0000:1f:00.0")
    assert encode({"rdma": [nic], "gpu": [gpu]}) == (
        '{"gpu":[{"minor":2,"resources":{"koordinator.sh/gpu-core":"5",'
        '"koordinator.sh/gpu-memory":"1","koordinator.sh/gpu-memory-ratio":"1"}}],'
        '"rdma":[{"minor":1,"resources":{"koordinator.sh/rdma":"100"},"id":"0000:1f:00.0"}]}'
    )


def test_entries_stand_in_the_order_of_choice() -> None:
    cards = {f"card-{i}": a_card(f"card-{i}", i, mib=16384, vendor="nvidia") for i in range(4)}
    chosen = tuple(
        Share(container="c0", position=0, vendor="nvidia", dialect="koordinator", card=f"card-{i}",
              index=i, memory_bytes=8 * GI, cores_percent=50)
        for i in (3, 0)
    )  # fmt: skip
    pod = a_koord_pod("sh=2 core=100 ratio=100")
    placed = Placed(pod=pod, node="n1", shares=chosen, cards=cards, now_ns=0)
    text = KOORDINATOR.annotate(placed)[ALLOCATED]
    assert text.index('"minor":3') < text.index('"minor":0')


def test_nothing_placed_is_nothing_written() -> None:
    placed = Placed(pod=a_koord_pod("gpu=0"), node="n1", shares=(), cards={}, now_ns=0)
    assert not KOORDINATOR.annotate(placed)


@pytest.mark.parametrize(("part", "total", "percent"), [(0, 0, 0), (5, 0, 0), (1, 3, 33)])
def test_percent_of_a_card_without_memory_is_nothing(part: int, total: int, percent: int) -> None:
    assert percent_of(part, total) == percent


CARDS = (
    a_card("GPU-a", 0, mib=24 * 1024, vendor="nvidia"),
    a_card("GPU-b", 1, mib=32 * 1024, vendor="nvidia", minor=5),
    a_card("other", 0, vendor="acme"),
)


def carrying(annotation: str, *texts: str) -> Pod:
    return a_koord_pod(*(texts or (HALF,)), annotations={ALLOCATED: annotation}, node="n1")


@pytest.mark.parametrize(
    ("resources", "memory", "cores"),
    [
        pytest.param(
            '"koordinator.sh/gpu-core":"50","koordinator.sh/gpu-memory":"12Gi",'
            '"koordinator.sh/gpu-memory-ratio":"50"', 12 * GI, 50, id="as-written-today",
        ),
        pytest.param(
            '"koordinator.sh/gpu-core":50,"koordinator.sh/gpu-memory":12884901888,'
            '"koordinator.sh/gpu-memory-ratio":50', 12 * GI, 50, id="numbers",
        ),
        pytest.param(
            '"kubernetes.io/gpu-core":"50","kubernetes.io/gpu-memory":"12Gi",'
            '"kubernetes.io/gpu-memory-ratio":"50"', 12 * GI, 50, id="deprecated-names",
        ),
        pytest.param('"koordinator.sh/gpu-memory-ratio":"33"', 8504035246, 0, id="ratio-only"),
        pytest.param('"koordinator.sh/gpu-memory":"100Mi"', 100 * MI, 0, id="bytes-only"),
        pytest.param(
            '"koordinator.sh/gpu-memory":"100Mi","koordinator.sh/gpu-memory-ratio":"0"',
            100 * MI, 0, id="less-than-a-percent",
        ),
    ],
)  # fmt: skip
def test_a_bound_pod_holds_what_its_annotation_says(
    resources: str, memory: int, cores: int
) -> None:
    pod = carrying(f'{{"gpu":[{{"minor":0,"resources":{{{resources}}}}}]}}')
    held = KOORDINATOR.recorded(pod, CARDS)
    assert held is not None
    assert not held.problem
    (share,) = held.shares
    assert (share.card, share.container, share.position) == ("GPU-a", "c0", 0)
    assert (share.memory_bytes, share.cores_percent) == (memory, cores)
    assert not share.exclusive


@pytest.mark.parametrize("_case", [pytest.param(0, id="C24")])
def test_bytes_and_percent_that_disagree_charge_the_larger(_case: int) -> None:
    pod = carrying(
        '{"gpu":[{"minor":5,"resources":{"koordinator.sh/gpu-memory":"16Gi",'
        '"koordinator.sh/gpu-memory-ratio":"60"}}]}'
    )
    held = KOORDINATOR.recorded(pod, CARDS)
    assert held is not None
    assert held.shares[0].memory_bytes == 60 * 32 * GI // 100
    assert held.shares[0].card == "GPU-b"


def test_all_of_a_card_in_percent_is_taken_alone() -> None:
    pod = carrying('{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-memory-ratio":"100"}}]}')
    held = KOORDINATOR.recorded(pod, CARDS)
    assert held is not None
    assert held.shares[0].exclusive


def test_an_id_says_more_than_a_minor() -> None:
    pod = carrying(
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-memory":"1Gi"},"id":"GPU-b"}]}'
    )
    held = KOORDINATOR.recorded(pod, CARDS)
    assert held is not None
    assert held.shares[0].card == "GPU-b"


def test_the_first_app_container_that_requests_stands_for_the_pod() -> None:
    pod = a_pod(
        needs("cpu=1"), needs(HALF), init=(needs(HALF),), node="n1",
        annotations={ALLOCATED: '{"gpu":[{"minor":0,"resources":'
                                '{"koordinator.sh/gpu-memory-ratio":"50"}}]}'},
    )  # fmt: skip
    held = KOORDINATOR.recorded(pod, CARDS)
    assert held is not None
    assert [(s.container, s.position, s.role) for s in held.shares] == [("c1", 2, Role.APP)]


@pytest.mark.parametrize(
    ("annotation", "says"),
    [
        ("", "device-allocated"),
        ("{", "device-allocated"),
        ("[]", "device-allocated"),
        ('{"gpu":{}}', "device-allocated"),
        ('{"gpu":[{"minor":0,"resources":null}]}', "no amount of memory"),
        ('{"gpu":[{"minor":9,"resources":{"koordinator.sh/gpu-memory":"1Gi"}}]}', "minor 9"),
        ('{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-memory":"1Q"}}]}', "1Q"),
        ('{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-memory":true}}]}', "True"),
        ('{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-memory-ratio":"-5"}}]}', "-5"),
        ('{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-memory-ratio":"200"}}]}', "200"),
        ('{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-memory":["1"]}}]}', "gpu-memory"),
    ],
)
def test_an_annotation_that_cannot_be_counted_is_a_problem(annotation: str, says: str) -> None:
    held = KOORDINATOR.recorded(carrying(annotation), CARDS)
    assert held is not None
    assert not held.shares
    assert says in held.problem
    assert ALLOCATED in held.problem


@pytest.mark.parametrize(
    "annotation",
    ["{}", '{"gpu":null}', '{"gpu":[]}', '{"rdma":[{"minor":1,"resources":{"x/y":"1"}}]}'],
)
def test_an_annotation_without_cards_holds_nothing(annotation: str) -> None:
    assert KOORDINATOR.recorded(carrying(annotation), CARDS) is None
    assert KOORDINATOR.recorded(a_koord_pod(HALF, node="n1"), CARDS) is None


def test_what_is_written_is_read_back() -> None:
    device = flat(2, "83201216Ki")
    (outcome,) = plan([a_koord_pod("sh=2 core=60 ratio=66")], [a_node()], customs=[device])
    assert outcome.grant is not None
    pod = carrying(outcome.annotations[ALLOCATED], "sh=2 core=60 ratio=66")
    cards = [
        Card(id=s.card, index=s.index, vendor="nvidia", memory_bytes=83201216 * 1024)
        for s in outcome.grant.shares
    ]
    held = KOORDINATOR.recorded(pod, cards)
    assert held is not None
    assert held.shares == outcome.grant.shares
    assert NAMES["core"] in outcome.annotations[ALLOCATED]
