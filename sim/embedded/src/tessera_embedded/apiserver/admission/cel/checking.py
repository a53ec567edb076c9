"""What can be known of an expression before it is evaluated: its syntax, variables and
functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tessera_embedded.apiserver.admission.cel.functions import FUNCTIONS, METHODS
from tessera_embedded.apiserver.admission.cel.parsing import (
    CallExpression,
    Entries,
    Expression,
    Field,
    Index,
    Items,
    Literal,
    Loop,
    Name,
    parse,
)
from tessera_embedded.apiserver.admission.cel.tokens import BadExpression

ADMISSION_NAMES: Final = frozenset({"object", "oldObject", "request"})
_OPERATORS: Final = {"&&", "||", "?:"}


def problem(source: str, names: frozenset[str] = ADMISSION_NAMES) -> str | None:
    """Why the text is no expression over these variables, or None where it is one."""
    try:
        unknown = next(_unknown(parse(source), names), None)
    except BadExpression as e:
        return f"compilation failed: {e}"
    if unknown is not None:
        return f"compilation failed: undeclared reference to '{unknown}'"
    return None


def _unknown(  # noqa: C901  (one case for each kind of node)
    tree: Expression, names: frozenset[str]
) -> Iterator[str]:
    match tree:
        case Literal():
            return
        case Name():
            if tree.name not in names:
                yield tree.name
        case Field():
            yield from _unknown(tree.of, names)
        case CallExpression():
            if tree.name not in (METHODS if tree.method else FUNCTIONS) and (
                tree.name not in _OPERATORS
            ):
                yield tree.name
            yield from _all(tree.args, names)
        case Loop():
            yield from _unknown(tree.of, names)
            yield from _all(tree.steps, names | {tree.var})
        case Index():
            yield from _all((tree.of, tree.key), names)
        case Items():
            yield from _all(tree.items, names)
        case Entries():
            yield from _all(tuple(part for entry in tree.entries for part in entry), names)


def _all(trees: tuple[Expression, ...], names: frozenset[str]) -> Iterator[str]:
    for tree in trees:
        yield from _unknown(tree, names)
