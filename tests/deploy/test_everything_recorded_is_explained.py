"""Every reason and every event that the code can report stands in operations.md, and nothing
else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tessera_agent.events import ContainerAlert, ContainerEnd
from tessera_core.node.container_admission import RefusalReason
from tessera_scheduler.alerts import AlertReason
from tessera_schema.reasons import Reason
from tests.deploy.manifests import ROOT

RECORDS: Final = re.compile(
    r"""(?:record|tell|tell_event|_event)\((?:[^()"]|\([^()]*\))*?"([A-Z][A-Za-z]+)\""""
)
"""A call that records an event, up to its reason where that is written there."""
CALLS: Final = re.compile(r"events\.record\((?:[^()]|\([^()]*\))*\)")
NAMED: Final = re.compile(r"`([A-Z][A-Za-z]+)`")


def section(title: str) -> str:
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    found: str = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    assert found, title
    return found


def rows(title: str) -> set[str]:
    """What stands in the first column of the table."""
    first = (line.split("|")[1] for line in section(title).splitlines() if line.startswith("| `"))
    return {name for cell in first for name in NAMED.findall(cell)}


def written() -> set[str]:
    """Reasons of events that are written where they are recorded."""
    found: set[str] = set()
    for path in sources():
        found |= set(RECORDS.findall(path.read_text(encoding="utf-8")))
    return found


def sources() -> list[Path]:
    return [p for service in ("scheduler", "agent", "quota", "rebalancer")
            for p in (ROOT / f"services/{service}/src").rglob("*.py")]  # fmt: skip


def test_every_reason_to_wait_is_explained() -> None:
    assert rows("Why a pod waits") == {reason.wire for reason in Reason}


def test_every_event_is_explained() -> None:
    reported = written()
    assert {"Cards", "IdleGrant", "QuotaExceeded", "RebalanceFailed", "ResizeRefused"} <= reported
    reasons = (AlertReason, RefusalReason, ContainerAlert, ContainerEnd)
    assert rows("Events") == {*reported, *(str(reason) for each in reasons for reason in each)}


def test_the_reasons_of_events_are_nowhere_else() -> None:
    """`EventRecorder.record` is given a word, or one of these enumerations."""
    known = ('"', "reason", "str(alarm.wrong)", "about, reason")
    calls = [
        (path, call)
        for path in sources()
        for call in CALLS.findall(path.read_text(encoding="utf-8"))
    ]
    assert calls
    for path, call in calls:
        assert any(word in call for word in known), (path, call)
