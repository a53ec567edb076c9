"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386) on decoded JSON.

Both give a new value and leave the old one alone. A patch that cannot be applied raises BadRequest
where it is malformed, and Invalid where the object does not have what it speaks of.
"""

from __future__ import annotations

import copy
from typing import Any

import msgspec
from msgspec import Struct

from tessera_embedded.apiserver.errors import BadRequest, Invalid


class PatchOperation(Struct, frozen=True, rename={"source": "from"}):
    """One step of a JSON patch."""

    op: str
    path: str
    value: msgspec.Raw = msgspec.Raw()
    source: str = ""


class _Root(dict[str, Any]):
    """Holds the whole value under the empty key, where the empty pointer leads."""


def merge(old: Any, patch: Any) -> Any:
    """The value with a merge patch applied: null removes, objects merge, all else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def operations(body: bytes) -> list[PatchOperation]:
    """Read a JSON patch. Raises BadRequest."""
    try:
        return msgspec.json.decode(body, type=list[PatchOperation])
    except (msgspec.MsgspecError, UnicodeDecodeError) as e:
        raise BadRequest(f"the JSON patch cannot be read: {e}") from e


def apply(old: Any, steps: list[PatchOperation]) -> Any:
    """The value after all steps. Raises BadRequest or Invalid; then nothing was changed."""
    box = _Root({"": copy.deepcopy(old)})
    for step in steps:
        try:
            _apply(box, step)
        except (KeyError, IndexError, ValueError, TypeError, AttributeError) as e:
            raise Invalid(
                "the server rejected our request due to an error in our request: the JSON patch "
                f"step {step.op} {step.path!r} does not apply: {e}"
            ) from e
    return box[""]


def _apply(box: _Root, step: PatchOperation) -> None:
    parent, key = _place(box, step.path)
    match step.op:
        case "add":
            _add(parent, key, _value(step))
        case "remove":
            _remove(parent, key)
        case "replace":
            _get(parent, key)
            parent[_index(parent, key)] = _value(step)
        case "move":
            source = _place(box, step.source)
            moved = _get(*source)
            _remove(*source)
            _add(*_place(box, step.path), moved)
        case "copy":
            _add(parent, key, copy.deepcopy(_get(*_place(box, step.source))))
        case "test":
            _test(parent, key, step)
        case _:
            raise BadRequest(f"the JSON patch has an unknown operation {step.op!r}")


def _value(step: PatchOperation) -> Any:
    if not bytes(step.value):
        raise BadRequest(f"the JSON patch step {step.op} {step.path!r} has no value")
    return msgspec.json.decode(step.value)


def _test(parent: Any, key: str, step: PatchOperation) -> None:
    wanted = _value(step)
    have = parent.get(key) if isinstance(parent, dict) else _get(parent, key)
    if have != wanted:
        raise ValueError("testing value failed")


def _place(box: _Root, pointer: str) -> tuple[Any, str]:
    """The container that a pointer ends in, and the key there; `box` holds the root under ''."""
    if pointer and not pointer.startswith("/"):
        raise BadRequest(f"the JSON pointer {pointer!r} does not start with /")
    keys = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")]
    value: Any = box
    for key in keys[:-1]:
        value = _get(value, key)
    return value, keys[-1]


def _index(parent: Any, key: str) -> Any:
    if not isinstance(parent, list):
        return key
    if not key.isdigit() or (len(key) > 1 and key[0] == "0"):
        raise ValueError(f"{key!r} is not an index")
    return int(key)


def _get(parent: Any, key: str) -> Any:
    return parent[_index(parent, key)]


def _add(parent: Any, key: str, value: Any) -> None:
    if not isinstance(parent, list):
        parent[key] = value
        return
    at = len(parent) if key == "-" else _index(parent, key)
    if at > len(parent):
        raise IndexError(f"index {at} is beyond the end")
    parent.insert(at, value)


def _remove(parent: Any, key: str) -> None:
    if isinstance(parent, _Root):
        raise ValueError("the whole object cannot be removed")  # noqa: TRY004  (not a type)
    del parent[_index(parent, key)]
