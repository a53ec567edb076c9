"""The status of Koordinator's PodGroups: every phase, counts and times."""

from __future__ import annotations

import pytest

from tessera_core.gang_status.koordinator import koordinator_phase, koordinator_status
from tessera_core.gang_status.pod_counts import MemberPod, count_pods
from tessera_core.gangs.gang import GangOrigin
from tests.core.gang_status.builders import LATER, NOW, a_group, pods


@pytest.mark.parametrize(
    ("was", "words", "phase"),
    [
        ("Scheduled", ("Running", "Running"), "Running"),
        ("Scheduled", ("Failed", "Failed"), "Failed"),
        ("Scheduled", ("Succeeded", "Succeeded"), "Finished"),
        ("Scheduling", ("Pending bound", "Pending bound"), "Scheduled"),
        ("Pending", ("Pending",), "Pending"),
        ("Running", (), "Pending"),
        ("", (), "Pending"),
        ("Pending", ("Pending", "Pending"), "PreScheduling"),
        ("PreScheduling", ("Pending bound", "Pending"), "Scheduling"),
        ("Running", ("Running", "Failed"), "Failed"),
        ("Running", ("Running", "Succeeded"), "Running"),
        ("Running", ("Running", "Running", "Failed"), "Failed"),
    ],
)
def test_the_phase_follows_from_the_pods(was: str, words: tuple[str, ...], phase: str) -> None:
    """GD3"""
    group = a_group(2, was, origin=GangOrigin.KOORDINATOR)
    assert koordinator_phase(group, pods(*words)) == phase


def test_counts_and_the_first_time_that_scheduling_began_are_written() -> None:
    group = a_group(2, "PreScheduling", origin=GangOrigin.KOORDINATOR)
    first = koordinator_status(group, pods("Running", "Pending"), NOW)
    assert first == {
        "phase": "Scheduling",
        "scheduled": 1,
        "running": 1,
        "scheduleStartTime": NOW,
    }
    again = a_group(2, origin=GangOrigin.KOORDINATOR, status=first)
    assert koordinator_status(again, pods("Running", "Pending"), LATER) == first


def test_whose_pods_the_group_is_for_is_written_once_enough_are_there() -> None:
    owned = [
        MemberPod(uid=f"u{n}", namespace="team", name=f"p{n}", phase="Pending", owners=owners)
        for n, owners in enumerate((("train", "ml"), ("other",)))
    ]
    short = koordinator_status(a_group(3, "Pending"), count_pods(owned), NOW)
    assert "occupiedBy" not in short
    enough = koordinator_status(a_group(2, "Pending"), count_pods(owned), NOW)
    assert enough["occupiedBy"] == "team/ml,team/train"
    later = a_group(2, origin=GangOrigin.KOORDINATOR, status=enough)
    assert koordinator_status(later, count_pods(owned[1:] * 2), NOW) == enough


def test_pods_without_an_owner_occupy_nothing() -> None:
    status = koordinator_status(a_group(2, "Pending"), pods("Pending", "Pending"), NOW)
    assert "occupiedBy" not in status
