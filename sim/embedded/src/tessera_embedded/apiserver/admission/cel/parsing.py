"""CEL's grammar: from words to a tree of frozen nodes, by recursive descent."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from tessera_embedded.apiserver.admission.cel.tokens import BadExpression, Token, tokens


class Literal(Struct, frozen=True):
    """A value as it stands."""

    value: Any


class Name(Struct, frozen=True):
    """A variable."""

    name: str


class Field(Struct, frozen=True):
    """`of.name`; `test` is True inside `has()`."""

    of: Expression
    name: str
    test: bool = False


class Index(Struct, frozen=True):
    """`of[key]`."""

    of: Expression
    key: Expression


class CallExpression(Struct, frozen=True):
    """A function or operator; for a method, the receiver is the first argument."""

    name: str
    args: tuple[Expression, ...]
    method: bool = False


class Items(Struct, frozen=True):
    """`[a, b]`."""

    items: tuple[Expression, ...]


class Entries(Struct, frozen=True):
    """`{a: b}`."""

    entries: tuple[tuple[Expression, Expression], ...]


class Loop(Struct, frozen=True):
    """A macro over a list or a map's keys: `of.all(var, step)`, `of.map(var, filter, step)`."""

    macro: str
    of: Expression
    var: str
    steps: tuple[Expression, ...]


Expression = Literal | Name | Field | Index | CallExpression | Items | Entries | Loop

_MACROS: Final = {
    "all": (1,), "exists": (1,), "exists_one": (1,), "filter": (1,), "map": (1, 2),
}  # fmt: skip
_WORDS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None}
_CHAINS: Final = ("||", "&&")
_LEVELS: Final = (
    ("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
_DEPTH: Final = 40


@lru_cache(maxsize=1024)
def parse(source: str) -> Expression:
    """The tree of an expression. Raises BadExpression."""
    return _Parser(tokens(source)).whole()


class _Parser:
    def __init__(self, words: Sequence[Token]) -> None:
        self._words, self._at, self._depth = words, 0, 0

    def whole(self) -> Expression:
        tree = self._choice()
        if self._word.kind != "end":
            raise self._unexpected()
        return tree

    @property
    def _word(self) -> Token:
        return self._words[self._at]

    def _unexpected(self) -> BadExpression:
        word = self._word
        what = repr(word.text) if word.kind != "end" else "end"
        return BadExpression(f"unexpected {what} at position {word.at}")

    def _take(self, *texts: str) -> str | None:
        word = self._word
        if word.kind in ("sign", "name") and word.text in texts:
            self._at += 1
            return word.text
        return None

    def _need(self, text: str) -> None:
        if self._take(text) is None:
            raise self._unexpected()

    def _choice(self) -> Expression:
        self._deeper()
        tree = self._chain(0)
        if self._take("?"):
            then = self._choice()
            self._need(":")
            tree = CallExpression("?:", (tree, then, self._choice()))
        self._depth -= 1
        return tree

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _DEPTH:
            raise BadExpression(f"it is nested deeper than {_DEPTH} levels")

    def _chain(self, level: int) -> Expression:
        """`a || b || c` or `a && b && c`: one node, however long."""
        if level == len(_CHAINS):
            return self._level(0)
        sides = [self._chain(level + 1)]
        while self._take(_CHAINS[level]):
            sides.append(self._chain(level + 1))
        return CallExpression(_CHAINS[level], tuple(sides)) if len(sides) > 1 else sides[0]

    def _level(self, level: int) -> Expression:
        if level == len(_LEVELS):
            return self._unary()
        tree, depth = self._level(level + 1), self._depth
        while sign := self._take(*_LEVELS[level]):
            self._deeper()
            tree = CallExpression(sign, (tree, self._level(level + 1)))
        self._depth = depth
        return tree

    def _unary(self) -> Expression:
        sign = self._take("!", "-")
        if sign is None:
            return self._member()
        self._deeper()
        tree = CallExpression("negative" if sign == "-" else "!", (self._unary(),))
        self._depth -= 1
        return tree

    def _member(self) -> Expression:
        tree = self._primary()
        depth = self._depth
        while sign := self._take(".", "["):
            self._deeper()
            if sign == "[":
                tree = Index(tree, self._choice())
                self._need("]")
            else:
                tree = self._dotted(tree)
        self._depth = depth
        return tree

    def _dotted(self, of: Expression) -> Expression:
        name = self._name()
        if not self._take("("):
            return Field(of, name)
        args = self._until(")")
        if name in _MACROS:
            return self._loop(name, of, args)
        return CallExpression(name, (of, *args), method=True)

    def _loop(self, macro: str, of: Expression, args: tuple[Expression, ...]) -> Loop:
        if len(args) - 1 not in _MACROS[macro] or not isinstance(args[0], Name):
            raise BadExpression(f"{macro}() wants a variable and an expression")
        return Loop(macro, of, args[0].name, args[1:])

    def _name(self) -> str:
        word = self._word
        if word.kind != "name":
            raise self._unexpected()
        self._at += 1
        return word.text

    def _primary(self) -> Expression:
        word = self._word
        if word.kind in _LITERALS:
            self._at += 1
            return Literal(_LITERALS[word.kind](word.text))
        if word.kind == "name":
            return self._named()
        if self._take("("):
            tree = self._choice()
            self._need(")")
            return tree
        if self._take("["):
            return Items(self._until("]"))
        if self._take("{"):
            return self._entries()
        raise self._unexpected()

    def _named(self) -> Expression:
        name = self._name()
        if name in _WORDS:
            return Literal(_WORDS[name])
        if name == "in":
            self._at -= 1
            raise self._unexpected()
        if not self._take("("):
            return Name(name)
        args = self._until(")")
        if name != "has":
            return CallExpression(name, args)
        if len(args) != 1 or not isinstance(args[0], Field):
            raise BadExpression("has() wants a field, such as has(object.metadata.labels)")
        return Field(args[0].of, args[0].name, test=True)

    def _until(self, end: str) -> tuple[Expression, ...]:
        found: list[Expression] = []
        while not self._take(end):
            found.append(self._choice())
            if not self._take(","):
                self._need(end)
                break
        return tuple(found)

    def _entries(self) -> Entries:
        found: list[tuple[Expression, Expression]] = []
        while not self._take("}"):
            key = self._choice()
            self._need(":")
            found.append((key, self._choice()))
            if not self._take(","):
                self._need("}")
                break
        return Entries(tuple(found))


def _whole(text: str) -> int:
    return int(text, 0) if text.startswith("0x") else int(text)


_LITERALS: Final[dict[str, Any]] = {"int": _whole, "uint": _whole, "float": float, "text": str}
