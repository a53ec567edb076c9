"""docs/check.md lists every check as the code has it."""

from pathlib import Path

from tessera_core.preflight.checks import CHECKS

PAGE = Path(__file__).parents[2] / "docs/check.md"


def test_the_table_has_every_check_in_order() -> None:
    rows = [
        f"| {check.group} | `{check.name}` | {check.about} | "
        f"{'before and after' if check.before else 'after'} |"
        for check in CHECKS
    ]
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    head = lines.index("| group | name | compares | when |")
    assert lines[head + 2 : head + 2 + len(rows) + 1] == [*rows, ""]
