"""The shape of the built-in kinds: unknown fields are dropped and reported, wrong types are
refused.

The table `fields.txt` says which fields there are. Quantities and times are written as the server
writes them, resources in thousandths. Not promised: fields behind feature gates that are off by
default are known all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from msgspec import Struct

from tessera_embedded.apiserver.errors import BadRequest, JsonObject
from tessera_embedded.apiserver.kinds.scalars import PLAIN, MistypedField, mistyped, plain
from tessera_embedded.apiserver.objects.quantities import MILLI, canonical

_CLOSING: Final = {"[": "]", "{": "}"}


class Shape(Struct, frozen=True):
    """The type of a field."""

    name: str
    """A plain type, `any`, `[` for a list, `{` for a map, else a type of the table."""
    inner: str = ""
    """The type of a list's or map's items."""
    fleeting: bool = False
    """Left out where it is empty, zero or false."""

    @property
    def code(self) -> str:
        """The type as messages spell it."""
        return f"{self.name}{self.inner}{_CLOSING.get(self.name, '')}"


@cache
def table() -> Mapping[str, Mapping[str, Shape]]:
    """Every type by name, every field of it by name."""
    text = resources.files(__package__).joinpath("fields.txt").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    found: dict[str, dict[str, Shape]] = {}
    for line in "\n".join(lines).replace("\n    ", " ").splitlines():
        name, *fields = line.split()
        found[name] = {f.partition(":")[0]: shape_of(f.partition(":")[2]) for f in fields}
    return found


@cache
def shape_of(code: str) -> Shape:
    """The shape that a type in the table stands for."""
    bare = code.removesuffix("?")
    fleeting = bare != code
    if bare[0] in "[{":
        return Shape(bare[0], bare[1:-1], fleeting)
    return Shape(bare, fleeting=fleeting)


def settle(obj: JsonObject, kind: str, version: str) -> list[str]:
    """Drop what the kind does not know, in place; the paths of what was dropped come back.

    Raises BadRequest where a known field has the wrong type.
    """
    dropped: list[str] = []
    try:
        _settle_object(obj, kind, "", dropped)
    except MistypedField as e:
        raise BadRequest(f'{kind} in version "{version}" cannot be handled as a {kind}: {e}') from e
    return dropped


def _settle_object(obj: JsonObject, kind: str, path: str, dropped: list[str]) -> None:
    known = table()[kind]
    for name in list(obj):
        where = f"{path}.{name}" if path else name
        shape = known.get(name)
        if shape is None:
            dropped.append(where)
            del obj[name]
            continue
        obj[name] = _settled(obj[name], shape, where, dropped)
        if shape.fleeting and not obj[name]:
            del obj[name]


def _settled(value: Any, shape: Shape, path: str, dropped: list[str]) -> Any:
    if shape.name == "any":
        return value
    if shape.name in PLAIN:
        return plain(value, shape.name, path)
    if not isinstance(value, list if shape.name == "[" else dict):
        raise mistyped(value, shape.code, path)
    _settle_inside(value, shape, path, dropped)
    return value


def _settle_inside(value: Any, shape: Shape, path: str, dropped: list[str]) -> None:
    if shape.name == "[":
        inner = shape_of(shape.inner)
        value[:] = [_settled(v, inner, f"{path}[{i}]", dropped) for i, v in enumerate(value)]
    elif shape.name == "{":
        _settle_map(value, shape_of(shape.inner), path, dropped)
    else:
        _settle_object(value, shape.name, path, dropped)


def _settle_map(value: JsonObject, inner: Shape, path: str, dropped: list[str]) -> None:
    for key, item in value.items():
        value[key] = _settled(item, inner, f"{path}.{key}", dropped)
        if inner.name == "quantity":
            value[key] = canonical(value[key], MILLI)
