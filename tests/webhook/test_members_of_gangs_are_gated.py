"""Where gangs start whole, new members get Tessera's scheduler and the scheduling gate."""

from __future__ import annotations

from typing import Any

import pytest

from tessera_core.admission.exempt_pods import scope_of
from tessera_core.gangs.gates import GatedPods
from tessera_embedded.apiserver.admission.cel import evaluate, parse
from tessera_scheduler.webhook.registration import (
    RegistrationInput,
    RegistrationSettings,
    configurations,
)
from tessera_schema.annotation_keys import SCHEDULER
from tests.webhook.setting import (
    REGISTRY,
    WRITERS,
    Json,
    a_manifest,
    admitted,
    mutated,
    patch_of,
    the_rules,
    validated,
)

GATE = {"name": "tessera.dev/admission"}
GANG = {"scheduling.k8s.io/group-name": "g"}
QUEUE = {"scheduling.volcano.sh/queue-name": "q"}
ON = the_rules(whole_gangs=True, gated=GatedPods.GANGS_AND_QUEUES, schedulers=[SCHEDULER])
GANGS_ONLY = the_rules(whole_gangs=True, gated=GatedPods.GANGS, schedulers=[SCHEDULER])
WAITING: list[bool] = []
"""Not empty while others wait."""
SPARING = the_rules(
    whole_gangs=True, gated=GatedPods.WHILE_OTHERS_WAIT, schedulers=[SCHEDULER],
    others_wait=lambda: bool(WAITING),
)  # fmt: skip
UNGATED = the_rules(whole_gangs=True, schedulers=[SCHEDULER])
OFF = the_rules(schedulers=[SCHEDULER])


def gates(pod: Json) -> list[Json]:
    found: list[Json] = pod["spec"].get("schedulingGates", [])
    return found


@pytest.mark.parametrize("limits", [None, {}], ids=["with cards", "without cards"])
def test_a_member_gets_the_gate_and_the_scheduler(limits: dict[str, str] | None) -> None:
    """GA8"""
    pod = admitted(a_manifest(limits, notes=GANG), rules=ON)
    assert gates(pod) == [GATE]
    assert pod["spec"]["schedulerName"] == SCHEDULER
    assert validated(pod, rules=ON).allowed
    assert patch_of(mutated(pod, rules=ON)) == []


def test_a_launcher_of_a_kubernetes_group_too() -> None:
    """GA8"""
    launcher = a_manifest({}, schedulingGroup={"podGroupName": "pg1"}, schedulerName="")
    pod = admitted(launcher, rules=ON)
    assert gates(pod) == [GATE]
    assert pod["spec"]["schedulerName"] == SCHEDULER


def test_gates_of_others_stay() -> None:
    other = {"name": "kueue.x-k8s.io/admission"}
    pod = admitted(a_manifest(notes=GANG, schedulingGates=[other]), rules=ON)
    assert gates(pod) == [other, GATE]


def test_a_queue_is_enough_where_the_setting_says_so() -> None:
    assert gates(admitted(a_manifest(notes=QUEUE), rules=ON)) == [GATE]
    assert gates(admitted(a_manifest(notes=QUEUE), rules=GANGS_ONLY)) == []
    assert patch_of(mutated(a_manifest({}, notes=QUEUE), rules=ON)) == [], "it asks for no cards"


@pytest.mark.parametrize("names", [GANG, QUEUE], ids=["gang", "queue"])
def test_a_pod_with_cards_is_gated_while_others_wait(names: dict[str, str]) -> None:
    assert gates(admitted(a_manifest(notes=names), rules=SPARING)) == []
    WAITING.append(True)
    try:
        assert gates(admitted(a_manifest(notes=names), rules=SPARING)) == [GATE]
    finally:
        WAITING.clear()


def test_a_member_without_cards_is_gated_also_where_nobody_waits() -> None:
    assert gates(admitted(a_manifest({}, notes=GANG), rules=SPARING)) == [GATE]


@pytest.mark.parametrize("rules", [UNGATED, OFF], ids=["none", "off"])
def test_nobody_is_gated_where_it_is_switched_off(rules: Any) -> None:
    assert gates(admitted(a_manifest(notes=GANG), rules=rules)) == []


def test_without_gates_a_member_without_cards_has_the_scheduler_all_the_same() -> None:
    pod = admitted(a_manifest({}, notes=GANG), rules=UNGATED)
    assert pod["spec"]["schedulerName"] == SCHEDULER
    assert patch_of(mutated(a_manifest({}, notes=GANG), rules=OFF)) == []


def test_a_pod_that_names_two_gangs_is_not_gated() -> None:
    two = a_manifest(notes={**GANG, "gang.scheduling.koordinator.sh/name": "other"})
    assert gates(admitted(two, rules=ON)) == []


@pytest.mark.parametrize("limits", [None, {}], ids=["with cards", "without cards"])
def test_a_member_of_another_scheduler_is_left_alone(limits: dict[str, str] | None) -> None:
    pod = admitted(a_manifest(limits, notes=GANG, schedulerName="volcano"), rules=ON)
    assert gates(pod) == []
    assert pod["spec"]["schedulerName"] == "volcano"


def test_a_pod_that_opts_out_is_left_alone() -> None:
    pod = a_manifest({}, notes=GANG)
    pod["metadata"]["labels"] = {"hami.io/webhook": "ignore"}
    assert patch_of(mutated(pod, rules=ON)) == []


def test_what_a_tenant_writes_about_its_gang_is_taken_away() -> None:
    cards: tuple[dict[str, str] | None, ...] = (None, {})
    for limits in cards:
        forged = a_manifest(limits, notes={**GANG, "tessera.dev/gang": '{"v":1}'})
        assert "tessera.dev/gang" not in admitted(forged, rules=ON)["metadata"]["annotations"]


# -- who is called


def conditions(*, whole_gangs: bool) -> dict[str, list[str]]:
    terms = RegistrationInput(
        namespace="tessera-system", settings=RegistrationSettings(), writers=frozenset([WRITERS]),
        port=8443, scope=scope_of(REGISTRY, [SCHEDULER]), whole_gangs=whole_gangs,
    )  # fmt: skip
    (_, mutating), _ = configurations(REGISTRY, terms, b"")
    return {
        hook["name"].partition(".")[0]: [each["expression"] for each in hook["matchConditions"]]
        for hook in mutating
    }


def called(name: str, pod: Json, *, whole_gangs: bool) -> bool:
    found = conditions(whole_gangs=whole_gangs).get(name)
    return found is not None and all(
        evaluate(parse(each), {"object": pod}) is True for each in found
    )


MEMBERS = [
    a_manifest({}, notes=GANG), a_manifest({}, notes={"kueue.x-k8s.io/pod-group-name": "g"}),
    a_manifest({}, schedulingGroup={"podGroupName": "g"}),
]  # fmt: skip


@pytest.mark.parametrize("pod", MEMBERS)
def test_members_without_cards_are_reviewed_where_gangs_start_whole(pod: Json) -> None:
    assert called("admit", pod, whole_gangs=True)
    assert not called("admit", pod, whole_gangs=False)


def test_labels_name_gangs_too() -> None:
    for label in ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io"):
        pod = a_manifest({})
        pod["metadata"]["labels"] = {label: "g"}
        assert called("admit", pod, whole_gangs=True)
        assert not called("plain", pod, whole_gangs=True)


def test_other_pods_do_not_depend_on_the_webhook() -> None:
    for pod in (a_manifest({}), a_manifest({}, notes=GANG, schedulerName="volcano")):
        assert not called("admit", pod, whole_gangs=True)
