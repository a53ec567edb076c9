"""`tessera place --preempt`: who would have to go, and why nobody would."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.cli.cluster import bound, node, pod, text
from tests.cli.conftest import Tessera
from tests.cli.gang_manifests import CARD, GROUP, group, queue

OWNER = [
    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
]
QUEUE = "scheduling.volcano.sh/queue-name"


def running(
    name: str,
    cards: str,
    priority: int = 0,
    *,
    age_s: float = 600,
    owned: bool = True,
    labels: Mapping[str, str] | None = None,
    notes: Mapping[str, str] | None = None,
    on: str = "n1",
    **spec: Any,
) -> dict[str, Any]:
    """A pod that runs; `cards` are its cards as `0:16384:100`, index, MiB and cores of each."""
    shares = (each.split(":") for each in cards.split())
    devices = "".join(f"GPU-{on}-{i},NVIDIA,{mib},{cores}:" for i, mib, cores in shares)
    made = bound(name, f"{devices};", on=on)
    made["metadata"] |= {"uid": name, "labels": dict(labels or {})}
    made["metadata"]["annotations"] |= dict(notes or {})
    if owned:
        made["metadata"]["ownerReferences"] = OWNER
    made["spec"] |= {"priority": priority, **spec}
    made["status"]["startTime"] = ago(age_s)
    return made


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def waiting(name: str, limits: Mapping[str, Any], priority: int | None = 10, **more: Any) -> Any:
    made = pod(name, limits, **more)
    if priority is not None:
        made["spec"]["priority"] = priority
    return made


def share(mib: int, cores: int = 0) -> dict[str, Any]:
    asked: dict[str, Any] = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": mib}
    return {**asked, "nvidia.com/gpucores": cores} if cores else asked


def answer(tessera: Tessera, *objects: Any, name: str = "high") -> dict[str, Any]:
    ran = tessera("place", "--preempt", "-f", "-", "-o", "json", stdin=text(*objects))
    assert ran.status == 2, ran
    pods = {each["name"]: each for each in json.loads(ran.out)["pods"]}
    found: dict[str, Any] = pods[name]["preempt"]
    return found


def victims(found: Mapping[str, Any]) -> set[str]:
    return {victim["name"] for victim in found["victims"]}


def test_cards_of_pods_of_no_lower_priority(tessera: Tessera) -> None:
    """GF1: `low` has CPU, and none of the cards that are short."""
    low = pod("low", {"cpu": "1"}, uid="low", ownerReferences=OWNER)
    low["spec"] |= {"nodeName": "n1", "priority": 10}
    low["status"] = {"phase": "Running", "startTime": ago(600)}
    other = running("other", "0:16384:100 1:16384:100", 100_000)
    found = answer(tessera, node(capacity={"cpu": "2"}), low, other, waiting("high", CARD, 100_000))
    assert (found["victims"], found["seats"], found["cost"]) == ([], [], None)
    assert found["message"] == (
        "nobody would be evicted for it: no pod that holds cards may go: 1 not of lower priority"
    )


def test_one_pod_of_one_card_goes(tessera: Tessera) -> None:
    """GF2: sums over the node say nothing; the cheapest of four goes."""
    pods = [running("a", "0:6144:0", 1), running("b", "0:6144:0", 1),
            running("c", "1:8192:0", 1), running("d", "1:8192:0", 1)]  # fmt: skip
    found = answer(tessera, node(), *pods, waiting("high", share(8192)))
    assert victims(found) in ({"a"}, {"b"})
    assert found["cost"]["card_seconds"] == pytest.approx(247.5, abs=5)
    assert [seat["cards"][0]["index"] for seat in found["seats"]] == [0]


def test_the_card_that_leaves_enough_is_freed(tessera: Tessera) -> None:
    """GF3"""
    pods = [running("whole", "0:16384:100", 50), running("half", "1:8192:50", 50)]
    found = answer(tessera, node(), *pods, waiting("high", share(9830, 60), 100))
    assert victims(found) == {"half"}
    assert found["seats"][0]["cards"] == [{"id": "GPU-n1-1", "index": 1}]


def test_a_gang_goes_whole(tessera: Tessera) -> None:
    """GF4"""
    pods = [running(f"t{i}", f"{i}:16384:100", 50, notes={GROUP: "t"}) for i in (0, 1)]
    found = answer(tessera, node(), group("t", minMember=2), *pods, waiting("high", CARD, 100))
    assert victims(found) == {"t0", "t1"}
    assert (found["cost"]["gangs"], found["victims"][0]["gang"]) == (1, "default/t")


def test_of_a_gang_what_is_beyond_its_minimum_goes_first(tessera: Tessera) -> None:
    pods = [running(f"t{i}", f"{i}:16384:100", notes={GROUP: "t"}) for i in range(3)]
    found = answer(
        tessera, node(cards=3), group("t", minMember=2), *pods, waiting("high", CARD, 100)
    )
    assert len(found["victims"]) == 1
    assert found["cost"]["gangs"] == 0


def test_victims_only_where_the_queue_takes_the_pod_in_the_end(tessera: Tessera) -> None:
    """GF5: without `v1` there is room on n1, and the queue would be over its cap."""
    notes = {QUEUE: "q"}
    v2 = " ".join(f"{i}:16384:100" for i in range(4))
    found = answer(
        tessera, node("n1", 3), node("n2", 4), queue("q", capability={"nvidia.com/gpu": 6}),
        running("v1", "0:16384:100", 10, notes=notes),
        running("v2", v2, 10, notes=notes, on="n2"),
        waiting("high", {"nvidia.com/gpu": 3}, 100, annotations=notes),
    )  # fmt: skip
    assert victims(found) == {"v2"}


def test_pods_of_another_queue_stay(tessera: Tessera) -> None:
    v = running("v", "0:16384:100", 1, notes={QUEUE: "other"})
    high = waiting("high", CARD, annotations={QUEUE: "q"})
    found = answer(tessera, node(cards=1), queue("q"), queue("other"), v, high)
    assert found["message"].endswith("no pod that holds cards may go: 1 of another queue")


def test_pods_of_another_queue_stay_where_only_pods_name_it(tessera: Tessera) -> None:
    v = running("v", "0:16384:100", 1, notes={QUEUE: "other"})
    high = waiting("high", CARD, annotations={QUEUE: "q"})
    found = answer(tessera, node(cards=1), v, high)
    assert found["message"].endswith("no pod that holds cards may go: 1 of another queue")


def test_a_gang_takes_what_its_minimum_needs(tessera: Tessera) -> None:
    pods = [running(f"v{i}", f"{i}:16384:100", 1, age_s=100 * (i + 1)) for i in range(4)]
    members = [waiting(f"g{n}", CARD, 10, annotations={GROUP: "g"}) for n in range(3)]
    objects = (node(cards=4), group("g", minMember=2), *pods, *members)
    ran = tessera("place", "--preempt", "-f", "-", "-o", "json", stdin=text(*objects))
    (gang,) = json.loads(ran.out)["gangs"]
    assert victims(gang["preempt"]) == {"v0", "v1"}
    assert {seat["name"] for seat in gang["preempt"]["seats"]} <= {"g0", "g1", "g2"}
    assert all(each["preempt"] is None for each in json.loads(ran.out)["pods"])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"owned": False}, "1 without a controller"),
        ({"age_s": 20}, "1 running for less than 60 s"),
        ({"notes": {GROUP: "unseen"}}, "of a gang that cannot be read (default/unseen)"),
        ({"notes": {"volcano.sh/preemptable": "false"}}, "volcano.sh/preemptable"),
        (
            {"notes": {"volcano.sh/cooldown-time": "1h"}},
            "1 running for less than volcano.sh/cooldown-time says",
        ),
        ({"notes": {"tessera.dev/preemptible": "false"}}, "tessera.dev/preemptible"),
        (
            {"labels": {"scheduling.koordinator.sh/disable-preemptible": "true"}},
            "scheduling.koordinator.sh/disable-preemptible",
        ),
        ({"labels": {"app": "web"}}, "guarded by a disruption budget"),
    ],
)
def test_who_is_protected(tessera: Tessera, change: dict[str, Any], why: str) -> None:
    budget = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}}, "status": {"disruptionsAllowed": 0},
    }  # fmt: skip
    objects = node(cards=1), budget, running("v", "0:16384:100", **change)
    found = answer(tessera, *objects, waiting("high", CARD))
    assert found["victims"] == []
    assert why in found["message"]


def test_an_owner_may_say_that_a_pod_without_controller_goes(tessera: Tessera) -> None:
    mine = running("v", "0:16384:100", owned=False, notes={"tessera.dev/preemptible": "true"})
    assert victims(answer(tessera, node(cards=1), mine, waiting("high", CARD))) == {"v"}


def test_work_before_a_checkpoint_is_not_lost(tessera: Tessera) -> None:
    saved = running("old", "0:16384:100", age_s=9000,
                    notes={"tessera.dev/checkpointed-at": ago(40)})  # fmt: skip
    found = answer(tessera, node(), saved, running("new", "1:16384:100"), waiting("high", CARD))
    assert victims(found) == {"old"}
    assert found["cost"]["card_seconds"] == pytest.approx(100, abs=5)


def test_a_pod_that_is_being_deleted_leaves_its_room(tessera: Tessera) -> None:
    leaving = running("v", "0:16384:100")
    leaving["metadata"]["deletionTimestamp"] = ago(1)
    found = answer(tessera, node(cards=1), leaving, waiting("high", CARD))
    assert (found["victims"], found["cost"]) == ([], None)
    assert found["message"] == "it fits once the pods that are being deleted have gone"
    assert found["seats"][0]["node"] == "n1"


def test_priorities_come_from_classes(tessera: Tessera) -> None:
    high, never = (waiting(name, CARD, None) for name in ("high", "never"))
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 7,
         "metadata": {"name": name}, "preemptionPolicy": policy}
        for name, policy in (("high", "PreemptLowerPriority"), ("never", "Never"))
    ]  # fmt: skip
    for each, name in ((high, "high"), (never, "never")):
        each["spec"]["priorityClassName"] = name
    objects = (node(cards=1), running("v", "0:16384:100", 6), *classes, high, never)
    assert victims(answer(tessera, *objects)) == {"v"}
    assert (
        "spec.preemptionPolicy of default/never is Never"
        in (answer(tessera, *objects, name="never")["message"])
    )
    ran = tessera("place", "--preempt", "-f", "-", "-o", "json",
                  stdin=text(node(cards=1), running("v", "0:16384:100", 6), high))  # fmt: skip
    (warning,) = ran.pods[0]["warnings"]
    assert warning.startswith("spec.priorityClassName: high: no PriorityClass of this name was")


def test_a_table_says_who_where_and_at_what_cost(
    tessera: Tessera, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    pods = running("v", "0:16384:100", 1, age_s=3540), running("w", "1:16384:100", 20)
    ran = tessera(
        "place", "--preempt", "-f", "-",
        stdin=text(node(), *pods, waiting("high", CARD), waiting("low", CARD, 1)),
    )  # fmt: skip
    assert "default/v on n1, card 0" in ran.out
    assert "60 card-minutes" in ran.out
    assert "default/low: nobody would be evicted for it" in ran.out
    assert "preemption is only shown" in ran.out
    assert ran.status == 2


def test_without_the_option_nothing_is_said_of_it(tessera: Tessera) -> None:
    objects = text(node(cards=1), running("v", "0:16384:100"), waiting("high", CARD))
    assert "preempt" not in tessera("place", "-f", "-", "-o", "json", stdin=objects).out
    assert "preempt" not in tessera("place", "-f", "-", stdin=objects).out


def test_queues_give_back_with_reclaim(tessera: Tessera) -> None:
    """By weight each of two queues deserves one of two cards, whatever the priorities"""
    lender = [
        running(f"b{n}", f"{n}:16384:100", 100, notes={QUEUE: "b"}, age_s=600 - n) for n in range(2)
    ]
    mine = waiting("mine", CARD, 0, annotations={QUEUE: "a"})
    objects = text(node(cards=2), queue("a"), queue("b"), *lender, mine)
    ran = tessera("place", "--reclaim", "-f", "-", "-o", "json", stdin=objects)
    found = json.loads(ran.out)["pods"][0]["preempt"]
    assert [(each["name"], each["lender"]) for each in found["victims"]] == [("b1", "b")]
    assert "queue b gives back" in found["message"]
    ran = tessera("place", "--reclaim", "-f", "-", stdin=objects)
    assert "queue b gives back" in ran.out
    ran = tessera("place", "--preempt", "-f", "-", "-o", "json", stdin=objects)
    found = json.loads(ran.out)["pods"][0]["preempt"]
    assert found["victims"] == []
    assert "2 not of lower priority" in found["message"]
