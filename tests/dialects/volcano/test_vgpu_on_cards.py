"""vgpu on the cards of a node (cases J, K13, K14, K17)."""

from __future__ import annotations

from typing import Any

import pytest

from tessera_schema.annotation_keys import CARDS_PREFIX
from tessera_schema.cards import MIB
from tessera_schema.kube import Container, Node, Pod
from tessera_schema.node_cards import NodeCardsAnnotation, encode_node_cards
from tessera_schema.quotas import Limit
from tessera_testing.builders import a_card, a_container, a_node, a_pod
from tessera_testing.plan import plan
from tests.dialects.volcano.setting import (
    IDS,
    P4,
    a_bound_pod,
    a_registered_node,
    a_vgpu_node,
    cards_of,
    vgpu,
)

NODE = a_vgpu_node()
ONE_SLOT_OF_A = a_bound_pod(vgpu(1, 1), ids="GPU-a,NVIDIA,1,0:", name="a1")
ONE_SLOT_OF_B = a_bound_pod(vgpu(1, 1), ids="GPU-b,NVIDIA,1,0:", name="b1")
HALF_A = a_bound_pod(vgpu(1, 1, 50), ids="GPU-a,NVIDIA,1,50:", name="a50")
HALF_B = a_bound_pod(vgpu(1, 1, 50), ids="GPU-b,NVIDIA,1,50:", name="b50")
ALL_B = a_bound_pod(vgpu(1, 1, 100), ids="GPU-b,NVIDIA,1,100:", name="b100")
B_UNHEALTHY = f"GPU-a,10,11178,{P4},true,hami-core:GPU-b,10,11178,{P4},false,hami-core:"
SPREAD: dict[str, Any] = {"schedule_policy": "spread"}
BINPACK: dict[str, Any] = {"schedule_policy": "binpack"}


@pytest.mark.parametrize(
    ("containers", "bound", "options", "ids"),
    [
        pytest.param([vgpu(1)], [], {}, "GPU-b,NVIDIA,11178,0:", id="J1"),
        pytest.param([vgpu(3)], [], {}, None, id="J6"),
        pytest.param(
            [vgpu(1, 100), a_container(), vgpu(1, 200)], [], {},
            "GPU-b,NVIDIA,100,0:;GPU-b,NVIDIA,200,0:", id="J9",
        ),
        pytest.param(
            [vgpu(1, 100, 100)], [ONE_SLOT_OF_B], {}, "GPU-a,NVIDIA,100,100:", id="J11"
        ),
        pytest.param([vgpu(1, 100, 0)], [ALL_B], {}, "GPU-a,NVIDIA,100,0:", id="J12"),
        pytest.param([vgpu(1, 100, 60)], [HALF_A, HALF_B], {}, None, id="J13"),
        pytest.param([vgpu(1, 100)], [], SPREAD, "GPU-a,NVIDIA,100,0:", id="J17"),
        pytest.param([vgpu(1, 100)], [ONE_SLOT_OF_A], SPREAD, "GPU-b,NVIDIA,100,0:", id="J18"),
        pytest.param(
            [vgpu(2, 100)], [], {}, "GPU-b,NVIDIA,100,0:GPU-a,NVIDIA,100,0:", id="two-cards"
        ),
        pytest.param([vgpu(1, percent=50)], [], {}, "GPU-b,NVIDIA,5589,0:", id="percentage"),
        pytest.param([vgpu(1, percent=33)], [], {}, "GPU-b,NVIDIA,3688,0:", id="rounded-down"),
        pytest.param([vgpu(None, 100)], [], {}, "GPU-b,NVIDIA,100,0:", id="memory-alone"),
        pytest.param([vgpu(1, 11179)], [], {}, None, id="too-much-memory"),
        pytest.param([vgpu(1, 11178)], [ONE_SLOT_OF_B], {}, "GPU-a,NVIDIA,11178,0:", id="room"),
        pytest.param(
            [vgpu(1, 6000), vgpu(1, 6000)], [], {},
            "GPU-b,NVIDIA,6000,0:;GPU-a,NVIDIA,6000,0:", id="use-adds-up-in-the-pod",
        ),
        pytest.param([vgpu(1, 1)], [ONE_SLOT_OF_A], BINPACK, "GPU-a,NVIDIA,1,0:", id="binpack"),
    ],
)  # fmt: skip
def test_which_cards_are_given(
    containers: list[Container], bound: list[Pod], options: dict[str, Any], ids: str | None
) -> None:
    (outcome,) = plan([a_pod(*containers)], [NODE], bound=bound, config={"volcano": options})
    assert outcome.verdict == ("waiting" if ids is None else "placed"), outcome.message
    assert outcome.annotations.get(IDS) == ids


