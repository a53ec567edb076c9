"""What the first in line will get stays reserved; others pass that do not delay it."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from tessera_cli.place.json_output import reserved
from tessera_cli.place.place import Plan, place
from tests.cli.cluster import node, pod, text
from tests.cli.conftest import Tessera
from tests.cli.gang_manifests import CARD, group, holder, member

NOW = 1_800_000_000
STARTED = "2027-01-15T07:50:00Z"
"""600 s before."""
EXPECTED = "tessera.dev/expected-seconds"
KUEUE = "kueue.x-k8s.io/max-exec-time-seconds"


def running(name: str, card: int, on: str = "n1", **says: Any) -> Any:
    """A pod with a whole card that has run for 600 s."""
    made = holder(name, card, on)
    made["status"]["startTime"] = STARTED
    made["metadata"].setdefault("annotations", {}).update(says.get("annotations", {}))
    made["metadata"]["labels"] = says.get("labels", {})
    made["spec"].update(says.get("spec", {}))
    return made


def waiting(name: str, cards: int, expected: int | None = None, **spec: Any) -> Any:
    notes = {} if expected is None else {EXPECTED: str(expected)}
    made = pod(name, {"nvidia.com/gpu": cards}, annotations=notes)
    made["spec"].update(spec)
    return made


def planned(*objects: Any) -> Plan:
    """The plan at one moment."""
    stdin = io.BytesIO(text(*objects).encode())
    return place(["-"], stdin=stdin, notify=lambda _: None, now_ns=NOW * 10**9)


def answers(plan: Plan) -> dict[str, tuple[str, str]]:
    return {each.pod.metadata.name: (each.verdict.value, each.message) for each in plan.outcomes}


LONG = {EXPECTED: "1200"}
"""Said by a pod that ends in 600 s."""


def test_those_pass_that_end_before_it_starts() -> None:
    """GE5"""
    plan = planned(
        node(cards=8), *(running(f"r{n}", n, annotations=LONG) for n in range(4)),
        waiting("big", 8), waiting("s1", 2, 300), waiting("s2", 2, 3600),
    )  # fmt: skip
    found = answers(plan)
    assert found["big"][0] == "waiting"
    assert found["big"][1].endswith("; fits in 600 s: 8 cards are reserved for it until then")
    assert found["s1"][0] == "placed"
    assert found["s2"][0] == "waiting"
    assert found["s2"][1].endswith(
        "; would delay pod default/big: its cards are reserved until 2027-01-15T08:10:00Z; a pod "
        "passes that says in activeDeadlineSeconds or tessera.dev/expected-seconds that it ends "
        "before, or has a higher priority"
    )
    (shadow,) = plan.shadows
    assert reserved(shadow) == {
        "for": "pod default/big",
        "expected_start": "2027-01-15T08:10:00Z",
        "cards": {"n1": [f"GPU-n1-{n}" for n in range(8)]},
    }


def test_a_gang_has_its_cards_reserved_and_others_get_the_rest() -> None:
    gang = [group("g", minMember=2), *(member(f"g{n}", "g", {"nvidia.com/gpu": 2}) for n in (1, 2))]
    plan = planned(
        node(cards=4), node("n2", cards=2), running("r", 0, annotations=LONG),
        running("x", 0, "n2"), *gang, waiting("s", 1), waiting("t", 1),
    )  # fmt: skip
    found = answers(plan)
    assert {found["g1"][0], found["g2"][0]} == {"waiting"}
    (outcome,) = plan.gangs
    assert outcome.message.endswith("; fits in 600 s: 4 cards are reserved for it until then")
    assert found["s"][0] == "placed"
    assert plan.outcomes[2].node == "n2"
    assert found["t"][0] == "waiting"
    assert "would delay gang default/g" in found["t"][1]


def test_a_gang_passes_only_whole() -> None:
    """The last member to end decides, and one that does not say decides against all."""

    def verdict(*expected: int | None) -> str:
        members = [member(f"g{n}", "g", CARD) for n in range(2)]
        for each, seconds in zip(members, expected, strict=True):
            if seconds is not None:
                each["metadata"]["annotations"][EXPECTED] = str(seconds)
        plan = planned(
            node(cards=4), running("r", 0, annotations=LONG), waiting("big", 4),
            group("g", minMember=2), *members,
        )  # fmt: skip
        return answers(plan)["g0"][0]

    assert verdict(300, 500) == "placed"
    assert verdict(300, 700) == "waiting"
    assert verdict(300, None) == "waiting"


@pytest.mark.parametrize(
    ("says", "at"),
    [
        ({"annotations": {EXPECTED: "700"}}, "2027-01-15T08:01:40Z"),
        ({"labels": {KUEUE: "900"}}, "2027-01-15T08:05:00Z"),
        ({"spec": {"activeDeadlineSeconds": 1000}}, "2027-01-15T08:06:40Z"),
        (
            {"annotations": {EXPECTED: "5000"}, "labels": {KUEUE: "900"},
             "spec": {"activeDeadlineSeconds": 1000}},
            "2027-01-15T08:05:00Z",
        ),
        ({"annotations": {EXPECTED: "400"}}, "2027-01-15T08:03:20Z"),
    ],
    ids=["ours", "Kueue's", "deadline", "the least counts", "late by 200 s: as much again"],
)  # fmt: skip
def test_what_a_pod_says_of_its_end(says: dict[str, Any], at: str) -> None:
    plan = planned(node(cards=2), running("r", 0, **says), waiting("big", 2))
    (shadow,) = plan.shadows
    assert reserved(shadow)["expected_start"] == at


def test_a_job_ends_its_pods() -> None:
    """A Job's own deadline counts for the pods that it makes."""
    job = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {"activeDeadlineSeconds": 300, "template": waiting("", 1)},
    }  # fmt: skip
    plan = planned(node(cards=2), running("r", 0, annotations=LONG), waiting("big", 2), job)
    assert answers(plan)["j-0"][0] == "placed"


