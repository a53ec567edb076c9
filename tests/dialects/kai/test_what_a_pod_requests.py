"""Fractions by annotation, whole cards by name, and what KAI's webhook refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tessera_schema.cards import MIB
from tessera_schema.kube import Container, Pod
from tessera_schema.verdicts import Verdict
from tessera_testing.builders import a_container, a_pod
from tessera_testing.plan import plan
from tests.dialects.kai.setting import (
    CONTAINER,
    DEVICES,
    FRACTION,
    MEMORY,
    SHARES,
    WHOLE,
    a_gpu_node,
    a_kai_pod,
    accepted,
    made,
    rejected,
    whole,
)

HALF = {FRACTION: "0.5"}
QUEUE = {"kai.scheduler/queue": "default-queue"}
CLAIMED = [
    pytest.param(a_kai_pod(HALF), [FRACTION], id="a fraction"),
    pytest.param(a_kai_pod({MEMORY: "2000"}), [MEMORY], id="MiB"),
    pytest.param(a_kai_pod(HALF, scheduler="runai-scheduler"), [FRACTION], id="of Run:ai"),
    pytest.param(a_kai_pod(HALF, scheduler="tessera-scheduler"), [FRACTION], id="of Tessera"),
    pytest.param(a_kai_pod(HALF, scheduler="", labels=QUEUE), [FRACTION], id="in a queue"),
    pytest.param(
        a_kai_pod(HALF, scheduler="", labels={"runai/queue": "a"}), [FRACTION], id="Run:ai's queue"
    ),
    pytest.param(a_kai_pod(HALF, scheduler=""), [], id="an annotation by itself"),
    pytest.param(a_kai_pod(HALF, scheduler="volcano"), [], id="another scheduler"),
    pytest.param(a_kai_pod({}, whole()), [WHOLE], id="whole cards"),
    pytest.param(a_pod(whole()), [], id="whole cards of others"),
    pytest.param(a_pod(whole(), labels=QUEUE), [], id="whole cards in a queue alone"),
    pytest.param(a_kai_pod({}), [], id="nothing"),
    pytest.param(
        a_pod(whole(), namespace="kai-resource-reservation", labels={"runai-gpu-group": "g"}),
        [WHOLE], id="a reservation pod",
    ),
    pytest.param(
        a_pod(whole(), namespace="runai-reservation", labels={"runai-gpu-group": "g"}), [WHOLE],
        id="a reservation pod of Run:ai",
    ),
    pytest.param(a_pod(a_container({SHARES: 1})), [SHARES], id="what admission wrote"),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "fields"), CLAIMED)
def test_its_pods_are_claimed(pod: Pod, fields: list[str]) -> None:
    claim = made().claim(pod)
    assert sorted(claim.fields) == sorted(fields)
    assert claim.insists == bool(fields)


def test_messages_name_the_annotation() -> None:
    assert made().claim(a_kai_pod(HALF)).fields == {FRACTION: "metadata.annotations[gpu-fraction]"}


def test_schedulers_are_configured() -> None:
    pod = a_kai_pod({}, whole(), scheduler="my-kai")
    assert not made().claim(pod).fields
    assert made(scheduler_names=["my-kai"]).claim(pod).fields


ADMITTED = [
    pytest.param({FRACTION: "0.5"}, [a_container()], [("c0", 1, 0, 50)], id="half a card"),
    pytest.param({FRACTION: ".25"}, [a_container()], [("c0", 1, 0, 25)], id="without a 0"),
    pytest.param({FRACTION: "0.125"}, [a_container()], [("c0", 1, 0, 12.5)], id="an eighth"),
    pytest.param({FRACTION: "0.333333"}, [a_container()], [("c0", 1, 0, 33.333)], id="a third"),
    pytest.param({FRACTION: "5e-1"}, [a_container()], [("c0", 1, 0, 50)], id="with an exponent"),
    pytest.param({MEMORY: "2000"}, [a_container()], [("c0", 1, 2000, 0)], id="MiB"),
    pytest.param(
        {FRACTION: "0.5", DEVICES: "2"}, [a_container()], [("c0", 2, 0, 50)], id="of two cards"
    ),
    pytest.param(
        {MEMORY: "2000", DEVICES: "2"}, [a_container()], [("c0", 2, 2000, 0)],
        id="MiB of two cards",
    ),
    pytest.param(
        HALF, [a_container(), a_container()], [("c0", 1, 0, 50)], id="the first container has it"
    ),
    pytest.param(
        {**HALF, CONTAINER: "c1"}, [a_container(), a_container()], [("c1", 1, 0, 50)],
        id="another container has it",
    ),
    pytest.param({}, [whole(2)], [("c0", 2, 0, 100)], id="two whole cards"),
    pytest.param({}, [whole(), whole()], [("c0", 1, 0, 100), ("c1", 1, 0, 100)],
                 id="whole cards of two containers"),
    pytest.param({}, [whole(0)], [], id="no card"),
]  # fmt: skip


@pytest.mark.parametrize(("notes", "containers", "requests"), ADMITTED)
def test_it_is_admitted(
    notes: Mapping[str, str],
    containers: Sequence[Container],
    requests: list[tuple[str, int, int, float]],
) -> None:
    admitted = accepted(a_kai_pod(notes, *containers))
    assert [
        (c.container, r.count, r.memory_bytes // MIB, r.memory_percent)
        for c in admitted.containers
        for r in c.requests
    ] == requests
    for c in admitted.containers:
        exclusive = not notes
        assert (c.requests[0].exclusive, c.requests[0].cores_percent > 0) == (exclusive, exclusive)


NOTE = "metadata.annotations"
LIMITS = "spec.containers[0].resources.limits"
REFUSED = [
    pytest.param(
        {FRACTION: "1"}, [],
        f"{NOTE}[gpu-fraction]: 1: write a part of a card above 0 and below 1, such as 0.5; whole "
        "cards are limits[nvidia.com/gpu].",
        id="a whole card as a fraction",
    ),
    pytest.param(
        {FRACTION: "half"}, [],
        f"{NOTE}[gpu-fraction]: half: write a part of a card above 0 and below 1, such as 0.5; "
        "whole cards are limits[nvidia.com/gpu].",
        id="a word",
    ),
    pytest.param(
        {FRACTION: "-0.5"}, [],
        f"{NOTE}[gpu-fraction]: -0.5: write a part of a card above 0 and below 1, such as 0.5; "
        "whole cards are limits[nvidia.com/gpu].",
        id="less than nothing",
    ),
    pytest.param(
        {FRACTION: "0.5", MEMORY: "2000"}, [],
        f"{NOTE}[gpu-memory]: 2000: is said by gpu-fraction already: keep one of the two.",
        id="a fraction and MiB",
    ),
    pytest.param(
        {MEMORY: "0"}, [],
        f"{NOTE}[gpu-memory]: 0: write a whole number above 0. This resource counts MiB, so 16 GiB "
        "is 16384.",
        id="no MiB",
    ),
    pytest.param(
        {MEMORY: "8Gi"}, [],
        f"{NOTE}[gpu-memory]: 8Gi: write a whole number above 0. This resource counts MiB. For 8 "
        "GiB write 8192.",
        id="a unit",
    ),
    pytest.param(
        {MEMORY: "8589934592"}, [],
        f"{NOTE}[gpu-memory]: 8589934592: this resource counts MiB, and no card has that much. "
        "Write at most 4194304; if bytes were meant, 8192.",
        id="bytes",
    ),
    pytest.param(
        {**HALF, DEVICES: "0"}, [],
        f"{NOTE}[gpu-fraction-num-devices]: 0: write a number of cards from 1 to 64.",
        id="of no card",
    ),
    pytest.param(
        {DEVICES: "2"}, [],
        f"{NOTE}[gpu-fraction-num-devices]: 2: says of how many cards a fraction is: add "
        "gpu-fraction or gpu-memory, or leave it out.",
        id="cards without a fraction",
    ),
    pytest.param(
        HALF, [whole()],
        f"{LIMITS}[nvidia.com/gpu]: 1: whole cards do not go with gpu-fraction or gpu-memory: keep "
        "one of them.",
        id="a fraction and whole cards",
    ),
    pytest.param(
        {**HALF, CONTAINER: "main"}, [a_container(), a_container()],
        f"{NOTE}[gpu-fraction-container-name]: main: the pod has no such container: write one of "
        "c0, c1.",
        id="an unknown container",
    ),
    pytest.param(
        {"mps": "true"}, [whole()],
        f"{NOTE}[mps]: true: goes with a fraction alone: add gpu-fraction, or leave it out.",
        id="MPS with whole cards",
    ),
    pytest.param(
        {}, [whole("0.5")],
        f"{LIMITS}[nvidia.com/gpu]: 0.5: write a whole number such as 1. It counts whole cards.",
        id="half a card by name",
    ),
    pytest.param(
        {}, [a_container({SHARES: 1})],
        f"{LIMITS}[tessera.dev/gpu-fraction]: admission writes it: write the annotation "
        "gpu-fraction or gpu-memory instead.",
        id="what admission writes, by hand",
    ),
    pytest.param(
        HALF, [a_container({SHARES: 2})],
        f"{LIMITS}[tessera.dev/gpu-fraction]: 2: admission writes it: leave it out, the annotation "
        "gpu-fraction or gpu-memory counts.",
        id="what admission writes, changed",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("notes", "containers", "message"), REFUSED)
def test_it_is_refused(
    notes: Mapping[str, str], containers: Sequence[Container], message: str
) -> None:
    assert rejected(a_kai_pod(notes, *containers)).message == message


def test_an_init_container_can_have_the_fraction() -> None:
    pod = a_kai_pod({**HALF, CONTAINER: "init0"}, a_container(), init=(a_container(),))
    (container,) = accepted(pod).containers
    assert (container.container, container.role, container.position) == ("init0", "init", 0)


def test_admission_gives_the_container_a_name_that_kube_scheduler_knows() -> None:
    pod = a_kai_pod({**HALF, DEVICES: "2"}, a_container({"cpu": 1}), uid="u")
    (outcome,) = plan([pod], [a_gpu_node()])
    after = outcome.containers["c0"]
    assert after.limits == {"cpu": "1", SHARES: "2"}
    assert after.requests == {SHARES: "2"}
    again = a_kai_pod({**HALF, DEVICES: "2"}, a_container(after.limits, after.requests), uid="u")
    assert accepted(again).changes == {}


def test_an_mps_server_is_not_promised() -> None:
    assert accepted(a_kai_pod({**HALF, "mps": "true"})).warnings == (
        "metadata.annotations[mps]: true: not used: no MPS server is started or mounted",
    )


@pytest.mark.parametrize(
    ("notes", "mib"),
    [
        ({FRACTION: "0.5"}, 8192),
        ({FRACTION: "0.125"}, 2048),
        ({FRACTION: "0.333"}, 5455),
        ({MEMORY: "2000"}, 2000),
    ],
)
def test_a_fraction_is_of_memory(notes: dict[str, str], mib: int) -> None:
    (outcome,) = plan([a_kai_pod(notes, uid="u")], [a_gpu_node()])
    assert outcome.grant is not None
    (share,) = outcome.grant.shares
    assert (share.memory_mib, share.cores_percent, share.exclusive) == (mib, 0, False)


def test_eight_eighths_share_one_card() -> None:
    pods = [a_kai_pod({FRACTION: "0.125"}, name=f"p{i}", uid=f"p{i}") for i in range(9)]
    planned = plan(pods, [a_gpu_node(cards=1, mib=40960)])
    assert [o.verdict for o in planned] == [*["placed"] * 8, "waiting"]


def test_a_card_that_is_shared_already_comes_first() -> None:
    pods = [a_kai_pod({FRACTION: f"0.{n}"}, name=f"p{n}", uid=f"p{n}") for n in (2, 7, 3)]
    planned = plan(pods, [a_gpu_node()])
    assert [o.grant.shares[0].index for o in planned if o.grant] == [0, 0, 1]


@pytest.mark.parametrize("limits", [{"nvidia.com/gpumem": 3000}, {"tencent.com/vcuda-core": 100}])
def test_another_dialect_for_the_same_vendor_is_refused(limits: dict[str, Any]) -> None:
    (outcome,) = plan([a_kai_pod(HALF, a_container(limits))], [a_gpu_node()])
    assert outcome.verdict is Verdict.REJECTED
    assert "a pod asks for one vendor's cards in one dialect: keep one" in outcome.message
    assert "metadata.annotations[gpu-fraction]" in outcome.message


def test_an_annotation_without_a_sign_of_kai_is_nobodys() -> None:
    (outcome,) = plan([a_kai_pod(HALF, scheduler="")], [a_gpu_node()])
    assert (outcome.verdict, outcome.message) == (Verdict.IGNORED, "asks for no accelerator")


@pytest.mark.parametrize(
    "options",
    [{"scheduler_names": []}, {"whole": ""}, {"shares": "nvidia.com/gpu"}, {"queues": True}],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"name|twice|queues"):
        made(**options)


def test_it_can_be_switched_off() -> None:
    config = {"kai": {"enabled": False}}
    (outcome,) = plan([a_kai_pod(HALF)], [a_gpu_node()], config=config)
    assert outcome.message == "asks for accelerators in dialect kai, which is switched off"
