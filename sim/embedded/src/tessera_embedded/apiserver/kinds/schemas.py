"""Custom resources by their schema: defaults, pruning and validation, as structural schemas do it.

Served: type, properties, items, additionalProperties, required, enum, default, nullable, minimum,
maximum, minLength, maxLength, minItems, maxItems, pattern, x-kubernetes-int-or-string and
x-kubernetes-preserve-unknown-fields. Not served: allOf and its kin, formats, CEL rules in schemas.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tessera_embedded.apiserver.errors import Cause, JsonObject, required, unsupported, wrong

Schema = Mapping[str, Any]
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,),
    "integer": (int,), "number": (int, float),
}  # fmt: skip
_NAMES: Final = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer",
                 float: "number"}  # fmt: skip


class SchemaRules:
    """What one schema fills in, drops and refuses; metadata is the server's own business."""

    def __init__(self, schema: Schema) -> None:
        properties = {k: v for k, v in schema.get("properties", {}).items() if k not in _FIXED}
        self._schema = {**schema, "type": "object", "properties": properties}

    def prune(self, obj: JsonObject) -> list[str]:
        """Drop what the schema does not know, in place; the paths of what was dropped."""
        metadata = obj.pop("metadata")
        dropped = list(_prune("", obj, self._schema))
        obj["metadata"] = metadata
        return dropped

    def default(self, obj: JsonObject) -> None:
        """Fill in defaults, in place."""
        metadata = obj.pop("metadata")
        _fill(obj, self._schema)
        obj["metadata"] = metadata

    def check(self, obj: JsonObject) -> list[Cause]:
        """What is wrong by the schema."""
        value = {k: v for k, v in obj.items() if k != "metadata"}
        return list(_check("", value, self._schema))


_FIXED: Final = ("metadata", "kind", "apiVersion")


_KEYWORDS: Final[Mapping[str, tuple[type, ...]]] = {
    "type": (str,), "properties": (dict,), "items": (dict,), "additionalProperties": (bool, dict),
    "required": (list,), "enum": (list,), "pattern": (str,), "minimum": (int, float),
    "maximum": (int, float), "minLength": (int,), "maxLength": (int,), "minItems": (int,),
    "maxItems": (int,),
}  # fmt: skip


def schema_problems(schema: Any, path: str = "schema") -> Iterator[str]:
    """Why something is no schema that can be followed; nothing where it is one."""
    if not isinstance(schema, dict):
        yield f"{path} is not an object"
        return
    for keyword, types in _KEYWORDS.items():
        if keyword in schema and not isinstance(schema[keyword], types):
            yield f"{path}.{keyword} is not {' or '.join(t.__name__ for t in types)}"
            return
    if schema.get("type", "object") not in _TYPES:
        yield f"{path}.type is none of {', '.join(_TYPES)}"
    try:
        re.compile(schema.get("pattern", ""))
    except re.error as e:
        yield f"{path}.pattern: {e}"
    for name, inner in _inner_schemas(schema):
        yield from schema_problems(inner, f"{path}.{name}")


def _inner_schemas(schema: Schema) -> Iterator[tuple[str, Any]]:
    yield from schema.get("properties", {}).items()
    for keyword in ("items", "additionalProperties"):
        if not isinstance(schema.get(keyword, True), bool):
            yield keyword, schema[keyword]


def _inner(name: str, schema: Schema) -> Schema | None:
    """The schema of a field, an empty one where anything goes, None where it is unknown."""
    properties, more = schema.get("properties", {}), schema.get("additionalProperties")
    if name in properties:
        return dict(properties[name])
    if more or schema.get("x-kubernetes-preserve-unknown-fields"):
        return more if isinstance(more, Mapping) else _ANYTHING
    return None


_ANYTHING: Final = {"x-kubernetes-preserve-unknown-fields": True}


def _prune(path: str, value: Any, schema: Schema) -> Iterator[str]:
    if isinstance(value, list):
        items = schema.get("items", _ANYTHING if schema is _ANYTHING else {})
        for index, item in enumerate(value):
            yield from _prune(f"{path}[{index}]", item, items)
    elif isinstance(value, dict):
        for name in list(value):
            where, inner = f"{path}.{name}" if path else name, _inner(name, schema)
            if inner is None:
                del value[name]
                yield where
            else:
                yield from _prune(where, value[name], inner)


def _fill(value: Any, schema: Schema) -> None:
    if isinstance(value, list):
        for item in value:
            _fill(item, schema.get("items", {}))
    elif isinstance(value, dict):
        for name, inner in schema.get("properties", {}).items():
            if name not in value and "default" in inner:
                value[name] = copy.deepcopy(inner["default"])
        for name, item in value.items():
            _fill(item, _inner(name, schema) or {})


def _check(path: str, value: Any, schema: Schema) -> Iterator[Cause]:
    if schema.get("x-kubernetes-int-or-string"):
        if not isinstance(value, int | str) or isinstance(value, bool):
            yield _mistyped(path, value, "integer or string")
        return
    wanted = schema.get("type")
    if wanted and not _is(value, wanted):
        yield _mistyped(path, value, wanted)
        return
    if "enum" in schema and value not in schema["enum"]:
        yield unsupported(path, value, schema["enum"])
    yield from (wrong(path, value, why) for why in _out_of_bounds(path, value, schema))
    yield from _check_inside(path, value, schema)


def _is(value: Any, wanted: str) -> bool:
    if isinstance(value, bool) and wanted != "boolean":
        return False
    if wanted == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(wanted, (object,)))


def _mistyped(path: str, value: Any, wanted: str) -> Cause:
    have = _NAMES.get(type(value), "null")
    shown = f'"{have}"'
    why = f"{path or '<root>'} in body must be of type {wanted}: {shown}"
    return Cause("FieldValueTypeInvalid", f"Invalid value: {shown}: {why}", path)


def _out_of_bounds(path: str, value: Any, schema: Schema) -> Iterator[str]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value < schema.get("minimum", value):
            yield f"{path} in body should be greater than or equal to {schema['minimum']}"
        if value > schema.get("maximum", value):
            yield f"{path} in body should be less than or equal to {schema['maximum']}"
    elif isinstance(value, str | list):
        kind, unit = ("Length", "chars long") if isinstance(value, str) else ("Items", "items")
        if len(value) < schema.get(f"min{kind}", 0):
            yield f"{path} in body should be at least {schema[f'min{kind}']} {unit}"
        if len(value) > schema.get(f"max{kind}", len(value)):
            yield f"{path} in body should be at most {schema[f'max{kind}']} {unit}"
    if isinstance(value, str) and re.search(schema.get("pattern", ""), value) is None:
        yield f"{path} in body should match '{schema['pattern']}'"


def _check_inside(path: str, value: Any, schema: Schema) -> Iterator[Cause]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _check(f"{path}[{index}]", item, schema.get("items", {}))
    if not isinstance(value, dict):
        return
    dot = f"{path}." if path else ""
    yield from (required(f"{dot}{n}") for n in schema.get("required", ()) if n not in value)
    properties, more = schema.get("properties", {}), schema.get("additionalProperties")
    for name, item in value.items():
        if name in properties:
            yield from _check(f"{dot}{name}", item, properties[name])
        elif isinstance(more, Mapping):
            yield from _check(f"{dot}{name}", item, more)
