"""From a text to Kubernetes objects: YAML or JSON, many documents, lists of any kind.

JSON objects stay bytes until their kind is known, so that a dump of 50,000 pods is never held as
Python mappings; kubectl's `-o json` is the form for large clusters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import msgspec
from msgspec import Raw, Struct

from tessera_cli.errors import InputTooLarge, InputUnreadable, NotKubernetes
from tessera_cli.input.sources import JSON_LIMIT, YAML_LIMIT, Source, read
from tessera_cli.input.yaml_values import BadYaml, documents

_BOMS: Final = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_ONLY_BOMS: Final = frozenset(bom for bom, _ in _BOMS)
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9._/-]{0,39}")
"""A key that may be shown of what is no manifest."""
_LISTS_IN_LISTS: Final = 3
BAD_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for text that is no JSON; keys that are no UTF-8 are reported in its own
way."""
_SPACE: Final = re.compile(r"\s*")
_REMEDY: Final = "give Kubernetes manifests: apiVersion, kind, metadata, spec"


class Item(Struct, frozen=True):
    """One object and where it was found."""

    where: str
    group: str
    """API group; empty for the core group."""
    version: str
    kind: str
    content: dict[str, Any] | Raw

    def generic(self) -> dict[str, Any]:
        """The object as a mapping; JSON is decoded now. Raises NotKubernetes."""
        if isinstance(self.content, dict):
            return self.content
        try:
            return _decode_mapping(self.content)
        except BAD_JSON as e:
            raise NotKubernetes(self.where, _said(e), "correct the JSON") from e


class _At(Struct, frozen=True):
    """Where a value is. What is no manifest is `shown` from standard input alone, where nobody can
    look again: a file may hold what is not for a log."""

    where: str
    shown: bool

    def no_object(self, value: Any) -> NotKubernetes:
        """The refusal of a value that is no mapping."""
        said = named(value) if self.shown or isinstance(value, list | None) else "text or a number"
        return NotKubernetes(self.where, f"{said}, not an object", _REMEDY)


class _Head(Struct, frozen=True, rename="camel"):
    api_version: Any = None
    kind: Any = None
    items: Any = None


class _RawHead(Struct, frozen=True, rename="camel"):
    api_version: Any = None
    kind: Any = None
    items: list[Raw] | None = None


_decode_mapping: Final = msgspec.json.Decoder(dict[str, Any]).decode
_decode_head: Final = msgspec.json.Decoder(_RawHead).decode
_decode_list: Final = msgspec.json.Decoder(list[Raw]).decode
_decode_raw: Final = msgspec.json.Decoder(Raw).decode


def items(source: Source, stdin: BinaryIO) -> Iterator[Item]:
    """Every object of the text, in order, lists unpacked.

    Raises InputUnreadable, InputTooLarge or NotKubernetes.
    """
    data = read(source, stdin)
    found = 0
    for number, (line, value) in enumerate(_documents(source, data), 1):
        found = number
        at = f"document {number}" + (f" (line {line})" if line > 1 else "")
        yield from _flat(value, _At(f"{source.name}, {at}", shown=source.path is None), 0)
    if not found and not source.listed:
        raise InputUnreadable(
            source.name,
            "nothing but a byte order mark" if data in _ONLY_BOMS else "empty",
            "give manifests; with a pipe, see why the command before it failed",
        )


def _documents(source: Source, data: bytes) -> Iterator[tuple[int, Any]]:
    """Line and value of each document; a value that is Raw is JSON."""
    if data[:1] in b"{[ \t\r\n" and data.lstrip()[:1] in (b"{", b"["):
        try:
            return iter([(1, Raw(_decode_raw(data)))])
        except BAD_JSON as e:
            return _no_single_json(source, data, e)
    return _yaml(source, data)


def _no_single_json(source: Source, data: bytes, error: Exception) -> Iterator[tuple[int, Any]]:
    """Several JSON documents in a row, or YAML in its flow form."""
    if len(data) > YAML_LIMIT:
        raise NotKubernetes(source.name, _said(error), _REMEDY) from error
    text = _text(source, data)
    try:
        return iter(_row_of_json(text))
    except (json.JSONDecodeError, RecursionError):
        pass
    try:
        return iter(list(documents(text)))
    except BadYaml:
        raise NotKubernetes(source.name, _said(error), _REMEDY) from error


def _row_of_json(text: str) -> list[tuple[int, Any]]:
    found: list[tuple[int, Any]] = []
    decoder, line, end = json.JSONDecoder(), 1, 0
    while (start := _after_space(text, end)) < len(text):
        line += text.count("\n", end, start)
        value, after = decoder.raw_decode(text, start)
        found.append((line, value))
        line += text.count("\n", start, after)
        end = after
    return found


def _after_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match is not None else position


