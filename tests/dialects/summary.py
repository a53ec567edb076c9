"""How many rows of each system's behaviour table hold: counted by running the tests.

    python -m tests.dialects.summary            run the rows' tests, print the table
    python -m tests.dialects.summary --write    and put it into docs/compatibility.md
    python -m tests.dialects.summary --listed   run nothing: every row that has a test counts

A test holds a row when the row's id stands in its parameters' id, its docstring or a comment.
It ends with 1 where a row in scope has no test or fails.
"""

from __future__ import annotations

import inspect
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
from msgspec import Struct, field

from tests.dialects.rows import SYSTEMS, System

HERE: Final = Path(__file__).parent
PAGE: Final = HERE.parents[1] / "docs" / "compatibility.md"
BEGIN, END = "<!-- rows: python -m tests.dialects.summary --write -->", "<!-- end of rows -->"
_HEAD: Final = (
    "| system | rows | in scope | held | otherwise on purpose | left out |",
    "| --- | --- | --- | --- | --- | --- |",
)


class Counted(Struct):
    """What was found of one system's rows."""

    system: System
    tests: dict[str, set[str]] = field(default_factory=dict)
    """Row -> tests that hold it."""

    def missing(self) -> list[str]:
        """Rows in scope without a test."""
        return [row for row in self.system.rows if row not in self.tests and self._in_scope(row)]

    def unknown(self) -> list[str]:
        """Rows that are named and not in the table, or left out and held all the same."""
        known = self.system.rows
        named = {*self.system.deviating.split(), *self.system.out}
        return sorted({*(named - known.keys()), *(self.system.out & self.tests.keys())})

    def line(self, failed: set[str]) -> str:
        """Its line of the table."""
        rows, otherwise = self.system.rows, set(self.system.deviating.split())
        scope = {row: n for row, n in rows.items() if self._in_scope(row)}
        held = {
            row: n for row, n in scope.items()
            if self.tests.get(row) and not self.tests[row] & failed
        }  # fmt: skip
        same = sum(n for row, n in held.items() if row not in otherwise)
        other = sum(n for row, n in held.items() if row in otherwise)
        everything = sum(rows.values())
        left = everything - sum(scope.values())
        cells = (self.system.name, everything, sum(scope.values()), same, other, left)
        return f"| {' | '.join(map(str, cells))} |"

    def _in_scope(self, row: str) -> bool:
        return row not in self.system.out


class Recorder:
    """A plugin of pytest's: which tests hold which rows, and which tests fail."""

    def __init__(self) -> None:
        """Nothing was collected."""
        self.counted = [Counted(system) for system in SYSTEMS]
        self.failed: set[str] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Find the rows' tests, and keep those alone."""
        for item in items:
            for counted in self.counted:
                if any(HERE / folder in item.path.parents for folder in counted.system.folders):
                    for row in _rows_of(item, counted.system):
                        counted.tests.setdefault(row, set()).add(item.nodeid)
        wanted = {test for counted in self.counted for of in counted.tests.values() for test in of}
        items[:] = [item for item in items if item.nodeid in wanted]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember what failed or was skipped."""
        if not report.passed:
            self.failed.add(report.nodeid)


def table(recorder: Recorder) -> str:
    """The table, and below it what is held otherwise, and left out and why."""
    lines = [*_HEAD, *(counted.line(recorder.failed) for counted in recorder.counted)]
    for system in SYSTEMS:
        otherwise = " ".join(system.deviating.split())
        lines += ["", f"{system.name}: held otherwise: {otherwise}; left out:", ""]
        lines += [f"- {reason}: {rows}" for reason, rows in system.left_out.items()]
    return "\n".join(lines) + "\n"


def on_page(text: str) -> str:
    """The part of a page that is generated. Raises ValueError where it has none."""
    return text[text.index(BEGIN) + len(BEGIN) : text.index(END)].strip("\n") + "\n"


def with_table(text: str, made: str) -> str:
    """The page with another table."""
    return f"{text[: text.index(BEGIN)]}{BEGIN}\n\n{made}\n{text[text.index(END) :]}"


def problems(recorder: Recorder) -> Iterator[str]:
    """What keeps the table from being true."""
    for counted in recorder.counted:
        for row in counted.missing():
            yield f"{counted.system.name}: {row}: in scope, and no test names it"
        for row in counted.unknown():
            yield f"{counted.system.name}: {row}: no such row, or left out and held"


def counted(*, listed: bool) -> Recorder:
    """Collect the rows' tests, and run them unless they are only `listed`."""
    recorder = Recorder()
    asked = ["-q", "--no-header", "-p", "no:cacheprovider", str(HERE)]
    pytest.main([*asked, "--collect-only"] if listed else asked, plugins=[recorder])
    return recorder


def main(arguments: Sequence[str]) -> int:
    """The command."""
    out, sys.stdout = sys.stdout, sys.stderr  # what pytest says is not the table
    recorder = counted(listed="--listed" in arguments)
    sys.stdout = out
    sys.stdout.write(table(recorder))
    if "--write" in arguments:
        text = PAGE.read_text()
        PAGE.write_text(with_table(text, table(recorder)))
    wrong = [*problems(recorder), *(f"{test}: fails" for test in sorted(recorder.failed))]
    sys.stderr.writelines(f"{line}\n" for line in wrong)
    return 1 if wrong else 0


def _rows_of(item: pytest.Item, system: System) -> Iterator[str]:
    spec = getattr(item, "callspec", None)
    words = spec.id if spec is not None else ""
    said = _said(getattr(item, "function", None))
    for row in system.rows:
        alone = rf"(?<![0-9A-Za-z-]){re.escape(row)}(?![0-9A-Za-z])"
        if re.search(alone, words) or re.search(alone, said):
            yield row


def _said(function: object) -> str:
    """Docstring and comments of a test."""
    if function is None:
        return ""
    source = inspect.getsource(inspect.unwrap(function))  # type: ignore[arg-type]  # a function
    tokens = tokenize.generate_tokens(io.StringIO(inspect.cleandoc(source)).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    return " ".join([inspect.getdoc(function) or "", *comments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