@pytest.mark.parametrize("said", ["-5", "soon", "inf", "nan", "0", "1e30", ""])
def test_what_is_no_end_says_nothing(said: str) -> None:
    plan = planned(
        node(cards=2), running("r", 0, annotations={EXPECTED: said}), waiting("big", 2),
        waiting("s", 1),
    )  # fmt: skip
    assert plan.shadows == []
    assert answers(plan)["s"][0] == "placed"


def test_what_no_end_helps_reserves_nothing_and_the_next_one_does() -> None:
    plan = planned(
        node(cards=2), running("r", 0, annotations=LONG), waiting("never", 3), waiting("big", 2)
    )
    assert answers(plan)["never"][1].endswith("1 NodeInsufficientDevice")
    (shadow,) = plan.shadows
    assert shadow.of == "pod default/big"


USE = "nvidia.com/use-gputype"
BOTH = "A100,H100"


def of(model: str, made: Any) -> Any:
    """The pod takes these models alone."""
    made["metadata"].setdefault("annotations", {})[USE] = model
    return made


def two_models() -> list[Any]:
    """Four A100, of which two come free after 600 s, and two H100, which come free after 700 s."""
    return [
        node(cards=4), node("n2", cards=2, type="NVIDIA-H100"),
        *(running(f"a{n}", n, annotations=LONG) for n in range(2)),
        *(running(f"h{n}", n, "n2", annotations={EXPECTED: "1300"}) for n in range(2)),
    ]  # fmt: skip


def reserved_for(plan: Plan) -> dict[str, dict[str, int]]:
    return {
        each.of.removeprefix("pod default/"): {node: len(ids) for node, ids in each.cards.items()}
        for each in plan.shadows
    }


def test_the_first_one_for_each_model_has_cards_reserved() -> None:
    plan = planned(
        *two_models(), of("A100", waiting("big-a", 4)), of("A100", waiting("next-a", 4)),
        of("H100", waiting("big-h", 2)), of("H100", waiting("s", 1)), of("A100", waiting("t", 1)),
        of("H100", waiting("short", 1, 300)),
    )  # fmt: skip
    assert reserved_for(plan) == {"big-a": {"n1": 4}, "big-h": {"n2": 2}}
    found = answers(plan)
    assert found["big-h"][1].endswith("; fits in 700 s: 2 cards are reserved for it until then")
    assert "would delay pod default/big-a" in found["t"][1]
    assert [found[name][0] for name in ("next-a", "s", "t", "short")] == ["waiting"] * 4


