"""An error that a docstring says is raised exists under that name: a caller can catch it."""

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = [
    path
    for folder in ("libs", "services", "sim")
    for path in sorted((ROOT / folder).glob("*/src/tessera_*/**/*.py"))
]
SENTENCE = re.compile(r"\bRaises (?:[^.]|\.\w)*\.")
NAME = re.compile(r"(?<![\w.`])[A-Z][a-z]+(?:[A-Z][a-z]+)*[A-Z]?\w*\b")
NO_ERRORS = frozenset({"Kubernetes", "Lease", "Raises", "Secret", "Volcano"})
"""Words with a capital letter that such sentences have, and that are no classes."""


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Every docstring of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def named(docstring: str) -> set[str]:
    """The classes that are said to be raised. `msgspec.DecodeError` is another library's."""
    return {
        name
        for sentence in SENTENCE.findall(docstring)
        for name in NAME.findall(sentence)
        if name not in NO_ERRORS and not hasattr(builtins, name)
    }


def test_a_sentence_names_classes() -> None:
    text = "Fetch it. Raises msgspec.DecodeError, ApiLost where it does not answer. Lease ends."
    assert named(text) == {"ApiLost"}


def test_every_error_that_is_named_exists() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES}
    classes = {
        node.name
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    wrong = {
        (str(path.relative_to(ROOT)), name)
        for path, tree in trees.items()
        for text in docstrings(tree)
        for name in named(text) - classes
    }
    assert wrong == set(), "name the class as it is called now"
