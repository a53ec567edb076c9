"""`make help` shows every goal that is described, in groups; what a newcomer tries comes first."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GOAL = re.compile(r"(?m)^([a-z0-9-]+):.*## .")


@pytest.fixture(scope="module")
def groups() -> dict[str, list[str]]:
    """The goals that `make help` shows, by the heading above them."""
    shown = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found: dict[str, list[str]] = {}
    heading = ""
    for line in filter(None, shown.splitlines()):
        if line.startswith("  "):
            found.setdefault(heading, []).append(line.split()[0])
        else:
            heading = line
    return found


def described() -> list[str]:
    return GOAL.findall((ROOT / "Makefile").read_text(encoding="utf-8"))


def test_every_goal_is_in_one_group(groups: dict[str, list[str]]) -> None:
    assert "" not in groups
    assert sorted(goal for group in groups.values() for goal in group) == sorted(described())


def test_every_goal_is_described() -> None:
    phony = re.search(r"(?m)^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert phony is not None
    assert sorted(phony[1].split()) == sorted(described())


def test_the_demo_comes_first(groups: dict[str, list[str]]) -> None:
    assert next(iter(groups.items())) == ("Try it", ["demo", "place"])
