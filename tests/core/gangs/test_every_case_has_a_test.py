"""Each case of the specification of gangs is in the docstring of a test, or of a file of tests."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
NUMBERS = {
    "GA": (1, 2, 3, 5, 6, 7, 8, 9),
    "GB": range(1, 11),
    "GC": range(1, 5),
    "GD": range(1, 4),
    "GE": range(1, 6),
    "GF": range(1, 7),
    "GG": range(1, 5),
}
CASES = {f"{group}{number}" for group, numbers in NUMBERS.items() for number in numbers}
_CASE = re.compile(r"\bG[A-G]\d+\b")
_DOCSTRING = re.compile(r'^ *"""(.*?)"""', re.MULTILINE | re.DOTALL)


def named_by_tests() -> dict[str, set[str]]:
    """Case -> files with tests of it."""
    found: dict[str, set[str]] = {}
    for file in TESTS.rglob("test_*.py"):
        for words in _DOCSTRING.findall(file.read_text()):
            for case in _CASE.findall(words):
                found.setdefault(case, set()).add(file.name)
    return found


def test_there_are_forty() -> None:
    assert len(CASES) == 40


def test_each_is_named_by_a_test() -> None:
    assert CASES - named_by_tests().keys() == set()


def test_no_test_names_a_case_that_is_not_there() -> None:
    assert named_by_tests().keys() - CASES == set()
