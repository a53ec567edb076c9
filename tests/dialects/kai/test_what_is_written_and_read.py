"""Results on a pod, variables of its container, and KAI's reservation pods in a dump."""

from __future__ import annotations

from typing import Any

import pytest

from tessera_core.dialect_kit.contract import RecordedShares
from tessera_schema.cards import MIB
from tessera_schema.kube import Pod
from tessera_testing.builders import a_card, a_container, a_pod
from tessera_testing.plan import plan
from tests.dialects.kai.setting import (
    DEVICES,
    FRACTION,
    GROUP,
    MEMORY,
    RECEIVED,
    RESERVED,
    WHOLE,
    a_gpu_node,
    a_kai_pod,
    a_reservation,
    made,
    whole,
)

CARDS = [a_card(f"GPU-{i}", i, mib=16384, vendor="nvidia") for i in range(3)]


def results(pod: Pod) -> dict[str, str]:
    (outcome,) = plan([pod], [a_gpu_node()])
    return {k: v for k, v in outcome.annotations.items() if not k.startswith("tessera.dev/")}


@pytest.mark.parametrize(
    ("pod", "kind", "cards"),
    [
        (a_kai_pod({FRACTION: "0.5"}, uid="u"), "Fraction", "n1-nvidia-0"),
        (a_kai_pod({MEMORY: "2000", DEVICES: "2"}, uid="u"), "Fraction", "n1-nvidia-0,n1-nvidia-1"),
        (a_kai_pod({}, whole(2), uid="u"), "Regular", "n1-nvidia-0,n1-nvidia-1"),
    ],
)
def test_the_kind_and_the_cards_are_written(pod: Pod, kind: str, cards: str) -> None:
    assert results(pod) == {RECEIVED: kind, RESERVED: cards}


@pytest.mark.parametrize(
    ("notes", "portion"),
    [
        ({FRACTION: "0.5"}, "0.50"),
        ({FRACTION: "0.125"}, "0.12"),
        ({MEMORY: "4096"}, "0.25"),
        ({FRACTION: "0.5", DEVICES: "2"}, "0.50"),
    ],
)
def test_a_container_gets_its_portion(notes: dict[str, str], portion: str) -> None:
    (outcome,) = plan([a_kai_pod(notes, uid="u")], [a_gpu_node()])
    env = outcome.injections["c0"].env
    assert (env["GPU_PORTION"], env["RUNAI_NUM_OF_GPUS"]) == (portion, portion)
    assert env["NVIDIA_VISIBLE_DEVICES"] == ("0,1" if DEVICES in notes else "0")


def test_whole_cards_come_without_a_portion() -> None:
    (outcome,) = plan([a_kai_pod({}, whole(), uid="u")], [a_gpu_node()])
    env = outcome.injections["c0"].env
    assert env["NVIDIA_VISIBLE_DEVICES"] == "0"
    assert "GPU_PORTION" not in env


def recorded(pod: Pod) -> RecordedShares | None:
    return made().recorded(pod, CARDS)


def bound(notes: dict[str, str], *containers: Any, **more: Any) -> Pod:
    return a_kai_pod(notes, *containers, node="n1", **more)


