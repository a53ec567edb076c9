"""CEL's words: names, numbers, texts and signs."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct


class BadExpression(Exception):
    """The text is no expression; the message says where and why."""


class Token(Struct, frozen=True):
    """One word: `kind` is name, int, uint, float, text, sign or end."""

    kind: str
    text: str
    at: int


_WORDS: Final = re.compile(
    r"""
      (?P<skip>(?:\s+|//[^\n]*)+)
    | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
    | (?P<int>0x[0-9a-fA-F]+|\d+)(?P<unsigned>[uU])?
    | (?P<raw>[rR]?)(?P<quote>'''|\"\"\"|'|")
    | (?P<name>[A-Za-z_]\w*)
    | (?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%!<>?:.,()\[\]{}])
    """,
    re.VERBOSE | re.ASCII,
)
_ESCAPES: Final = {
    "n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
    "a": "\a", "b": "\b", "f": "\f", "v": "\v",
}  # fmt: skip
_CODES: Final = {"x": 2, "u": 4, "U": 8}


def tokens(source: str) -> list[Token]:
    """The words of an expression, an `end` last. Raises BadExpression."""
    found: list[Token] = []
    at = 0
    while at < len(source):
        match = _WORDS.match(source, at)
        if match is None:
            raise BadExpression(f"unexpected {source[at]!r} at position {at}")
        if match["quote"]:
            token, at = _text(source, match)
            found.append(token)
            continue
        if not match["skip"]:
            found.append(_token(match))
        at = match.end()
    return [*found, Token("end", "", len(source))]


def _token(match: re.Match[str]) -> Token:
    for kind in ("float", "int", "name", "sign"):
        if match[kind]:
            return Token("uint" if match["unsigned"] else kind, match[kind], match.start())
    raise BadExpression(f"unexpected {match[0]!r}")


def _text(source: str, match: re.Match[str]) -> tuple[Token, int]:
    quote, raw, at = match["quote"], bool(match["raw"]), match.end()
    parts: list[str] = []
    while not source.startswith(quote, at):
        if at >= len(source) or (source[at] == "\n" and len(quote) == 1):
            raise BadExpression(f"the text that begins at position {match.start()} does not end")
        if source[at] == "\\" and not raw:
            part, at = _escape(source, at + 1)
        else:
            part, at = source[at], at + 1
        parts.append(part)
    return Token("text", "".join(parts), match.start()), at + len(quote)


def _escape(source: str, at: int) -> tuple[str, int]:
    letter = source[at : at + 1]
    if letter in _ESCAPES and letter:
        return _ESCAPES[letter], at + 1
    size = _CODES.get(letter, 0)
    digits = source[at + 1 : at + 1 + size]
    if size and re.fullmatch(rf"[0-9a-fA-F]{{{size}}}", digits):
        return chr(int(digits, 16)), at + 1 + size
    raise BadExpression(f"unknown escape \\{letter} at position {at - 1}")