def _yaml(source: Source, data: bytes) -> Iterator[tuple[int, Any]]:
    if len(data) > YAML_LIMIT:
        raise InputTooLarge(
            source.name,
            f"{len(data) >> 20} MiB of YAML, at most {YAML_LIMIT >> 20} MiB are read",
            f"get it with -o json instead of -o yaml: JSON is read up to {JSON_LIMIT >> 20} MiB",
        )
    try:
        yield from documents(_text(source, data))
    except BadYaml as e:
        raise NotKubernetes(source.name, str(e), "correct the YAML") from e


def _text(source: Source, data: bytes) -> str:
    encoding = next((name for bom, name in _BOMS if data.startswith(bom)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as e:
        value = f"byte {e.start} is 0x{data[e.start]:02x}, which is no UTF-8"
        raise NotKubernetes(source.name, f"{value}: not text", _REMEDY) from e
    if "\0" in text:
        raise NotKubernetes(source.name, f"byte {text.index(chr(0))} is 0: not text", _REMEDY)
    return text


def _flat(
    value: Any, at: _At, depth: int, group_version: str = "", kind: str = ""
) -> Iterator[Item]:
    """The object, or the objects in it when it is a list. `group_version` and `kind` are what a
    typed list says of items that say nothing themselves."""
    head, parts = _head(value, at)
    if parts is None:
        api, name = head.api_version or group_version, head.kind or kind
        if not isinstance(api, str) or not isinstance(name, str) or not api or not name:
            raise NotKubernetes(at.where, _nameless(head, value), _REMEDY)
        group, _, version = api.rpartition("/")
        yield Item(at.where, group, version, name, value)
        return
    if depth == _LISTS_IN_LISTS:
        raise NotKubernetes(at.where, f"lists in lists, {depth} deep", "give one list of objects")
    typed = isinstance(head.kind, str) and head.kind != "List"
    inner = (str(head.api_version or ""), head.kind.removesuffix("List")) if typed else ("", "")
    for index, part in enumerate(parts):
        yield from _flat(part, _At(f"{at.where}, items[{index}]", at.shown), depth + 1, *inner)


def _head(value: Any, at: _At) -> tuple[_Head, list[Any] | None]:
    """Kind, version and, for a list, what is in it. Raises NotKubernetes."""
    if isinstance(value, Raw):
        return _raw_head(value, at)
    if isinstance(value, list):
        return _Head(), value
    if not isinstance(value, dict):
        raise at.no_object(value)
    head = _Head(value.get("apiVersion"), value.get("kind"), value.get("items"))
    if isinstance(head.kind, str) and head.kind.endswith("List") and "items" in value:
        if not isinstance(head.items or [], list):
            raise NotKubernetes(at.where, f"items: {named(head.items)}", "write a list of objects")
        return head, head.items or []
    return head, None


def _raw_head(value: Raw, at: _At) -> tuple[_Head, list[Any] | None]:
    if bytes(memoryview(value)[:64]).lstrip()[:1] == b"[":
        return _Head(), list(_decode_list(value))
    try:
        head = _decode_head(value)
    except BAD_JSON:
        return _head(_any_json(value, at.where), at)
    if isinstance(head.kind, str) and head.kind.endswith("List") and head.items is not None:
        return _Head(head.api_version, head.kind), list(head.items)
    return _Head(head.api_version, head.kind), None


def _any_json(value: Raw, where: str) -> Any:
    try:
        return msgspec.json.decode(value)
    except BAD_JSON as e:
        raise NotKubernetes(where, _said(e), "correct the JSON") from e


def _said(error: Exception) -> str:
    return "nested too deep" if isinstance(error, RecursionError) else str(error)


def _nameless(head: _Head, value: Any) -> str:
    for name, said in (("apiVersion", head.api_version), ("kind", head.kind)):
        if said is not None and not isinstance(said, str):
            return f"{name}: {named(said)}, not text"
    lacking = " and ".join(
        n for n, v in (("apiVersion", head.api_version), ("kind", head.kind)) if not v
    )
    mapping = value if isinstance(value, dict) else _decode_mapping(value)
    keys = ", ".join(list(dict.fromkeys(map(printable_key, mapping)))[:5]) or "no keys at all"
    return f"no {lacking}, only {keys}: not a Kubernetes object"


def printable_key(key: str) -> str:
    """A key of what is no manifest, as messages print it."""
    return key if _WORD.fullmatch(key) else "a key of another form"


def named(value: Any) -> str:
    """A value as messages print it."""
    match value:
        case dict():
            return "a mapping"
        case list():
            return f"a list of {len(value)}"
        case None:
            return "null"
        case _:
            text = json.dumps(value, ensure_ascii=False, default=str)
            return text if len(text) <= 60 else f"{text[:57]}..."
