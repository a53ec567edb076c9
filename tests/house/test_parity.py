"""docs/parity.md: all of HAMi's features, files that exist, and no line that is not done but for
the groups that are named as not finished."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "parity.md"
FEATURES: Final = 130
STATES: Final = ("works", "otherwise", "part", "no")
HOMES: Final = {
    **{name: f"libs/{name}/src/tessera_{name}" for name in ("core", "runtime", "schema")},
    **{
        name: f"services/{name}/src/tessera_{name}"
        for name in ("agent", "scheduler", "quota", "cli")
    },
}
UNFINISHED: Final = {
    "MIG": {43, 44, 55, 56, 57, 58, 59, 60, 110, 113},
    "DRA": {128},
    "vendors": {126},
    "gangs": {127},
}
"""Lines that may say `part` or `no`."""


class Line(NamedTuple):
    number: int
    kind: str
    state: str
    files: tuple[str, ...]
    remark: str


def lines() -> list[Line]:
    found = []
    for row in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]
        if cells[0].isdecimal():
            number, kind, _, state, files, remark = cells
            found.append(Line(int(number), kind, state, tuple(files.split()), remark))
    return found


def place(file: str) -> Path:
    home, _, rest = file.partition("/")
    return ROOT / HOMES.get(home, home) / rest


def test_every_feature_has_one_line() -> None:
    assert sorted(line.number for line in lines()) == list(range(1, FEATURES + 1))
    assert {line.kind for line in lines()} == set("ANIMOX")


def test_files_are_there() -> None:
    missing = [
        f"{line.number}: {file}"
        for line in lines()
        for file in line.files or ("no file",)
        if not place(file).is_file()
    ]
    assert missing == []


def test_only_what_is_known_to_be_unfinished_is() -> None:
    states = {line.number: line.state for line in lines()}
    assert set(states.values()) <= set(STATES)
    unfinished = {number for number, state in states.items() if state in ("part", "no")}
    assert unfinished == set().union(*UNFINISHED.values())


def test_what_is_done_otherwise_has_its_reason() -> None:
    silent = [line.number for line in lines() if line.state != "works" and not line.remark]
    assert silent == []
