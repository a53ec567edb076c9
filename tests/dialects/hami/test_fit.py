"""Which cards take a pod, and the reason of those that do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tessera_schema.cards import MIB
from tessera_schema.kube import Quantity
from tessera_testing.builders import a_node, a_pod
from tessera_testing.plan import plan
from tests.dialects.hami.setting import (
    CARD_POLICY,
    CORDON,
    NUMA_BIND,
    Gpu,
    a_gpu_node,
    counted,
    needs,
    picks,
    planned,
)

Amounts = Mapping[str, Quantity]


@pytest.mark.parametrize(
    ("gpu", "limits", "notes", "reason"),
    [
        pytest.param(
            Gpu("dev-0", mib=128, slots=100), {"gpu": 1, "mem": 512, "core": 50}, {},
            "1/1 CardInsufficientMemory", id="FIT-N02",
        ),
        pytest.param(
            Gpu("dev-0", mib=1024, slots=100, used=1, used_cores=100),
            {"gpu": 1, "mem": 512, "core": 50}, {},
            "1/1 CardInsufficientCore", id="FIT-N03",
        ),
        pytest.param(
            Gpu("dev-0", type="NVIDIA-A10"), {"gpu": 1, "mem": 512, "core": 50},
            {"nvidia.com/use-gputype": "OtherType"},
            "1/1 CardTypeMismatch", id="FIT-N04",
        ),
        pytest.param(
            Gpu("dev-1", mib=1280, slots=100), {"gpu": 1, "mem": 512, "core": 50},
            {"nvidia.com/use-gpuuuid": "dev-0"},
            "1/1 CardUuidMismatch", id="FIT-N05",
        ),
        pytest.param(
            Gpu("dev-0", mib=1280, slots=100, used=100), {"gpu": 1, "mem": 512, "core": 50}, {},
            "1/1 CardTimeSlicingExhausted", id="FIT-N06",
        ),
        pytest.param(
            Gpu("dev-0", mib=1280, slots=100, used=20, used_cores=99),
            {"gpu": 1, "mem": 512}, {"nvidia.com/nouse-gpuuuid": "dev-0"},
            "1/1 CardUuidMismatch", id="ids before cores",
        ),
        pytest.param(
            Gpu("dev-0", slots=4, used=5, used_mib=2048, used_cores=25),
            {"gpu": 1, "pct": 100, "core": 1}, {},
            "1/1 CardTimeSlicingExhausted", id="FIT-N22",
        ),
        pytest.param(
            Gpu("dev-0", used=1, used_mib=10), {"gpu": 1, "mem": 10, "core": 100}, {},
            "1/1 ExclusiveDeviceAllocateConflict", id="100 cores want an idle card",
        ),
        pytest.param(
            Gpu("dev-0", health=False), {"gpu": 1}, {}, "1/1 CardNotHealth", id="unhealthy"
        ),
        pytest.param(
            Gpu("dev-0", used=1), {"gpu": 1, "mem": 1}, {CARD_POLICY: "mutex"},
            "1/1 ExclusiveDeviceAllocateConflict", id="mutex",
        ),
    ],
)  # fmt: skip
def test_a_card_is_refused_for_the_first_reason(
    gpu: Gpu, limits: Amounts, notes: Mapping[str, str], reason: str
) -> None:
    pod = a_pod(needs(limits), annotations=notes)
    assert counted(planned(pod, gpu)) == {"n1": reason}


def test_a_card_whose_cores_are_all_promised_takes_nobody() -> None:
    """FIT-N09: not even those who ask for no cores."""
    half = {"gpu": 1, "mem": 1, "core": 50}
    pods = [
        a_pod(needs(half), name="a"),
        a_pod(needs(half), name="b"),
        a_pod(needs({"gpu": 1, "mem": 512}), name="c"),
    ]
    *_, last = plan(pods, [a_gpu_node(Gpu("dev-0", mib=1280, slots=100))])
    assert counted(last) == {"n1": "1/1 CardComputeUnitsExhausted"}


@pytest.mark.parametrize(
    ("gpus", "limits", "want"),
    [
        pytest.param(
            [Gpu("dev-0", mib=1280)], {"gpu": 1, "mem": 512, "core": 120}, ["dev-0"], id="FIT-N07"
        ),
        pytest.param(
            [Gpu("dev-0", mib=1280, slots=100, used=20, used_cores=10)],
            {"gpu": 1, "pct": 10, "core": 20}, ["dev-0"], id="FIT-N12",
        ),
        pytest.param(
            [Gpu("dev-0", cores=200, used=1, used_cores=50)],
            {"gpu": 1, "mem": 1, "core": 100}, ["dev-0"], id="scaled cores are shared",
        ),
    ],
)  # fmt: skip
def test_a_card_that_fits_is_taken(gpus: list[Gpu], limits: Amounts, want: list[str]) -> None:
    assert picks(planned(a_pod(needs(limits)), *gpus)) == want


def test_several_cards_are_different_cards() -> None:
    """FIT-N10, as far as a node has them at all."""
    gpus = (
        Gpu("dev-0", mib=1280, slots=100, used=20, used_cores=10),
        Gpu("dev-1", mib=1280, slots=1, used=1),
    )
    pod = a_pod(needs({"gpu": 2, "mem": 512, "core": 20}))
    assert counted(planned(pod, *gpus)) == {
        "n1": "1/2 AllocatedCardsInsufficientRequest, 1/2 CardTimeSlicingExhausted"
    }


@pytest.mark.parametrize(
    ("gpus", "count"),
    [
        pytest.param(["dev-0"], 2, id="FIT-N10"),
        pytest.param(["dev-0", "dev-1"], 3, id="FIT-N11"),
        pytest.param(["dev-0"], 2, id="FIT-N24"),
    ],
)
def test_more_cards_than_the_node_has_is_a_reason_of_the_node(gpus: list[str], count: int) -> None:
    outcome = planned(a_pod(needs({"gpu": count, "mem": 512, "core": 20})), *gpus)
    assert [w.reason.wire for w in outcome.reasons] == ["NodeInsufficientDevice"]


def test_a_node_without_the_vendors_cards_is_not_registered() -> None:
    """FIT-N25 and SIM-03."""
    (outcome,) = plan([a_pod(needs({"gpu": 1}))], [a_node()])
    assert [w.reason.wire for w in outcome.reasons] == ["NodeHasNoCards"]
    assert "node unregistered" in outcome.reasons[0].message


@pytest.mark.parametrize(
    "said",
    [
        pytest.param({"labels": {"gpu": "on"}}, id="a label that selects agents"),
        pytest.param({"labels": {"tessera.dev/cards": "nvidia"}}, id="our own label"),
        pytest.param({"capacity": {"nvidia.com/gpu": 8}}, id="a resource"),
        pytest.param({"annotations": {"cards.tessera.dev/nvidia": "{"}}, id="our agent's key"),
        pytest.param({"annotations": {"hami.io/node-nvidia-register": "[]"}}, id="a register"),
    ],
)
def test_a_node_of_which_cards_are_expected_is_called_unregistered(said: dict[str, Any]) -> None:
    nodes = [a_node("plain"), a_node("other", labels={"gpu": "off"}), a_node("n1", **said)]
    (outcome,) = plan([a_pod(needs({"gpu": 1}))], nodes)
    assert {w.node: w.reason.wire for w in outcome.reasons} == {
        "n1": "NodeUnregistered", "other": "NodeHasNoCards", "plain": "NodeHasNoCards",
    }  # fmt: skip
    assert outcome.message == "0/3 nodes have room: 1 NodeUnregistered, 2 NodeHasNoCards"


def test_cordoned_cards_take_no_new_pods() -> None:
    """FIT-N15."""
    pod = a_pod(needs({"gpu": 1, "mem": 64, "core": 50}))
    outcome = planned(pod, "dev-0", "dev-1", notes={CORDON: "dev-0,dev-1"})
    assert counted(outcome) == {"n1": "2/2 CardCordoned"}


@pytest.mark.parametrize("policy", ["binpack", "spread", "numa,binpack", "topology-aware"])
def test_bound_cards_are_on_one_numa_node(policy: str) -> None:
    """FIT-N16."""
    gpus = (Gpu("dev-0", numa=1), Gpu("dev-1", numa=1), Gpu("dev-2", numa=0))
    pod = a_pod(
        needs({"gpu": 2, "mem": 100, "core": 10}),
        annotations={NUMA_BIND: "true", CARD_POLICY: policy},
    )
    assert picks(planned(pod, *gpus)) == ["dev-1", "dev-0"]


@pytest.mark.parametrize("policy", ["spread", "topology-aware"])
def test_cards_that_are_on_no_one_numa_node_are_not_given(policy: str) -> None:
    gpus = (Gpu("dev-0", numa=1), Gpu("dev-1", numa=1), Gpu("dev-2", numa=0))
    pod = a_pod(needs({"gpu": 3, "mem": 100}), annotations={NUMA_BIND: "1", CARD_POLICY: policy})
    assert counted(planned(pod, *gpus)) == {"n1": "3/3 NumaNotFit"}


MUTEX = {CARD_POLICY: "mutex"}
USED_AND_IDLE = (Gpu("used", used=1), Gpu("idle"))


def test_mutex_takes_idle_cards_only() -> None:
    """FIT-N18 and FIT-N19."""
    one = a_pod(needs({"gpu": 1, "mem": 100, "core": 10}), annotations=MUTEX)
    two = a_pod(needs({"gpu": 2, "mem": 100, "core": 10}), annotations=MUTEX)
    assert picks(planned(one, *USED_AND_IDLE)) == ["idle"]
    assert planned(two, *USED_AND_IDLE).verdict == "waiting"


def test_mutex_in_a_chain_is_a_filter_too() -> None:
    pod = a_pod(needs({"gpu": 1, "mem": 100}), annotations={CARD_POLICY: "mutex,binpack"})
    assert picks(planned(pod, *USED_AND_IDLE)) == ["idle"]


def test_a_percentage_of_0_is_the_whole_memory() -> None:
    """FIT-N20."""
    outcome = planned(a_pod(needs({"gpu": 1, "pct": 0})), Gpu("dev-0", mib=11264))
    assert outcome.grant is not None
    assert [s.memory_bytes for s in outcome.grant.shares] == [11264 * MIB]


def test_a_card_that_is_given_whole_is_shut() -> None:
    whole, part = a_pod(needs({"gpu": 1}), name="whole"), a_pod(needs({"gpu": 1, "mem": 1}))
    first, second = plan([whole, part], [a_gpu_node(Gpu("dev-0"))])
    assert first.verdict == "placed"
    assert second.verdict == "waiting"
