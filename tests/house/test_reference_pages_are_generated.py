"""docs/cli.md and docs/crds.md say what the parsers and the definitions say."""

from collections.abc import Callable

import pytest

from tests.house.reference import PAGES, ROOT, cli_page, crds_page


@pytest.mark.parametrize(("name", "page"), PAGES.items(), ids=PAGES)
def test_a_page_is_as_it_is_generated(name: str, page: Callable[[], str]) -> None:
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == page(), "run: make generate"


def test_every_command_has_a_section() -> None:
    commands = ("place", "demo", "explain", "events", "quota", "plan approve", "completion")
    assert all(f"\n## `tessera {command}`\n" in cli_page() for command in commands)


def test_fields_of_lists_have_rows() -> None:
    assert "| `steps[].pod.namespace` | string | Required. |\n" in crds_page()
