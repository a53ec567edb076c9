"""What docs/compatibility.md says of the rows is what the tests hold."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.dialects.rows import SYSTEMS
from tests.dialects.summary import PAGE, on_page


@pytest.mark.timeout(600)
def test_the_page_shows_the_table_that_the_tests_make() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.dialects.summary", "--listed"],
        cwd=PAGE.parents[1], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert on_page(PAGE.read_text()) == ran.stdout, "python -m tests.dialects.summary --write"


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.folders[0])
def test_no_row_is_both_left_out_and_covered_otherwise(system: object) -> None:
    (found,) = (s for s in SYSTEMS if s is system)
    assert not found.out & set(found.deviating.split())
    assert found.out <= found.rows.keys()
    assert set(found.deviating.split()) <= found.rows.keys()
