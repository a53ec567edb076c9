"""Label selectors (equality and set-based) and field selectors, read once and then tested often.

Both become a list of requirements, all of which must hold. An unknown field is refused, as the
real server refuses it: a selector that silently matched everything would be worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from tessera_embedded.apiserver.errors import BadRequest

Labels = Mapping[str, str]


class Requirement(Struct, frozen=True):
    """One condition on one key: `operator` is in, notin, exists, absent, gt or lt."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, have: Labels) -> bool:
        """True where the condition holds of these labels."""
        return _TESTS[self.operator](have.get(self.key), self.values)


def _compared(value: str | None, values: frozenset[str], sign: int) -> bool:
    try:
        return value is not None and (int(value) - int(min(values))) * sign > 0
    except ValueError:
        return False


_TESTS: Final[Mapping[str, Callable[[str | None, frozenset[str]], bool]]] = {
    "in": lambda value, values: value in values,
    "notin": lambda value, values: value not in values,
    "exists": lambda value, _: value is not None,
    "absent": lambda value, _: value is None,
    "gt": lambda value, values: _compared(value, values, 1),
    "lt": lambda value, values: _compared(value, values, -1),
}

Selector = tuple[Requirement, ...]
"""All of them must hold; an empty one matches everything."""


def matches(selector: Selector, have: Labels) -> bool:
    """True where every requirement holds."""
    return all(r.holds(have) for r in selector)


_SET: Final = re.compile(r"\s*(?P<key>[\w./-]+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)\s*")
_PAIR: Final = re.compile(
    r"\s*(?P<key>[\w./-]+)\s*(?P<op>==|!=|=|>|<)\s*(?P<value>[\w.-]*)\s*", re.ASCII
)
_BARE: Final = re.compile(r"\s*(?P<no>!?)\s*(?P<key>[\w./-]+)\s*")
_PAIR_OPERATORS: Final = {"=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}


def label_selector(text: str) -> Selector:
    """Read `a=b,c!=d,e in (f,g),h,!i`. Raises BadRequest."""
    return tuple(_requirement(part) for part in _parts(text)) if text.strip() else ()


def _parts(text: str) -> Sequence[str]:
    return re.split(r",(?![^()]*\))", text)


def _requirement(part: str) -> Requirement:
    if match := _SET.fullmatch(part):
        values = frozenset(v.strip() for v in match["values"].split(","))
        return Requirement(match["key"], match["op"], values)
    if match := _PAIR.fullmatch(part):
        operator = _PAIR_OPERATORS[match["op"]]
        return Requirement(match["key"], operator, frozenset({match["value"]}))
    if match := _BARE.fullmatch(part):
        return Requirement(match["key"], "absent" if match["no"] else "exists")
    raise BadRequest(
        f'unable to parse requirement: found {part!r}, expected: "key=value", "key in (a,b)", '
        '"key" or "!key"'
    )


_OPERATORS: Final = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}


def from_object(selector: Mapping[str, Any] | None) -> Selector:
    """Read a LabelSelector object (matchLabels, matchExpressions); None matches everything."""
    selector = selector or {}
    equal = [
        Requirement(key, "in", frozenset({value}))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    sets = [
        Requirement(e.get("key", ""), _operator(e), frozenset(e.get("values") or ()))
        for e in selector.get("matchExpressions") or ()
    ]
    return (*equal, *sets)


def object_problem(selector: Mapping[str, Any] | None) -> str | None:
    """Why a LabelSelector object cannot be read, or None."""
    try:
        from_object(selector)
    except BadRequest as e:
        return e.message
    return None


def _operator(expression: Mapping[str, Any]) -> str:
    operator = _OPERATORS.get(expression.get("operator", ""))
    if operator is None:
        raise BadRequest(
            f"{expression.get('operator')!r} is not a valid label selector operator: "
            f"use one of {', '.join(_OPERATORS)}"
        )
    return operator


FIELDS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("", "pods"): (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
        "spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName",
    ),
    ("", "nodes"): ("spec.unschedulable",),
    ("", "namespaces"): ("status.phase",),
    ("", "secrets"): ("type",),
    ("", "events"): (
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
        "involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion",
        "involvedObject.fieldPath", "reason", "reportingComponent", "type",
    ),
}  # fmt: skip
"""Selectable fields in addition to metadata.name and metadata.namespace."""

_FIELD: Final = re.compile(r"(?P<key>[\w.]+)(?P<op>==|!=|=)(?P<value>.*)")
_METADATA: Final = ("metadata.name", "metadata.namespace")


def field_selector(text: str, shelf: tuple[str, str]) -> Selector:
    """Read `spec.nodeName=a,status.phase!=ProcessRunning`. Raises BadRequest."""
    return tuple(_field(part, shelf) for part in text.split(",")) if text.strip() else ()


def _field(part: str, shelf: tuple[str, str]) -> Requirement:
    match = _FIELD.fullmatch(part.strip())
    if match is None:
        raise BadRequest(f"invalid selector: {part!r}; can't understand {part!r}")
    if match["key"] not in (*_METADATA, *FIELDS.get(shelf, ())):
        raise BadRequest(
            f'Unable to find "{shelf[1]}" that match field selector "{part}": '
            f"field label not supported: {match['key']}"
        )
    return Requirement(match["key"], _PAIR_OPERATORS[match["op"]], frozenset({match["value"]}))


def selectable(obj: Mapping[str, Any], shelf: tuple[str, str]) -> dict[str, str]:
    """The values of an object's selectable fields, empty where unset."""
    metadata = obj.get("metadata") or {}
    found = {
        "metadata.name": str(metadata.get("name", "")),
        "metadata.namespace": str(metadata.get("namespace", "")),
    }
    for path in FIELDS.get(shelf, ()):
        found[path] = _text(obj, path)
    return found


def _text(obj: Mapping[str, Any], path: str) -> str:
    value: Any = obj
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    if path.endswith(("unschedulable", "hostNetwork")):
        return "true" if value else "false"
    return value if isinstance(value, str) else ""
