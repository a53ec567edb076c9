"""The status of Volcano's PodGroups: every phase, the counts, the conditions."""

from __future__ import annotations

from typing import Any

import pytest

from tessera_core.gang_status.groups import NO_GANG, GangSituation
from tessera_core.gang_status.volcano import volcano_phase, volcano_status
from tessera_core.machines.gang import GangPhase
from tests.core.gang_status.builders import LATER, NOW, STARTED, a_group, pods, waits


@pytest.mark.parametrize(
    ("was", "words", "unschedulable", "phase"),
    [
        ("Inqueue", ("Running", "Pending"), True, "Unknown"),
        ("Inqueue", ("Running", "Succeeded"), False, "Running"),
        ("Running", ("Succeeded", "Succeeded"), False, "Completed"),
        ("Running", ("Succeeded", "Failed"), False, "Completed"),
        ("Running", ("Running terminating", "Running"), False, "Running"),
        ("Inqueue", ("Pending", "Pending"), True, "Inqueue"),
        ("Pending", ("Pending", "Pending"), True, "Pending"),
        ("", ("Pending", "Pending"), False, "Pending"),
        ("Inqueue", ("Pending bound", "Pending bound"), False, "Running"),
        ("Running", ("Pending", "Pending"), False, "Pending"),
        ("Unknown", ("Pending",), True, "Pending"),
        ("Inqueue", (), False, "Inqueue"),
        ("Completed", (), False, "Pending"),
    ],
)
def test_the_phase_follows_from_the_pods(
    was: str, words: tuple[str, ...], *, unschedulable: bool, phase: str
) -> None:
    """GD2"""
    found = volcano_phase(a_group(2, was), pods(*words), unschedulable=unschedulable)
    assert found == phase


def test_a_group_without_pods_is_not_complete_however_small_its_minimum() -> None:
    assert volcano_phase(a_group(0), pods(), unschedulable=False) == "Pending"


@pytest.mark.parametrize("was", ["", "Pending"])
def test_a_pending_group_without_pods_is_let_in_so_that_its_pods_are_created(was: str) -> None:
    status = volcano_status(a_group(8, was), pods(), NO_GANG, may_enter=True, now=NOW)
    assert status == {"phase": "Inqueue"}
    status = volcano_status(a_group(8, was), pods(), NO_GANG, may_enter=False, now=NOW)
    assert status == {"phase": "Pending"}


def test_pods_are_counted_and_counts_that_were_written_go_back_to_nothing() -> None:
    words = ("Running", "Succeeded", "Failed")
    status = volcano_status(a_group(2), pods(*words), STARTED, may_enter=False, now=NOW)
    assert (status["running"], status["succeeded"], status["failed"]) == (1, 1, 1)
    before = a_group(2, "Running", status={"running": 2})
    after = volcano_status(
        before, pods("Succeeded", "Succeeded"), STARTED, may_enter=False, now=NOW
    )
    assert (after["phase"], after["running"]) == ("Completed", 0)
    assert "failed" not in after


def test_a_gang_that_does_not_fit_says_so_in_a_condition() -> None:
    status = volcano_status(
        a_group(2, "Inqueue"), pods("Pending", "Pending"), waits(), may_enter=True, now=NOW
    )
    (condition,) = status["conditions"]
    assert condition["message"] == "2/2 tasks in gang unschedulable: 0 of 2 members fit now"
    assert condition == {
        "type": "Unschedulable", "status": "True", "reason": "NotEnoughResources",
        "message": condition["message"], "lastTransitionTime": NOW,
        "transitionID": condition["transitionID"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("least", "spec", "words", "reason"),
    [
        (3, {}, ("Pending", "Pending"), "NotEnoughTasks"),
        (2, {}, ("Pending", "Failed"), "NotEnoughTasks"),
        (2, {"minTaskMember": {"a": 1, "b": 1}}, ("Pending role=b", "Pending role=b"),
         "NotEnoughPodsOfTask"),
        (2, {"minTaskMember": {"a": 2, "b": 1}}, ("Pending role=b", "Pending role=b"),
         "NotEnoughResources"),
    ],
)  # fmt: skip
def test_the_condition_names_what_is_missing(
    least: int, spec: dict[str, Any], words: tuple[str, ...], reason: str
) -> None:
    gang = GangSituation(phase=GangPhase.GATHERING, reason="too few")
    group = a_group(least, "Inqueue", **spec)
    status = volcano_status(group, pods(*words), gang, may_enter=True, now=NOW)
    assert [each["reason"] for each in status["conditions"]] == [reason]


def test_a_gang_that_was_not_tried_yet_gets_no_condition() -> None:
    group = a_group(2, "Inqueue")
    counts = pods("Pending", "Pending")
    status = volcano_status(group, counts, waits(tried=False), may_enter=True, now=NOW)
    assert "conditions" not in status


def test_a_condition_replaces_that_of_its_type_and_leaves_others() -> None:
    other = {"type": "Custom", "status": "True", "reason": "r"}
    old = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughTasks", "message": "m"}
    group = a_group(2, "Inqueue", status={"conditions": [old, other]})
    status = volcano_status(group, pods("Pending", "Pending"), waits(), may_enter=True, now=NOW)
    assert [each["reason"] for each in status["conditions"]] == ["NotEnoughResources", "r"]


def test_the_same_again_changes_nothing_not_even_a_time() -> None:
    counts = pods("Pending", "Pending")
    first = volcano_status(a_group(2, "Inqueue"), counts, waits(), may_enter=True, now=NOW)
    again = a_group(2, status=first)
    assert volcano_status(again, counts, waits(), may_enter=True, now=LATER) == first


def test_a_gang_that_starts_is_scheduled_and_no_longer_unschedulable() -> None:
    counts = pods("Running", "Running")
    old = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources"}
    group = a_group(2, "Inqueue", status={"conditions": [old]})
    first = volcano_status(group, counts, STARTED, may_enter=False, now=NOW)
    said = {each["type"]: each for each in first["conditions"]}
    assert (said["Unschedulable"]["status"], said["Scheduled"]["status"]) == ("False", "True")
    assert said["Scheduled"]["reason"] == "tasks in gang are ready to be scheduled"
    again = volcano_status(a_group(2, status=first), counts, STARTED, may_enter=False, now=LATER)
    assert again == first