def test_one_that_takes_two_models_leaves_the_other_one_to_the_next() -> None:
    plan = planned(
        *two_models(), of(BOTH, waiting("any", 4)), of("H100", waiting("big-h", 2)),
        of(BOTH, waiting("late", 2)),
    )  # fmt: skip
    assert reserved_for(plan) == {"any": {"n1": 4}, "big-h": {"n2": 2}}


def test_pods_of_a_model_that_nobody_waits_for_are_placed() -> None:
    plan = planned(
        node(cards=2), node("n2", cards=2, type="NVIDIA-H100"),
        running("r", 0, annotations=LONG), of("A100", waiting("big", 2)),
        of("H100", waiting("h", 2)),
    )  # fmt: skip
    assert reserved_for(plan) == {"big": {"n1": 2}}
    assert answers(plan)["h"][0] == "placed"


def test_a_higher_priority_passes() -> None:
    plan = planned(
        node(cards=2), running("r", 0, annotations=LONG), waiting("big", 2),
        waiting("same", 1), waiting("high", 1, priority=1),
    )  # fmt: skip
    found = answers(plan)
    assert (found["same"][0], found["high"][0]) == ("waiting", "placed")


def test_no_more_pods_have_to_end_than_are_needed() -> None:
    ends = {n: {EXPECTED: str(1000 + 100 * n)} for n in range(4)}
    holders = [running(f"r{n}", n, annotations=ends[n]) for n in range(4)]
    plan = planned(node(cards=4), *holders, waiting("big", 3))
    (shadow,) = plan.shadows
    assert shadow.at == NOW + 600
    assert shadow.cards == {"n1": {"GPU-n1-0", "GPU-n1-1", "GPU-n1-2"}}


def test_the_command_prints_it(tessera: Tessera, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    far = running("r", 0, annotations={EXPECTED: str(10**9)})
    objects = text(node(cards=2), far, waiting("big", 2), waiting("s", 1))
    ran = tessera("place", "-f", "-", stdin=objects)
    assert "reserved for pod default/big until 20" in ran.out
    assert "2 cards of n1" in ran.out
    answer = json.loads(tessera("place", "-f", "-", "-o", "json", stdin=objects).out)
    assert answer["reserved"][0]["for"] == "pod default/big"
    reasons = {each["code"]: each["message"] for each in answer["pods"][1]["reasons"]}
    assert reasons["CardReserved"] == (
        "1/2 CardReserved: reserved for who waits before this pod: GPU-n1-1"
    )


def test_advice_says_who_has_the_cards(tessera: Tessera) -> None:
    far = running("r", 0, annotations={EXPECTED: str(10**9)})
    objects = text(node(cards=2), far, waiting("big", 2), waiting("s", 1))
    answer = json.loads(tessera("place", "-f", "-", "--why", "-o", "json", stdin=objects).out)
    assert answer["pods"][1]["advice"].startswith(
        "would delay pod default/big: its cards are reserved until 20"
    )


def test_preemption_for_the_first_in_line_uses_its_own_cards(tessera: Tessera) -> None:
    """And not for one that would delay it."""
    far = running("r", 0, annotations={EXPECTED: str(10**9)}, spec={"priority": 0})
    far["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
    ]
    far["metadata"]["creationTimestamp"] = far["status"]["startTime"] = "2020-01-01T00:00:00Z"
    objects = text(node(cards=2), far, waiting("big", 2, priority=5), waiting("s", 1, priority=5))
    ran = tessera("place", "-f", "-", "--preempt", "-o", "json", stdin=objects)
    big, small = (each["preempt"] for each in json.loads(ran.out)["pods"])
    assert [victim["name"] for victim in big["victims"]] == ["r"]
    assert small["victims"] == []
