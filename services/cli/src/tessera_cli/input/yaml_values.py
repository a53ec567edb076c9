"""YAML as Kubernetes reads it, built straight from the parser's events.

Source: sigs.k8s.io/yaml, which reads YAML 1.1: `yes` and `on` are booleans, `010` is 8; dates and
`12:30` stay text, and so do `y` and `n`, which people call things. A key that comes twice is an
error, as it is for kubectl. PyYAML's own constructor takes several times the time and memory,
reads dates, and lets a few aliases grow into gigabytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import yaml
from msgspec import Struct

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEPTH: Final = 100
_ALIASED: Final = 100_000
"""How many values all aliases of a file together may stand for."""
_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **{
        spelt: truth
        for truth, words in (
            (True, ("yes", "true", "on")),
            (False, ("no", "false", "off")),
        )
        for word in words
        for spelt in (word, word.capitalize(), word.upper())
    },
}
_INTEGER: Final = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO]?(?P<oct>[0-7]+)"
    r"|(?P<dec>0|[1-9][0-9]*))"
)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_BASES: Final = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}
_TAG: Final = "tag:yaml.org,2002:"
_TEXT_TAGS: Final = frozenset({"!", _TAG + "str", _TAG + "timestamp"})
_VALUE_TAGS: Final = frozenset(
    {None, *(_TAG + t for t in ("null", "bool", "int", "float", "map", "seq"))}
)


class BadYaml(ValueError):
    """The text is no YAML that Kubernetes would take; the message names the line."""


class _Open(Struct):
    """A mapping or list that has not ended yet."""

    value: dict[str, Any] | list[Any]
    anchor: str | None
    before: int
    """Values counted before this one."""
    key: str | None = None
    """The mapping's key that still waits for its value."""
    merging: bool = False
    merged: tuple[dict[str, Any], ...] = ()


def documents(text: str) -> Iterator[tuple[int, Any]]:
    """The line and the value of each document that is not empty. Raises BadYaml."""
    try:
        yield from _Builder().run(text)
    except yaml.MarkedYAMLError as e:
        line = f"line {e.problem_mark.line + 1}: " if e.problem_mark is not None else ""
        raise BadYaml(f"{line}{e.problem or e.context}") from e
    except yaml.YAMLError as e:
        raise BadYaml(" ".join(str(e).split())) from e


def plain(text: str) -> Any:
    """What an unquoted scalar means."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "0123456789+-." or len(text) > 64:
        return text
    digits = text.replace("_", "")
    match = _INTEGER.fullmatch(digits)
    if match is not None:
        base = match.lastgroup or "dec"
        number = int(match[base], _BASES[base])
        return -number if match["sign"] == "-" else number
    if _FLOAT.fullmatch(digits):
        real = float(digits)
        return int(real) if real.is_integer() else real
    return text


class _Builder:
    def __init__(self) -> None:
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._count = 0
        self._aliased = 0
        self._root: Any = None
        self._on: dict[type, Callable[[Any], None]] = {
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: lambda e: self._start(e, {}),
            yaml.SequenceStartEvent: lambda e: self._start(e, []),
            yaml.MappingEndEvent: self._end,
            yaml.SequenceEndEvent: self._end,
            yaml.AliasEvent: self._alias,
        }

    def run(self, text: str) -> Iterator[tuple[int, Any]]:
        line, on = 1, self._on
        for event in yaml.parse(text, Loader=_LOADER):
            kind = type(event)
            if kind in on:
                on[kind](event)
            elif kind is yaml.DocumentStartEvent:
                line = _line(event)
                self._root, self._anchors = None, {}
            elif kind is yaml.DocumentEndEvent and self._root is not None:
                yield line, self._root

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        text: str = event.value
        top = self._open[-1] if self._open else None
        if top is not None and type(top.value) is dict and top.key is None and not top.merging:
            self._key(top, text, event)
            return
        if event.tag in _TEXT_TAGS:
            value: Any = text
        elif event.tag not in _VALUE_TAGS:
            raise _at(event, f"the tag {event.tag} is not known to Kubernetes: remove it")
        else:
            value = plain(text) if event.implicit[0] or event.tag else text
        self._count += 1
        self._add(value)
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)

    def _key(self, top: _Open, text: str, event: yaml.ScalarEvent) -> None:
        if text == "<<" and event.implicit[0]:
            top.merging = True
            return
        if text in top.value:
            raise _at(event, f"the key {text} comes twice in one mapping: remove one")
        top.key = text
        if event.anchor:
            self._anchors[event.anchor] = (text, 1)

    def _start(self, event: yaml.CollectionStartEvent, value: dict[str, Any] | list[Any]) -> None:
        top = self._open[-1] if self._open else None
        if top is not None and type(top.value) is dict and top.key is None and not top.merging:
            raise _at(event, "a mapping or a list is the key of a mapping: use text")
        if len(self._open) >= _DEPTH:
            raise _at(event, f"nested more than {_DEPTH} deep")
        self._count += 1
        self._open.append(_Open(value, event.anchor, self._count - 1))

    def _end(self, event: yaml.CollectionEndEvent) -> None:
        done = self._open.pop()
        value = done.value
        if type(value) is dict:
            for other in done.merged:
                for key in other:
                    value.setdefault(key, other[key])
        self._add(value, event)
        if done.anchor:
            self._anchors[done.anchor] = (value, self._count - done.before)

    def _alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self._anchors:
            raise _at(event, f"the alias *{event.anchor} has no anchor before it")
        value, size = self._anchors[event.anchor]
        self._aliased += size
        if self._aliased > _ALIASED:
            raise _at(event, f"aliases stand for more than {_ALIASED} values: write them out")
        self._count += size
        top = self._open[-1] if self._open else None
        if top is not None and type(top.value) is dict and top.key is None and not top.merging:
            if type(value) is not str:
                raise _at(event, f"the alias *{event.anchor} as a key is no text: use text")
            top.key = value
            return
        self._add(value, event)

    def _add(self, value: Any, event: yaml.Event | None = None) -> None:
        if not self._open:
            self._root = value
            return
        top = self._open[-1]
        if type(top.value) is list:
            top.value.append(value)
        elif top.merging:
            top.merging = False
            top.merged += _mappings(value, event)
        elif top.key is not None and type(top.value) is dict:
            top.value[top.key] = value
            top.key = None


def _mappings(value: Any, event: yaml.Event | None) -> tuple[dict[str, Any], ...]:
    found = value if isinstance(value, list) else [value]
    if not all(isinstance(v, dict) for v in found):
        raise _at(event, "<< merges mappings only")
    return tuple(found)


def _at(event: yaml.Event | None, text: str) -> BadYaml:
    return BadYaml(text if event is None else f"line {_line(event)}: {text}")


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 1