@pytest.mark.parametrize(
    ("pod", "shares"),
    [
        (bound({FRACTION: "0.5"}), None),
        (bound({FRACTION: "0.5", RESERVED: "GPU-1"}), [("GPU-1", 8192, False)]),
        (bound({FRACTION: "0.125", RESERVED: "GPU-1"}), [("GPU-1", 2048, False)]),
        (bound({MEMORY: "2000", RESERVED: "2"}), [("GPU-2", 2000, False)]),
        (
            bound({MEMORY: "2000", DEVICES: "2", RESERVED: "GPU-2,GPU-0"}),
            [("GPU-2", 2000, False), ("GPU-0", 2000, False)],
        ),
        (bound({FRACTION: "0.5", RESERVED: "GPU-unknown#1"}), [("GPU-1", 8192, False)]),
        (bound({RESERVED: "GPU-0,GPU-2"}, whole(2)),
         [("GPU-0", 16384, True), ("GPU-2", 16384, True)]),
        (a_reservation("g", "GPU-2"), [("GPU-2", 16384, True)]),
        (a_reservation("g"), None),
    ],
)  # fmt: skip
def test_what_is_written_on_a_pod_is_read(
    pod: Pod, shares: list[tuple[str, int, bool]] | None
) -> None:
    found = recorded(pod)
    if shares is None:
        assert found is None
        return
    assert found is not None
    assert found.problem == ""
    assert [(s.card, s.memory_bytes // MIB, s.exclusive) for s in found.shares] == shares


@pytest.mark.parametrize(
    ("pod", "problem"),
    [
        (
            bound({FRACTION: "0.5", RESERVED: "GPU-9"}),
            "metadata.annotations[run.ai/reserve_for_gpu_index]: 'GPU-9': the node has no card",
        ),
        (
            bound({FRACTION: "0.5", RESERVED: "GPU-0,GPU-1"}),
            "names 2 cards, the pod requests 1",
        ),
        (bound({FRACTION: "2", RESERVED: "GPU-0"}), "metadata.annotations[gpu-fraction]: 2"),
        (
            bound({FRACTION: "0.5"}, labels={GROUP: "g"}),
            "metadata.labels[runai-gpu-group]: g: its card is known from a reservation pod, which "
            "is not on the node",
        ),
    ],
)
def test_what_cannot_be_read_is_a_problem(pod: Pod, problem: str) -> None:
    found = recorded(pod)
    assert found is not None
    assert found.shares == ()
    assert problem in found.problem


def fraction(name: str, part: str, *groups: str) -> Pod:
    """A running pod with a fraction of the cards of these groups."""
    labels = {GROUP: groups[0]} if len(groups) == 1 else {f"{GROUP}/{g}": g for g in groups}
    notes = {FRACTION: part, **({DEVICES: str(len(groups))} if len(groups) > 1 else {})}
    return bound(notes, name=name, uid=name, labels=labels)


def free(*running: Pod, cards: int = 2) -> list[int]:
    """MiB that a plan finds free on each card, asked by pods of 1 GiB."""
    ask = a_container({WHOLE: 1, "nvidia.com/gpumem": 1024})
    pods = [a_pod(ask, name=f"p{i}", uid=f"p{i}") for i in range(40)]
    placed = [o.grant.shares[0].index for o in plan(pods, [a_gpu_node(cards)], bound=running)
              if o.grant]  # fmt: skip
    return [1024 * placed.count(index) for index in range(cards)]


def test_fractions_of_one_group_share_the_card_of_its_reservation_pod() -> None:
    running = [
        a_reservation("g", "GPU-aa"), fraction("a", "0.5", "g"), fraction("b", "0.25", "g"),
    ]  # fmt: skip
    assert free(*running) == [4096, 16384]


def test_two_groups_are_two_cards() -> None:
    running = [
        fraction("a", "0.5", "g"), a_reservation("g", "GPU-bb"), a_reservation("h", "GPU-aa"),
        fraction("b", "0.25", "h"),
    ]  # fmt: skip
    assert free(*running) == [12288, 8192]


def test_a_pod_can_have_fractions_of_two_groups() -> None:
    running = [
        a_reservation("g", "GPU-aa"), a_reservation("h", "GPU-bb"), fraction("a", "0.5", "g", "h"),
    ]  # fmt: skip
    assert free(*running) == [8192, 8192]


def test_a_reservation_pod_without_fractions_holds_its_card() -> None:
    assert free(a_reservation("g", "GPU-aa")) == [0, 16384]
    assert free(a_reservation("g", "GPU-aa", namespace="runai-reservation")) == [0, 16384]


def test_a_fraction_without_its_reservation_pod_is_counted_by_what_it_requests() -> None:
    assert sum(free(fraction("a", "0.5", "g"))) == 16384 + 8192


def test_numbers_of_early_releases_are_read() -> None:
    assert free(a_reservation("g", "1"), fraction("a", "0.5", "g")) == [16384, 8192]


def test_pods_keep_their_order_and_their_names() -> None:
    pods = [
        fraction("a", "0.5", "g"), a_reservation("g", "GPU-aa"), a_reservation("h", "GPU-bb"),
        bound({}, name="plain"), fraction("b", "0.5", "unknown"),
    ]  # fmt: skip
    read = made().on_node(a_gpu_node(), pods)
    assert [pod.metadata.name for pod in read] == [pod.metadata.name for pod in pods]
    assert [pod.metadata.annotations.get(RESERVED) for pod in read] == [
        "GPU-aa#0", None, "GPU-bb#1", None, None,
    ]  # fmt: skip
    assert read[1].spec.containers[0].resources.limits == {}
    assert made().on_node(a_gpu_node(), pods[3:]) == pods[3:]
