"""The Common Expression Language, as match conditions and policies use it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_embedded.apiserver.admission.cel import (
    BadExpression,
    CelError,
    evaluate,
    parse,
    problem,
)

POD: dict[str, Any] = {
    "metadata": {"name": "p", "annotations": {"a.dev/use": "x"}},
    "spec": {
        "containers": [
            {"name": "one", "resources": {"limits": {"a.dev/gpu": "1", "cpu": "500m"}}},
            {"name": "two"},
        ],
    },
}
SCOPE = {"object": POD, "oldObject": None, "request": {"operation": "CREATE"}}
LIMITS = "has(c.resources) && has(c.resources.limits) && c.resources.limits"


@pytest.mark.parametrize(
    ("source", "value"),
    [
        (f"object.spec.containers.exists(c, {LIMITS}.exists(k, k.startsWith('a.dev/')))", True),
        (f"object.spec.containers.exists(c, {LIMITS}.exists(k, k in ['b.dev/gpu']))", False),
        ("object.spec.containers.all(c, has(c.name))", True),
        ("object.spec.containers.exists_one(c, c.name == 'two')", True),
        ("object.spec.containers.map(c, c.name)", ["one", "two"]),
        ("object.spec.containers.map(c, has(c.resources), c.name)", ["one"]),
        ("object.spec.containers.filter(c, !has(c.resources)).size()", 1),
        ("has(object.metadata.labels)", False),
        ("has(object.metadata.annotations) && 'a.dev/use' in object.metadata.annotations", True),
        ("object.metadata.annotations['a.dev/use'] == \"x\"", True),
        ("oldObject == null ? 'new' : 'old'", "new"),
        ("request.operation in ['CREATE', 'UPDATE']", True),
        ("object.metadata.name.matches('^[a-z]$')", True),
        ("'a' + 'b' == 'ab' && [1] + [2] == [1, 2]", True),
        ("7 / 2 == 3 && -7 / 2 == -3 && -7 % 2 == -1 && 1 < 2 && 'a' <= 'b'", True),
        ("{'k': [1, 2]}['k'][1]", 2),
        ("1 == 1.0 && true != false && !(true == false)", True),
        ('r\'\\d\' == \'\\\\d\' && """a"b""" == \'a"b\'', True),
        ("'a,b'.split(',') == ['a', 'b'] && ['a', 'b'].join('-') == 'a-b'", True),
        ("int('7') + size('abc') == 10 // and a comment", True),
        (" || ".join(["false"] * 500 + ["true"]), True),
        ("'A'.lowerAscii() == 'a' && 'abc'.substring(1) == 'bc' && 'abc'.contains('b')", True),
    ],
)
def test_an_expression_has_its_value(source: str, value: object) -> None:
    assert problem(source) is None
    assert evaluate(parse(source), SCOPE) == value


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("object.metadata.labels.x == 'y' || true", True),
        ("true || object.metadata.labels.x == 'y'", True),
        ("object.metadata.labels.x == 'y' && false", False),
        ("[1, 2].exists(x, x == 1 || object.nothing)", True),
        ("[1, 2].all(x, x == 1 && object.nothing)", False),
    ],
)
def test_a_side_that_decides_outweighs_one_that_fails(source: str, *, value: bool) -> None:
    assert evaluate(parse(source), SCOPE) is value


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("object.metadata.labels", "no such key: labels"),
        ("object.metadata.labels.x == 'y' || false", "no such key"),
        ("object.spec.containers[5]", "index out of bounds: 5"),
        ("oldObject.metadata", "no such field: metadata"),
        ("1 + 'a'", "no such overload"),
        ("1 && true", "no such overload"),
        ("1 < 'a'", "no such overload"),
        ("1 / 0", "division by zero"),
        ("'a'.matches('(')", "invalid regular expression"),
        ("int('seven')", "cannot convert"),
    ],
)
def test_an_expression_without_a_value_says_why(source: str, why: str) -> None:
    with pytest.raises(CelError, match=why):
        evaluate(parse(source), SCOPE)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("object.spec.(", "unexpected '\\(' at position 12"),
        ("", "unexpected end"),
        ("1 +", "unexpected end"),
        ("'open", "does not end"),
        ("object # 1", "unexpected '#'"),
        ("has(object)", "has\\(\\) wants a field"),
        ("[1].all(1, true)", "all\\(\\) wants a variable"),
        ("unknown == 1", "undeclared reference to 'unknown'"),
        ("object.exists(c, d)", "undeclared reference to 'd'"),
        ("frob(object)", "undeclared reference to 'frob'"),
        ("'\\z' == 'z'", "unknown escape"),
        ("(" * 500 + ")" * 500, "nested deeper"),
        ("!" * 500 + "true", "nested deeper"),
        ("+".join("1" * 500), "nested deeper"),
        ("a" + ".a" * 500, "nested deeper"),
    ],
)
def test_what_is_no_expression_is_reported_when_it_is_written(source: str, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        assert problem(source) is None, problem(source)


@given(st.text(alphabet="object.spec()[]{}'\"\\ &|!=<>?:,+-*/%0123in \n", max_size=60))
def test_any_text_is_an_expression_or_is_refused(source: str) -> None:
    try:
        tree = parse(source)
    except BadExpression:
        return
    try:
        evaluate(tree, SCOPE)
    except CelError:
        return
