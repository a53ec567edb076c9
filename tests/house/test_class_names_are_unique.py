"""A public class name is used once in the product, so that a search for it finds one thing. The
list of names that are used again only shrinks."""

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIST = ROOT / "tests/house/class_names_used_again.txt"


def used_again() -> dict[str, int]:
    """Public classes of modules whose name several modules have, with how many."""
    names = Counter(
        node.name
        for folder in ("libs", "services", "sim")
        for path in sorted((ROOT / folder).glob("*/src/tessera_*/**/*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    return {name: count for name, count in sorted(names.items()) if count > 1}


def allowed() -> dict[str, int]:
    """The list: a name and how many classes have it, a line each."""
    lines = (line.split() for line in LIST.read_text(encoding="utf-8").splitlines())
    return {name: int(count) for name, count in lines}


def test_no_name_is_used_again() -> None:
    before = allowed()
    more = {name: n for name, n in used_again().items() if n > before.get(name, 1)}
    assert more == {}, "put what tells it apart into the name: QuotaSettings, not Settings"


def test_the_list_shrinks_with_the_names() -> None:
    again = used_again()
    fewer = {name: again.get(name, 1) for name, n in allowed().items() if again.get(name, 1) < n}
    assert fewer == {}, "shrink the list: tests/house/class_names_used_again.txt"
