"""What differs is written, and nothing where somebody else writes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tessera_core.gang_status.patches import only_words, status_patch
from tessera_core.gang_status.writers import other_writer
from tests.core.gang_status.builders import NOW, a_group

OWN = "tessera-scheduler"
AT = 1_000_000.0


def test_a_patch_has_what_differs_and_the_version_that_was_read() -> None:
    group = a_group(2, "Pending", status={"running": 1, "odd": "x"})
    patch = status_patch(group, {"phase": "Inqueue", "running": 1})
    assert msgspec.json.decode(patch) == {
        "metadata": {"resourceVersion": "7"},
        "status": {"phase": "Inqueue", "odd": None},
    }


def test_where_nothing_differs_there_is_no_patch() -> None:
    assert status_patch(a_group(2, "Pending"), {"phase": "Pending"}) == b""


def test_another_message_is_only_words_another_phase_or_reason_is_not() -> None:
    before = {"type": "Unschedulable", "status": "True", "reason": "r", "message": "1 of 2"}
    group = a_group(2, "Pending", status={"conditions": [before]})
    other = {**before, "message": "0 of 2", "lastTransitionTime": NOW}
    assert only_words(group, {"phase": "Pending", "conditions": [other]})
    assert not only_words(group, {"phase": "Inqueue", "conditions": [other]})
    assert not only_words(group, {"phase": "Pending", "conditions": [{**other, "reason": "x"}]})
    assert not only_words(group, {"phase": "Pending", "conditions": [before]})


def _entry(manager: str, ago_s: float, *fields: str) -> dict[str, Any]:
    status: dict[str, Any] = {f"f:{name}": {} for name in fields}
    return {
        "manager": manager,
        "time": str(AT - ago_s),
        "fieldsV1": {"f:status": {".": {}, **status}} if fields else {"f:spec": {}},
    }


@pytest.mark.parametrize(
    ("phase", "entries", "other"),
    [
        ("Inqueue", [_entry("vc-scheduler", 60, "phase")], "vc-scheduler"),
        ("Inqueue", [_entry("vc-scheduler", 700, "phase")], ""),
        ("Inqueue", [_entry(OWN, 5, "phase")], ""),
        ("Pending", [_entry("vc-controller-manager", 5, "phase")], ""),
        ("", [_entry("kubectl-create", 5)], ""),
        ("Running", [_entry("kubectl-edit", 5)], ""),
        ("Pending", [_entry("vc-scheduler", 5, "phase", "conditions")], "vc-scheduler"),
        ("Inqueue", [_entry(OWN, 5, "phase"), _entry("x", 60, "conditions")], "x"),
        ("Inqueue", [_entry("", 60, "phase")], "unnamed"),
    ],
)
def test_who_wrote_the_status_lately_keeps_tessera_from_writing(
    phase: str, entries: list[dict[str, Any]], other: str
) -> None:
    group = a_group(2, phase, managed=entries)
    assert other_writer(group, OWN, AT, float) == other
