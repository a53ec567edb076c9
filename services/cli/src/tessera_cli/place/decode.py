"""From a mapping to a Struct of `tessera_schema`, with errors that name field, value and remedy."""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

import msgspec

from tessera_cli.errors import Malformed
from tessera_cli.input.manifests import Item, named

T = TypeVar("T")

_SAID: Final = re.compile(r"(?P<what>.*?)(?: - at `(?P<path>.*)`)?", re.DOTALL)
_EXPECTED: Final = re.compile(r"Expected `(?P<wanted>[^`]*)`, got `(?P<got>[^`]*)`")
_STEP: Final = re.compile(r"\.(?P<key>[^.\[]+)|\[(?P<index>\d+)\]|(?P<any>\[\.\.\.\])")
_WORDS: Final = {
    "str": "text", "int": "a whole number", "float": "a number", "object": "a mapping",
    "array": "a list", "bool": "true or false", "null": "null",
}  # fmt: skip


def convert(raw: Any, wanted: type[T], where: str, *, field: str = "") -> T:
    """The Struct. Raises Malformed; `field` is where `raw` is in the object that `where` names."""
    try:
        return msgspec.convert(raw, wanted)
    except msgspec.ValidationError as e:
        raise malformed(raw, e, where, field) from e
    except RecursionError as e:
        raise Malformed(where, "nested too deep", "write a manifest that Kubernetes takes") from e


def malformed(raw: Any, error: msgspec.ValidationError, where: str, field: str = "") -> Malformed:
    """What msgspec found, in the words of a manifest."""
    said = _SAID.fullmatch(str(error))
    what, path = (said["what"], said["path"]) if said is not None else (str(error), None)
    expected = _EXPECTED.fullmatch(what)
    place, value = _walk(raw, path or "$", expected["got"] if expected is not None else "")
    place = (field.rstrip(".") + place).lstrip(".")
    if expected is None:
        return Malformed(where, place, what)
    wanted = " or ".join(dict.fromkeys(_WORDS.get(w, w) for w in expected["wanted"].split(" | ")))
    return Malformed(where, place, named(value), f"write {wanted}")


def called(item: Item, raw: dict[str, Any]) -> str:
    """The object as messages name it: where it was found, its kind, namespace and name."""
    metadata = raw.get("metadata")
    meta = metadata if isinstance(metadata, dict) else {}
    parts = [meta.get("namespace"), meta.get("name") or meta.get("generateName")]
    name = "/".join(p for p in parts if isinstance(p, str) and p)
    return f"{item.where}, {item.kind} {name}".rstrip()


def _walk(raw: Any, path: str, got: str) -> tuple[str, Any]:
    """Follow msgspec's path; `[...]` stands for some value of a mapping: the first that fits."""
    place, value = "", raw
    for step in _STEP.finditer(path):
        if step["key"] is not None:
            place, value = f"{place}.{step['key']}", _get(value, step["key"])
        elif step["index"] is not None:
            place, value = f"{place}[{step['index']}]", _at(value, int(step["index"]))
        elif isinstance(value, dict):
            key = next((k for k, v in value.items() if _is(v, got)), next(iter(value), ""))
            place, value = f"{place}[{key}]", value.get(key)
    return place, value


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _at(value: Any, index: int) -> Any:
    return value[index] if isinstance(value, list) and index < len(value) else None


def _is(value: Any, got: str) -> bool:
    kinds: dict[str, tuple[type, ...]] = {
        "object": (dict,), "array": (list,), "str": (str,), "bool": (bool,), "float": (float,),
    }  # fmt: skip
    if got == "int":
        return isinstance(value, int) and not isinstance(value, bool)
    return value is None if got == "null" else isinstance(value, kinds.get(got, ()))
