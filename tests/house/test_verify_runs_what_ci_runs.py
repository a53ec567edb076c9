"""`make verify` and .ci/run are the same checks."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILDS = {"sync", "hook"}
"""What other targets lean on, built first by CI."""


def goals(line: str) -> set[str]:
    """The goals of one call of make."""
    words = line.split(" || ")[0].removeprefix("make ").split()
    return {word for word in words if re.fullmatch(r"[a-z][a-z0-9-]*", word)}


def test_verify_has_every_goal_of_ci() -> None:
    run = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    wanted = set().union(*(goals(line) for line in run if line.startswith("make "))) - BUILDS
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.search(r"^verify: ([a-z0-9 -]+?) ##", makefile, re.MULTILINE)
    assert found is not None
    assert set(found[1].split()) == wanted
