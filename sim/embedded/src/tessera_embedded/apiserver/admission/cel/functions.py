"""CEL's operators, functions and methods on decoded JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final


class CelError(Exception):
    """The expression has no value here: a missing key, or types that do not go together."""


def same(a: Any, b: Any) -> bool:
    """CEL's equality: numbers by value, true and 1 are different."""
    if isinstance(a, bool) != isinstance(b, bool):
        return False
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return bool(a == b)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any) -> Any:
    if not _is_number(value):
        raise TypeError(f"{value!r:.40} is not a number")
    return value


def _plus(a: Any, b: Any) -> Any:
    if isinstance(a, str) and isinstance(b, str):
        return a + b
    if isinstance(a, list) and isinstance(b, list):
        return [*a, *b]
    return _number(a) + _number(b)


def _divided(a: Any, b: Any) -> Any:
    if b == 0:
        raise CelError("division by zero")
    if isinstance(a, int) and isinstance(b, int):
        quotient = abs(_number(a)) // abs(_number(b))
        return quotient if (a < 0) == (b < 0) else -quotient
    return _number(a) / _number(b)


def _rest(a: Any, b: Any) -> Any:
    if b == 0:
        raise CelError("modulus by zero")
    return _number(a) - _number(b) * _divided(a, b)


def _ordered(a: Any, b: Any) -> int:
    alike = (_is_number(a) and _is_number(b)) or (
        type(a) is type(b) and isinstance(a, str | bool)
    )  # fmt: skip
    if not alike:
        raise TypeError("these cannot be ordered")
    return int(a > b) - int(a < b)


def _contains(item: Any, holder: Any) -> bool:
    if isinstance(holder, Mapping):
        return item in holder
    if isinstance(holder, list):
        return any(same(item, have) for have in holder)
    raise TypeError("`in` wants a list or a map")


def _not(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("! wants true or false")
    return not value


def _size(value: Any) -> int:
    return len(value)


def _string(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise TypeError("string() wants a plain value")


def _int(value: Any) -> int:
    if isinstance(value, str) and not re.fullmatch(r"[+-]?\d+", value, re.ASCII):
        raise CelError(f"cannot convert {value!r} to int")
    return int(value)


def _double(value: Any) -> float:
    return float(value)


def _type(value: Any) -> str:
    names = {bool: "bool", int: "int", float: "double", str: "string", list: "list", dict: "map"}
    return names.get(type(value), "null_type")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is not a text")
    return value


def _matches(text: Any, pattern: Any) -> bool:
    try:
        return re.search(_text(pattern), _text(text)) is not None
    except re.error as e:
        raise CelError(f"invalid regular expression {pattern!r}: {e}") from e


def _find(text: str, pattern: str) -> str:
    found = re.search(_text(pattern), _text(text))
    return found[0] if found else ""


def _join(items: list[str], between: str = "") -> str:
    return between.join(items)


def _split(text: str, by: str, most: int = -1) -> list[str]:
    parts = list(text) if not by else text.split(by, most - 1 if most > 0 else -1)
    return [] if most == 0 else parts


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise CelError(f"index out of range: {start}")
    return text[start:stop]


def _replace(text: str, old: str, new: str, most: int = -1) -> str:
    return text.replace(old, new, most)


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "+": _plus,
    "-": lambda a, b: _number(a) - _number(b),
    "*": lambda a, b: _number(a) * _number(b),
    "/": _divided,
    "%": _rest,
    "==": same,
    "!=": lambda a, b: not same(a, b),
    "<": lambda a, b: _ordered(a, b) < 0,
    "<=": lambda a, b: _ordered(a, b) <= 0,
    ">": lambda a, b: _ordered(a, b) > 0,
    ">=": lambda a, b: _ordered(a, b) >= 0,
    "in": _contains,
    "!": _not,
    "negative": lambda a: -_number(a),
    "size": _size,
    "string": _string,
    "int": _int,
    "uint": _int,
    "double": _double,
    "type": _type,
    "dyn": lambda value: value,
    "matches": _matches,
}

METHODS: Final[Mapping[str, Callable[..., Any]]] = {
    "startsWith": lambda text, start: _text(text).startswith(_text(start)),
    "endsWith": lambda text, end: _text(text).endswith(_text(end)),
    "contains": lambda text, part: _text(part) in _text(text),
    "matches": _matches,
    "size": _size,
    "lowerAscii": lambda text: _text(text).lower(),
    "upperAscii": lambda text: _text(text).upper(),
    "trim": lambda text: _text(text).strip(),
    "replace": _replace,
    "split": _split,
    "join": _join,
    "substring": _substring,
    "indexOf": lambda text, part: text.find(part) if isinstance(text, str) else text.index(part),
    "find": _find,
    "isSorted": lambda items: items == sorted(items),
    "sum": sum,
    "min": min,
    "max": max,
    # those of `authorizer`
    "group": lambda of, name: of.group(_text(name)),
    "resource": lambda of, name: of.resource(_text(name)),
    "subresource": lambda of, name: of.subresource(_text(name)),
    "namespace": lambda of, name: of.namespace(_text(name)),
    "name": lambda of, name: of.name(_text(name)),
    "check": lambda of, verb: of.check(_text(verb)),
    "allowed": lambda of: of.allowed(),
    "reason": lambda of: of.reason(),
}
