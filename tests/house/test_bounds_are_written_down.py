"""docs/bounds.md says of every bound what the code says."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "s": 1}


HEAD = ["What", "Bound", "Where", "Beyond it"]


def rows() -> list[tuple[str, str, str, str]]:
    """What, bound, constant and answer of each row of each table."""
    lines = (ROOT / "docs/bounds.md").read_text(encoding="utf-8").splitlines()
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if line[:1] == "|"
    ]
    tables = cells.count(HEAD)
    assert tables == cells.count(["---"] * 4) == sum(line[:3] == "## " for line in lines)
    return [
        (what, bound, where, reported)
        for what, bound, where, reported in cells
        if [what, bound, where, reported] != HEAD and what != "---"
    ]


def test_a_bound_is_written_down_once() -> None:
    constants = [where for _, _, where, _ in rows()]
    assert len(set(constants)) == len(constants)


def in_code(where: str) -> float:
    """The constant at `tessera_x.y.NAME`, or `path/of/header.h:NAME` for the hook's."""
    if ":" in where:
        path, name = where.split(":")
        text = (ROOT / path).read_text(encoding="utf-8")
        found = re.search(rf"\b{name}\b\s*=?\s*\(?([0-9]+)[uUlL]*\s*(?:<<\s*([0-9]+))?", text)
        assert found, f"{path} does not define {name}"
        return int(found[1]) << int(found[2] or 0)
    module, _, name = where.rpartition(".")
    return float(getattr(importlib.import_module(module), name))


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[2].strip("`"))
def test_a_bound_is_the_one_of_the_code(row: tuple[str, str, str, str]) -> None:
    what, bound, where, reported = row
    number, _, unit = bound.partition(" ")
    assert what
    assert reported
    assert float(number.replace(",", "")) * UNITS[unit] == in_code(where.strip("`"))
