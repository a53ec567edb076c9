"""Findings as a table for people, and as a document for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from rich.text import Text

from tessera_cli.screen import Screen
from tessera_cli.text import printable
from tessera_core.preflight.findings import Finding, FindingState
from tessera_core.preflight.snapshot import InstallationSnapshot

MOST: Final = 5
"""Findings of one check that are printed: hundreds of nodes may have the same fault."""
_HEADS: Final = ("State", "Check", "Found")
_STYLES: Final = {
    FindingState.OK: "green",
    FindingState.WARNING: "yellow",
    FindingState.FAILED: "bold red",
    FindingState.UNKNOWN: "dim",
}


def show(
    to: Screen, cluster: InstallationSnapshot, findings: Sequence[Finding], *, every: bool
) -> None:
    """Print a row for each finding that is not ok, or for `every` one, what mends it below, and how
    many there are of each state."""
    wanted = [one for one in findings if every or one.state is not FindingState.OK]
    counts = Counter(one.name for one in wanted)
    shown = [one for name in counts for one in _of_check(wanted, name)[:MOST]]
    if shown:
        table = to.grid(*_HEADS, unbroken=("State", "Check"))
        for one in shown:
            table.add_row(*_row(one))
        to.print(table)
    for name, count in counts.items():
        if count > MOST:
            to.print(Text(f"{name}: {count - MOST} more (-o json has all)"))
    remedies = dict.fromkeys((one.name, one.remedy) for one in shown if one.remedy)
    for name, remedy in remedies:
        to.print(Text(printable(f"{name}: {remedy}")), soft_wrap=True)
    to.print(Text(_summary(cluster, findings)))


def _of_check(findings: Sequence[Finding], name: str) -> list[Finding]:
    return [one for one in findings if one.name == name]


def _row(one: Finding) -> Iterator[Text]:
    yield Text(str(one.state), style=_STYLES[one.state])
    yield Text(f"{one.group}/{one.name}")
    yield Text(printable(one.found))


def _summary(cluster: InstallationSnapshot, findings: Sequence[Finding]) -> str:
    counts = Counter(one.state for one in findings)
    parts = ", ".join(f"{counts[state]} {state}" for state in FindingState if counts[state])
    return parts if cluster.installed else f"{parts}; Tessera is not installed yet"


def document(cluster: InstallationSnapshot, findings: Sequence[Finding]) -> bytes:
    """All findings as JSON."""
    answer = {
        "installed": cluster.installed,
        "failed": any(one.state is FindingState.FAILED for one in findings),
        "findings": findings,
    }
    return msgspec.json.encode(answer) + b"\n"
