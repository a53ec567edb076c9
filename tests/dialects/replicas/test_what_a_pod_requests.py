"""Who means replicas, and what a replica is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tessera_core.registry.registry import load
from tessera_schema.kube import Container, Pod
from tessera_schema.requests import CardKey, Choice
from tessera_schema.verdicts import Verdict
from tessera_testing.builders import a_container, a_pod
from tessera_testing.plan import plan
from tests.dialects.replicas.setting import (
    PRODUCT,
    SHARED,
    STRATEGY,
    WHOLE,
    a_gfd_node,
    accepted,
    made,
    rejected,
    shared,
    whole,
)

SELECTED = {PRODUCT: "Tesla-T4-SHARED"}
CLAIMED = [
    pytest.param(a_pod(shared()), {}, True, id="by its own name"),
    pytest.param(a_pod(whole()), {}, False, id="whole cards are not"),
    pytest.param(a_pod(whole(), node_selector=SELECTED), {}, True, id="a product that is shared"),
    pytest.param(
        a_pod(whole(), node_selector={STRATEGY: "time-slicing"}), {}, True, id="by time-slicing"
    ),
    pytest.param(a_pod(whole(), node_selector={STRATEGY: "mps"}), {}, True, id="by MPS"),
    pytest.param(a_pod(whole(), node_selector={STRATEGY: "none"}), {}, False, id="not shared"),
    pytest.param(a_pod(whole(), node_selector={PRODUCT: "Tesla-T4"}), {}, False, id="a product"),
    pytest.param(a_pod(whole()), {"plain": True}, True, id="without renamed resources"),
    pytest.param(
        a_pod(whole(), scheduler="koord-scheduler"), {"plain": True}, False, id="another scheduler"
    ),
    pytest.param(
        a_pod(whole(), scheduler="tessera-scheduler"), {"plain": True}, True, id="Tessera's"
    ),
    pytest.param(a_pod(a_container({"cpu": 1}), node_selector=SELECTED), {}, False, id="no card"),
    pytest.param(
        a_pod(a_container({"example.com/part": 1})), {"shared": "example.com/part"}, True,
        id="another name",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "options", "claimed"), CLAIMED)
def test_pods_of_replicas_are_claimed(pod: Pod, options: dict[str, Any], *, claimed: bool) -> None:
    claim = made(**options).claim(pod)
    assert (bool(claim.fields), claim.insists) == (claimed, claimed)


ADMITTED = [
    pytest.param([shared()], {}, [("c0", 1, 0)], id="one replica"),
    pytest.param([shared("1")], {"replicas": 10}, [("c0", 1, 10)], id="a tenth of a card"),
    pytest.param([shared(), shared()], {}, [("c0", 1, 0), ("c1", 1, 0)], id="two containers"),
    pytest.param([shared(2)], {}, [("c0", 2, 0)], id="parts of two cards"),
    pytest.param([shared(0)], {}, [], id="none"),
    pytest.param([whole()], {"plain": True}, [("c0", 1, 0)], id="by the name of whole cards"),
    pytest.param([a_container({}, {SHARED: 1})], {}, [("c0", 1, 0)], id="requests alone"),
]  # fmt: skip


@pytest.mark.parametrize(("containers", "options", "requests"), ADMITTED)
def test_it_is_admitted(
    containers: Sequence[Container], options: dict[str, Any], requests: list[tuple[str, int, int]]
) -> None:
    admitted = accepted(a_pod(*containers), **options)
    assert [
        (c.container, r.count, r.equal_parts) for c in admitted.containers for r in c.requests
    ] == requests


REFUSED = [
    pytest.param(
        [shared("0.5")], {},
        "spec.containers[0].resources.limits[nvidia.com/gpu.shared]: 0.5: write a whole number "
        "such as 1. It counts replicas: equal parts of a card.",
        id="half a replica",
    ),
    pytest.param(
        [shared(-1)], {},
        "spec.containers[0].resources.limits[nvidia.com/gpu.shared]: -1: write 0 or more. It "
        "counts replicas: equal parts of a card.",
        id="less than none",
    ),
    pytest.param(
        [shared(2)], {"fail_requests_greater_than_one": True},
        "spec.containers[0].resources.limits[nvidia.com/gpu.shared]: 2: more than one replica "
        "gives no more of a card: write 1, or name amounts of memory and cores.",
        id="as the plugin refuses several",
    ),
    pytest.param(
        [a_container({SHARED: 1, WHOLE: 1})], {},
        "spec.containers[0].resources.limits[nvidia.com/gpu.shared]: 1: a container has a part of "
        "a card or whole cards: keep it, or nvidia.com/gpu.",
        id="both names",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("containers", "options", "message"), REFUSED)
def test_it_is_refused(
    containers: Sequence[Container], options: dict[str, Any], message: str
) -> None:
    assert rejected(a_pod(*containers), **options).message == message


@pytest.mark.parametrize(
    ("options", "choice", "labels"),
    [({}, Choice.SCOPES, [STRATEGY]), ({"replicas": 4}, Choice.ORDERED, [])],
)
def test_without_a_number_only_cards_that_are_known_to_be_shared_will_do(
    options: dict[str, int], choice: Choice, labels: list[str]
) -> None:
    (container,) = accepted(a_pod(shared()), **options).containers
    policy = container.requests[0].policy
    assert (policy.choice, [test.key for test in policy.labels]) == (choice, labels)
    assert policy.cards == (CardKey.FEWEST_SHARERS,)


def test_several_replicas_are_parts_of_several_cards() -> None:
    assert accepted(a_pod(shared(2))).warnings == (
        "spec.containers[0].resources.limits[nvidia.com/gpu.shared]: 2: a part of each of 2 "
        "different cards is given, not 2 parts of one",
    )
    (outcome,) = plan([a_pod(shared(2), uid="u")], [a_gfd_node()])
    assert outcome.grant is not None
    assert [(s.index, s.memory_mib) for s in outcome.grant.shares] == [(0, 3840), (1, 3840)]


def test_limits_and_requests_become_equal() -> None:
    changes = accepted(a_pod(shared("1"))).changes
    assert (changes["c0"].limits, changes["c0"].requests) == ({}, {SHARED: "1"})


@pytest.mark.parametrize(
    ("node", "options", "mib", "cores"),
    [
        (a_gfd_node(replicas=4), {}, 3840, 25),
        (a_gfd_node(replicas=10), {}, 1536, 10),
        (a_gfd_node(cards=1, mib=81920, replicas=3, strategy="mps"), {}, 27306, 33.333),
        (a_gfd_node(cards=1, mib=40960, replicas=7), {}, 5851, 14.285),
        (a_gfd_node(replicas=4), {"replicas": 8}, 1920, 12.5),
        (a_gfd_node(replicas=1, strategy="none"), {"replicas": 8}, 1920, 12.5),
    ],
)
def test_a_replica_is_an_equal_part(
    node: Any, options: dict[str, int], mib: int, cores: float
) -> None:
    config = {"replicas": options}
    (outcome,) = plan([a_pod(shared(), uid="u")], [node], config=config)
    assert outcome.grant is not None
    (share,) = outcome.grant.shares
    assert (share.memory_mib, share.cores_percent, share.exclusive) == (mib, cores, False)


def test_a_card_has_as_many_parts_as_replicas() -> None:
    pods = [a_pod(shared(), name=f"p{i}", uid=f"p{i}") for i in range(7)]
    planned = plan(pods, [a_gfd_node(cards=2, mib=10000, replicas=3)])
    assert [o.grant.shares[0].index for o in planned if o.grant] == [0, 1, 0, 1, 0, 1]
    assert planned[6].verdict is Verdict.WAITING


def test_cards_that_are_not_shared_are_in_no_parts() -> None:
    (outcome,) = plan([a_pod(shared())], [a_gfd_node(replicas=1, strategy="none")])
    assert outcome.verdict is Verdict.WAITING
    assert "gpu.sharing-strategy In (time-slicing, mps)" in outcome.reasons[0].message


def test_a_pod_of_hami_shares_a_card_with_replicas() -> None:
    """In a plan: the node's device plugin gives way to Tessera's agent."""
    hami = a_container({WHOLE: 1, "nvidia.com/gpumem": 4000})
    planned = plan(
        [a_pod(shared(), name="a", uid="a"), a_pod(hami, name="b", uid="b")],
        [a_gfd_node(cards=1)],
    )
    assert [o.dialects for o in planned] == [("replicas",), ("hami",)]
    assert [o.verdict for o in planned] == [Verdict.PLACED] * 2
    assert all(
        "needs Tessera's agent on node n1, in place of the device plugin there" in o.warnings[-1]
        for o in planned
    )


@pytest.mark.parametrize(
    ("limits", "other"),
    [
        ({SHARED: 1, "nvidia.com/gpumem": 3000}, "hami"),
        ({SHARED: 1, "tencent.com/vcuda-core": 100}, "gpumanager"),
    ],
)
def test_another_dialect_for_the_same_vendor_is_refused(limits: Any, other: str) -> None:
    (outcome,) = plan([a_pod(a_container(limits))], [a_gfd_node()])
    assert outcome.verdict is Verdict.REJECTED
    assert other in outcome.message
    assert "a pod asks for one vendor's cards in one dialect: keep one" in outcome.message


def test_whole_cards_with_amounts_stay_hamis() -> None:
    pod = a_pod(a_container({WHOLE: 1, "nvidia.com/gpumem": 3000}), uid="u")
    (outcome,) = plan([pod], [a_gfd_node()], config={"replicas": {"plain": True}})
    assert outcome.dialects == ("hami",)


@pytest.mark.parametrize(
    "options", [{"shared": ""}, {"shared": "nvidia.com/gpu"}, {"replicas": -1}, {"parts": 2}]
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"name|twice|replicas -1|parts"):
        made(**options)


def test_it_can_be_switched_off() -> None:
    config = {"replicas": {"enabled": False}}
    (outcome,) = plan([a_pod(shared())], [a_gfd_node()], config=config)
    assert outcome.message == "asks for accelerators in dialect replicas, which is switched off"


def test_an_installation_without_it_names_the_owner() -> None:
    registry = load(installed=True)
    assert SHARED not in registry.resources
    foreign = registry.vendors["nvidia"].foreign
    assert foreign[SHARED] == "NVIDIA's device plugin (time slicing with renamed resources)"
