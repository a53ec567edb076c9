"""Label selectors (`matchLabels`, `matchExpressions`), read once and asked of many label sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from tessera_schema.label_selectors import LabelTest, Selector

_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


class BadSelector(ValueError):
    """The selector makes no sense; the message says where and what would do."""


class _Expression(Struct, frozen=True, forbid_unknown_fields=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class _Written(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[_Expression, ...] = ()


def parse_selector(written: Mapping[str, Any]) -> Selector:
    """The selector in flat form; empty when it selects everything. Raises BadSelector."""
    try:
        read = msgspec.convert(written, _Written)
    except msgspec.ValidationError as e:
        raise BadSelector(f"{e}: write matchLabels or matchExpressions") from e
    tests = [LabelTest(key, "In", (value,)) for key, value in sorted(read.match_labels.items())]
    for written_test in read.match_expressions:
        test = LabelTest(written_test.key, written_test.operator, written_test.values)
        wrong = _wrong(test)
        if wrong:
            raise BadSelector(f"{test}: {wrong}")
        tests.append(test)
    return tuple(tests)


def selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Whether all conditions hold."""
    return all(_holds(test, labels.get(test.key)) for test in selector)


def _holds(test: LabelTest, value: str | None) -> bool:
    match test.operator:
        case "In":
            return value in test.values
        case "NotIn":
            return value not in test.values
        case "Exists":
            return value is not None
        case _:
            return value is None


def _wrong(test: LabelTest) -> str:
    if test.operator not in _OPERATORS:
        return f"write one of {', '.join(_OPERATORS)}"
    if test.operator in ("In", "NotIn"):
        return "" if test.values else f"{test.operator} needs values"
    return f"{test.operator} takes no values" if test.values else ""