def test_an_unhealthy_card_is_left_out() -> None:
    # J15: upstream reads the health and never looks at it
    (outcome,) = plan([a_pod(vgpu(1))], [a_vgpu_node(B_UNHEALTHY)])
    assert cards_of(outcome) == ["GPU-a"]


@pytest.mark.parametrize(
    ("annotations", "reason"),
    [
        pytest.param({"volcano.sh/vgpu-mode": "mig"}, "ModeNotFit", id="J19"),
        pytest.param({"nvidia.com/use-gputype": "A100"}, "CardTypeMismatch", id="J20"),
        pytest.param({"nvidia.com/use-gputype": "tesla p4"}, "", id="J21"),
    ],
)
def test_what_annotations_rule_out_is_reported(annotations: dict[str, str], reason: str) -> None:
    (outcome,) = plan([a_pod(vgpu(1), annotations=annotations)], [NODE])
    assert {why.reason.wire for why in outcome.reasons} == ({reason} if reason else set())


def an_agents_node(mode: str) -> Node:
    cards = (a_card("GPU-a", vendor="nvidia", mode=mode),)
    return a_node(
        annotations={f"{CARDS_PREFIX}nvidia": encode_node_cards(NodeCardsAnnotation(cards=cards))}
    )


@pytest.mark.parametrize("mode", ["", "mps", "mig"])
def test_a_pod_that_requests_mig_waits_on_our_agents_cards_too(mode: str) -> None:
    pod = a_pod(vgpu(1), annotations={"volcano.sh/vgpu-mode": "mig"})
    (outcome,) = plan([pod], [an_agents_node(mode)])
    (why,) = outcome.reasons
    assert why.message == (
        "1/1 ModeNotFit: c0 asks for a MIG card; no card of this cluster is in MIG mode that "
        "Tessera gives out"
    )


@pytest.mark.parametrize(
    ("mode", "verdict"), [("", "placed"), ("mps", "placed"), ("mig", "waiting")]
)
def test_hami_core_is_served_by_cards_under_mps_too(mode: str, verdict: str) -> None:
    pod = a_pod(vgpu(1), annotations={"volcano.sh/vgpu-mode": "hami-core"})
    (outcome,) = plan([pod], [an_agents_node(mode)])
    assert outcome.verdict == verdict


def test_binpack_keeps_to_one_card() -> None:
    # J24
    node = a_registered_node(("G-0", 16384), ("G-1", 16384), ("G-2", 16384))
    pods = [a_pod(vgpu(1, 4096), name=f"p{i}") for i in range(3)]
    outcomes = plan(pods, [node], config={"volcano": BINPACK})
    assert len({card for o in outcomes for card in cards_of(o)}) == 1


def test_spread_uses_every_card() -> None:
    node = a_registered_node(("G-0", 16384), ("G-1", 16384), ("G-2", 16384))
    pods = [a_pod(vgpu(1, 4096), name=f"p{i}") for i in range(3)]
    outcomes = plan(pods, [node], config={"volcano": SPREAD})
    assert [card for o in outcomes for card in cards_of(o)] == ["G-0", "G-1", "G-2"]


