"""The plain types of fields: each is checked, and written as the server writes it."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from tessera_embedded.apiserver.errors import BadRequest
from tessera_embedded.apiserver.objects.quantities import canonical

_WORDS: Final = {str: "string", bool: "bool", dict: "object", list: "array"}
_MICRO: Final = re.compile(r"(?P<whole>[^.]+)\.(?P<fraction>\d{6})(?P<zone>Z|[+-]\d\d:\d\d)")


class MistypedField(Exception):
    """A field has a value of another type; the message names both."""


def mistyped(value: Any, name: str, path: str) -> MistypedField:
    """The error for a value of another type."""
    have = _WORDS.get(type(value), "number")
    field = re.sub(r"\[\d+\]", "", path)
    return MistypedField(f"json: cannot unmarshal {have} into field {field} of type {name}")


def _same(value: Any) -> Any:
    return value


def _parsed(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as e:
        raise MistypedField(f'parsing time "{text}": {e}') from e
    if moment.tzinfo is None or len(text) < 20:
        raise MistypedField(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": incomplete')
    return moment.astimezone(UTC)


def _time(text: str) -> str:
    return _parsed(text).strftime("%Y-%m-%dT%H:%M:%SZ")


def _microtime(text: str) -> str:
    match = _MICRO.fullmatch(text)
    if match is None:
        wanted = "2006-01-02T15:04:05.000000Z07:00"
        raise MistypedField(f'parsing time "{text}" as "{wanted}": cannot parse the fraction')
    moment = _parsed(f"{match['whole']}.{match['fraction']}{match['zone']}")
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _bytes(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as e:
        raise MistypedField(f"illegal base64 data: {e}") from e
    return text


PLAIN: Final[Mapping[str, tuple[tuple[type, ...], Callable[[Any], Any]]]] = {
    "str": ((str,), _same),
    "int": ((int,), _same),
    "bool": ((bool,), _same),
    "float": ((int, float), _same),
    "intstr": ((str, int), _same),
    "quantity": ((str, int, float), canonical),
    "time": ((str,), _time),
    "microtime": ((str,), _microtime),
    "bytes": ((str,), _bytes),
}
"""What JSON a type takes, and how it is written."""


def plain(value: Any, name: str, path: str) -> Any:
    """The value as it is written. Raises MistypedField."""
    types, written = PLAIN[name]
    if not isinstance(value, types) or (isinstance(value, bool) and name != "bool"):
        raise mistyped(value, name, path)
    try:
        return written(value)
    except BadRequest as e:
        raise MistypedField(e.message) from e
