"""Docstrings and messages of the product are held to the words that its pages are held to."""

import ast

import pytest

from tests.house.test_pages_hold_together import PUZZLING, ROOT

ROOTS = ("libs", "services", "sim", "benchmarks")


def texts(source: str) -> list[str]:
    """All string constants of a module, docstrings too."""
    return [
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def test_what_it_looks_at() -> None:
    source = '"""Tells all."""\nx = f"start it anew, {y}"'
    assert [PUZZLING.findall(text) for text in texts(source)] == [["Tells"], ["anew"]]


@pytest.mark.parametrize("root", ROOTS)
def test_no_word_puzzles(root: str) -> None:
    modules = [path for path in (ROOT / root).rglob("*.py") if ".venv" not in path.parts]
    assert modules
    found = {
        f"{module.relative_to(ROOT)}: {text!r}"
        for module in modules
        for text in texts(module.read_text(encoding="utf-8"))
        if PUZZLING.search(text)
    }
    assert found == set()