def test_without_a_policy_the_last_card_comes_first() -> None:
    # J25
    node = a_registered_node(("G-0", 16384), ("G-1", 16384), ("G-2", 16384))
    (outcome,) = plan([a_pod(vgpu(1, 4096))], [node])
    assert cards_of(outcome) == ["G-2"]


def test_a_used_card_still_fits_what_is_left_of_it() -> None:
    # J22 without its score
    node = a_registered_node(("G-0", 30000))
    bound = a_bound_pod(vgpu(1, 3000), ids="G-0,NVIDIA,3000,0:")
    fits, not_any_more = plan(
        [a_pod(vgpu(1, 1000), name="a"), a_pod(vgpu(1, 26001), name="b")],
        [node],
        bound=[bound],
        config={"volcano": BINPACK},
    )
    assert (fits.verdict, not_any_more.verdict) == ("placed", "waiting")


def test_slots_run_out() -> None:
    pods = [a_pod(vgpu(1, 1), name=f"p{i}") for i in range(3)]
    outcomes = plan(pods, [a_registered_node(("G-0", 100), slots=2)])
    assert [o.verdict for o in outcomes] == ["placed", "placed", "waiting"]


def test_a_percentage_is_of_each_card() -> None:
    node = a_registered_node(("G-0", 1000), ("G-1", 2001))
    (outcome,) = plan([a_pod(vgpu(2, percent=50))], [node])
    assert outcome.annotations[IDS] == "G-1,NVIDIA,1000,0:G-0,NVIDIA,500,0:"


def test_a_pod_with_two_containers_on_a_card_counts_twice_and_leaves_nothing() -> None:
    # K13: upstream counts 1000 of 3000 after a restart, and keeps 2000 after the pod has gone
    bound = a_bound_pod(vgpu(1, 1000), vgpu(1, 2000), ids="G-0,NVIDIA,1000,0:;G-0,NVIDIA,2000,0:")
    node = a_registered_node(("G-0", 4000), slots=3)
    first, second = a_pod(vgpu(1, 1001), name="a"), a_pod(vgpu(1, 1000), name="b")
    assert [o.verdict for o in plan([first, second], [node], bound=[bound])] == [
        "waiting",
        "placed",
    ]
    assert plan([a_pod(vgpu(1, 4000))], [node])[0].verdict == "placed"


def test_quota_counts_every_container() -> None:
    # K14: 1000 and 2000 MiB of one pod are 3000
    node = a_registered_node(("G-0", 9000))
    pod = a_pod(vgpu(1, 1000), vgpu(1, 2000))
    for allowed, verdict in ((3000, "placed"), (2999, "waiting")):
        limit = Limit(namespace="default", source="q", memory_bytes=allowed * MIB)
        assert plan([pod], [node], limits=[limit])[0].verdict == verdict
    none = Limit(namespace="default", source="q", cores_percent=0)
    assert plan([pod], [node], limits=[none])[0].verdict == "placed"


def test_pods_of_different_groups_share_a_card_under_spread() -> None:
    # K17
    pods = [
        a_pod(
            vgpu(1, 1),
            name=f"p{i}",
            annotations={
                "scheduling.k8s.io/group-name": f"g{i}",
                "volcano.sh/vgpu-podgroup-policy": "spread",
            },
        )
        for i in range(2)
    ]
    assert [o.verdict for o in plan(pods, [a_registered_node(("G-0", 100))])] == ["placed"] * 2


def test_an_unreadable_list_is_counted_by_the_pods_requests() -> None:
    bound = a_bound_pod(vgpu(1, 90), ids="G-0,NVIDIA:")
    (outcome,) = plan([a_pod(vgpu(1, 11))], [a_registered_node(("G-0", 100))], bound=[bound])
    assert outcome.verdict == "waiting"
