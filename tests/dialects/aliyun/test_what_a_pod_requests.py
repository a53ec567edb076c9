"""Units of memory and percent of compute become requests, and what can never run is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tessera_core.registry.registry import load
from tessera_schema.kube import Container
from tessera_schema.requests import CardKey, NodeOrder
from tessera_schema.verdicts import Verdict
from tessera_testing.builders import a_container, a_pod
from tessera_testing.plan import plan
from tests.dialects.aliyun.setting import (
    CORE,
    COUNT,
    GIB,
    MEMORY,
    a_gpu_node,
    accepted,
    asking,
    made,
    rejected,
)

MIB_UNITS = {"memory_unit": "MiB"}
Amounts = tuple[str, int, int, float, bool]

ADMITTED = [
    pytest.param([asking(3)], {}, {}, [("c0", 1, 3 * GIB, 0, True)], id="GiB of one card"),
    pytest.param([asking("3")], {}, {}, [("c0", 1, 3 * GIB, 0, True)], id="an amount as text"),
    pytest.param([asking(2048)], {}, MIB_UNITS, [("c0", 1, 2 * GIB, 0, True)], id="units of MiB"),
    pytest.param(
        [asking(1), asking(7)], {}, {},
        [("c0", 1, GIB, 0, True), ("c1", 1, 7 * GIB, 0, True)],
        id="all containers of a pod live on one card",
    ),
    pytest.param([asking(0)], {}, {}, [], id="0 asks for nothing"),
    pytest.param([asking(0), asking(4)], {}, {}, [("c1", 1, 4 * GIB, 0, True)], id="one of two"),
    pytest.param([asking(6, 30)], {}, {}, [("c0", 1, 6 * GIB, 30, True)], id="memory and compute"),
    pytest.param([asking(6, 5)], {}, {}, [("c0", 1, 6 * GIB, 5, True)], id="the least compute"),
    pytest.param([asking(6, 100)], {}, {}, [("c0", 1, 6 * GIB, 100, True)], id="all compute"),
    pytest.param([asking(6, 0)], {}, {}, [("c0", 1, 6 * GIB, 0, True)], id="no compute"),
    pytest.param(
        [asking(8)], {COUNT: "2"}, {}, [("c0", 2, 4 * GIB, 0, False)], id="8 GiB over two cards"
    ),
    pytest.param(
        [asking(8, 40)], {COUNT: "2"}, {}, [("c0", 2, 4 * GIB, 20, False)],
        id="compute over two cards",
    ),
    pytest.param([asking(8)], {COUNT: "1"}, {}, [("c0", 1, 8 * GIB, 0, True)], id="over one card"),
    pytest.param([asking(8)], {COUNT: "0"}, {}, [("c0", 1, 8 * GIB, 0, True)], id="0 is one card"),
    pytest.param(
        [a_container({"example.com/mem": 2})], {}, {"memory": "example.com/mem"},
        [("c0", 1, 2 * GIB, 0, True)],
        id="another name",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("containers", "labels", "options", "requests"), ADMITTED)
def test_it_is_admitted(
    containers: Sequence[Container],
    labels: dict[str, str],
    options: dict[str, Any],
    requests: list[Amounts],
) -> None:
    admitted = accepted(a_pod(*containers, labels=labels), **options)
    assert [
        (c.container, r.count, r.memory_bytes, r.cores_percent, r.together)
        for c in admitted.containers
        for r in c.requests
    ] == requests


REFUSED = [
    pytest.param(
        [asking("1.5")], {}, {},
        "spec.containers[0].resources.limits[aliyun.com/gpu-mem]: 1.5: write a whole number such "
        "as 2. This resource counts GiB. Write at most 4096; if MiB were meant, 1, rounded up.",
        id="half a GiB",
    ),
    pytest.param(
        [asking("8Gi")], {}, {},
        "spec.containers[0].resources.limits[aliyun.com/gpu-mem]: 8Gi: 8Gi is 8589934592: this "
        "resource counts GiB, and no card has that much. For 8 GiB write 8.",
        id="bytes where GiB are counted",
    ),
    pytest.param(
        [asking(-1)], {}, {},
        "spec.containers[0].resources.limits[aliyun.com/gpu-mem]: -1: write 0 or more. This "
        "resource counts GiB, so 16 GiB is 16.",
        id="less than nothing",
    ),
    pytest.param(
        [asking(None, 20)], {}, {},
        "spec.containers[0].resources.limits[aliyun.com/gpu-core.percentage]: 20: compute alone "
        "gives no card: add limits[aliyun.com/gpu-mem] (GiB).",
        id="compute alone",
    ),
    pytest.param(
        [asking(4, 12)], {}, {},
        "spec.containers[0].resources.limits[aliyun.com/gpu-core.percentage]: 12: is given in "
        "steps of 5 percent: write a multiple of 5, such as 15.",
        id="no step of compute",
    ),
    pytest.param(
        [asking(4, 105)], {}, {},
        "spec.containers[0].resources.limits[aliyun.com/gpu-core.percentage]: 105: write at most "
        "100. It counts percent of a card's compute, in steps of 5.",
        id="more compute than a card has",
    ),
    pytest.param(
        [asking(4), asking(4, 20)], {}, {},
        "spec.containers[1].resources.limits[aliyun.com/gpu-core.percentage]: 20: container c0 "
        "names memory alone: name aliyun.com/gpu-core.percentage in all containers that have "
        "cards, or in none.",
        id="two kinds in one pod",
    ),
    pytest.param(
        [asking(9)], {COUNT: "2"}, {},
        "spec.containers[0].resources.limits[aliyun.com/gpu-mem]: 9: is divided over 2 cards "
        "(aliyun.com/gpu-count): write a multiple of 2, such as 10.",
        id="what cannot be divided",
    ),
    pytest.param(
        [asking(8, 25)], {COUNT: "2"}, {},
        "spec.containers[0].resources.limits[aliyun.com/gpu-core.percentage]: 25: is given in "
        "steps of 5 percent over 2 cards: write a multiple of 10, such as 30.",
        id="compute that cannot be divided",
    ),
    pytest.param(
        [asking(8)], {COUNT: "two"}, {},
        "metadata.labels[aliyun.com/gpu-count]: two: write a number of cards from 1 to 64, or "
        "leave it out for one card.",
        id="no number of cards",
    ),
    pytest.param(
        [asking(8)], {COUNT: "-1"}, {},
        "metadata.labels[aliyun.com/gpu-count]: -1: write a number of cards from 1 to 64, or "
        "leave it out for one card.",
        id="a negative number of cards",
    ),
    pytest.param(
        [a_container({}, {MEMORY: 3})], {}, {},
        "spec.containers[0].resources.requests[aliyun.com/gpu-mem]: 3: write it under limits: "
        "requests alone give no card, and Kubernetes refuses them.",
        id="requests alone",
    ),
    pytest.param(
        [a_container({MEMORY: 3}, {MEMORY: 2})], {}, {},
        "spec.containers[0].resources.requests[aliyun.com/gpu-mem]: 2: must equal the limit 3; "
        "write the same in both.",
        id="requests that differ",
    ),
    pytest.param(
        [asking(5 << 22)], {}, MIB_UNITS,
        "spec.containers[0].resources.limits[aliyun.com/gpu-mem]: 20971520: this resource counts "
        "MiB, and no card has that much. Write at most 4194304; if bytes were meant, 20.",
        id="more MiB than a card has",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("containers", "labels", "options", "message"), REFUSED)
def test_it_is_refused(
    containers: Sequence[Container], labels: dict[str, str], options: dict[str, Any], message: str
) -> None:
    assert rejected(a_pod(*containers, labels=labels), **options).message == message


def test_init_containers_are_served_too() -> None:
    admitted = accepted(a_pod(asking(2), init=(asking(4),)))
    assert [(c.container, c.role) for c in admitted.containers] == [
        ("init0", "init"),
        ("c0", "app"),
    ]


def test_limits_and_requests_become_equal() -> None:
    changes = accepted(a_pod(asking("4", "20"))).changes
    assert changes["c0"].requests == {MEMORY: "4", CORE: "20"}
    assert changes["c0"].limits == {}
    whole = {MEMORY: "4", CORE: "20"}
    assert accepted(a_pod(a_container(whole, whole))).changes == {}


@pytest.mark.parametrize(
    ("placement", "node", "card"),
    [
        ("binpack", NodeOrder.BINPACK, CardKey.MOST_USED_MEMORY),
        ("spread", NodeOrder.SPREAD, CardKey.FEWEST_SHARERS),
    ],
)
def test_the_placement_is_configured(placement: str, node: NodeOrder, card: CardKey) -> None:
    (container,) = accepted(a_pod(asking(1)), placement=placement).containers
    policy = container.requests[0].policy
    assert (policy.node, policy.cards) == (node, (card,))


def test_a_whole_device_is_not_promised() -> None:
    pod = a_pod(asking(1), labels={"ack.gpushare.placement": "require-whole-device"})
    assert accepted(pod).warnings == (
        "metadata.labels[ack.gpushare.placement]: require-whole-device: not used: a card that "
        "other pods use may be given",
    )


def test_several_containers_on_several_cards_are_warned_of() -> None:
    assert accepted(a_pod(asking(2), asking(2), labels={COUNT: "2"})).warnings == (
        "metadata.labels[aliyun.com/gpu-count]: 2: each of the 2 containers gets 2 cards, which "
        "need not be the same",
    )


@pytest.mark.parametrize(
    "options", [{"memory": ""}, {"core": "aliyun.com/gpu-mem"}, {"memory_unit": "GB"}, {"gib": 1}]
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"name|twice|GB|gib"):
        made(**options)


@pytest.mark.parametrize(
    ("unit", "total", "free", "asks", "card"),
    [
        pytest.param("MiB", 16276, (12207, 8138, 4069, 16276), 8138, 1, id="G20"),
        pytest.param("GiB", 15, (15, 15), 3, 0, id="G21"),
        pytest.param("GiB", 15, (5, 3), 4, 0, id="G22"),
        pytest.param("GiB", 15, (2, 2), 3, None, id="G23"),
        pytest.param("GiB", 15, (8, 8, 3), 3, 2, id="G24"),
    ],
)
def test_the_smallest_card_that_has_room_is_taken(
    unit: str, total: int, free: Sequence[int], asks: int, card: int | None
) -> None:
    running = [
        a_pod(asking(total - left), name=f"r{i}", uid=f"r{i}", node="n1", annotations={
            "ALIYUN_COM_GPU_MEM_IDX": str(i),
            "ALIYUN_COM_GPU_MEM_POD": str(total - left),
        })
        for i, left in enumerate(free) if left < total
    ]  # fmt: skip
    node = a_gpu_node(total * len(free), len(free))
    config = {"aliyun": {"memory_unit": unit}}
    (outcome,) = plan([a_pod(asking(asks), uid="u")], [node], bound=running, config=config)
    assert (outcome.grant.shares[0].index if outcome.grant else None) == card


def test_pods_fill_a_card_before_the_next() -> None:
    pods = [a_pod(asking(n), name=f"p{n}", uid=f"p{n}") for n in (10, 6, 5, 8)]
    planned = plan(pods, [a_gpu_node(30, 2)])
    assert [o.grant.shares[0].index for o in planned if o.grant] == [0, 1, 0, 1]
    (late,) = plan([*pods, a_pod(asking(2), name="late", uid="late")], [a_gpu_node(30, 2)])[4:]
    assert late.verdict is Verdict.WAITING
    assert late.reasons[0].message == (
        "2/2 CardInsufficientMemory: c0 asks 2048 MiB of a card, the freest of these has "
        "1024 MiB of 15360 MiB"
    )


def test_another_dialect_for_the_same_vendor_is_refused() -> None:
    both = a_container({MEMORY: 4, "nvidia.com/gpumem": 3000})
    (outcome,) = plan([a_pod(both)], [a_gpu_node(30, 2)])
    assert outcome.verdict is Verdict.REJECTED
    assert "a pod asks for one vendor's cards in one dialect" in outcome.message


def test_it_can_be_switched_off() -> None:
    config = {"aliyun": {"enabled": False}}
    (outcome,) = plan([a_pod(asking(4))], [a_gpu_node(30, 2)], config=config)
    assert outcome.verdict is Verdict.IGNORED
    assert outcome.message == "asks for accelerators in dialect aliyun, which is switched off"
    assert load(config).readers["aliyun"].inventory(a_gpu_node(30, 2), ())
