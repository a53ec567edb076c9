from __future__ import annotations

from typing import Any

import pytest

from tessera_cli.input.yaml_values import BadYaml, documents


def only(text: str) -> Any:
    ((_, value),) = documents(text)
    return value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("50", 50, id="number"),
        pytest.param("-7", -7, id="negative"),
        pytest.param("0x10", 16, id="hexadecimal"),
        pytest.param("010", 8, id="old-octal"),
        pytest.param("0o10", 8, id="octal"),
        pytest.param("0b101", 5, id="binary"),
        pytest.param("12_000", 12000, id="underscores"),
        pytest.param("1e3", 1000, id="exponent"),
        pytest.param("0.5", 0.5, id="fraction"),
        pytest.param(".5", 0.5, id="no-digit-before-the-point"),
        pytest.param("09", 9, id="no-octal"),
        pytest.param("9" * 100, "9" * 100, id="too-long-for-a-number"),
        pytest.param("2024-05-20T10:02:05Z", "2024-05-20T10:02:05Z", id="date-stays-text"),
        pytest.param("12:30:45", "12:30:45", id="no-sexagesimal"),
        pytest.param("1.2.3", "1.2.3", id="version"),
        pytest.param("16Gi", "16Gi", id="quantity"),
        pytest.param("true", True, id="true"),
        pytest.param("yes", True, id="yes"),
        pytest.param("n", "n", id="n-is-a-name"),
        pytest.param("Off", False, id="off"),
        pytest.param("~", None, id="tilde"),
        pytest.param("''", "", id="empty-text"),
        pytest.param("'50'", "50", id="quoted"),
        pytest.param("!!str 50", "50", id="tagged-text"),
        pytest.param("! 50", "50", id="tagged-unspecific"),
        pytest.param("!!int 50", 50, id="tagged-number"),
        pytest.param("|\n  50\n", "50\n", id="block"),
        pytest.param("-", [None], id="dash"),
        pytest.param("-1.", -1, id="point-without-digits"),
    ],
)
def test_a_scalar_has_the_value_that_kubectl_gives_it(text: str, value: Any) -> None:
    found = list(documents(text))
    assert [v for _, v in found] == ([] if value is None else [value])
    assert only(f"a: {text}") == {"a": value} if text != "-" else True


def test_keys_are_always_text() -> None:
    assert only("50: a\ntrue: b\n2024-01-01: c") == {"50": "a", "true": "b", "2024-01-01": "c"}


def test_anchors_aliases_and_merges_are_followed() -> None:
    text = """
    one: &one {a: 1, b: [x, &y z]}
    two: {<<: *one, a: 2}
    three: {<<: [{a: 3}, *one], c: *y}
    &k four: *k
    """
    assert only(text) == {
        "one": {"a": 1, "b": ["x", "z"]},
        "two": {"a": 2, "b": ["x", "z"]},
        "three": {"a": 3, "b": ["x", "z"], "c": "z"},
        "four": "four",
    }


def test_documents_come_with_their_lines() -> None:
    assert list(documents("a: 1\n---\n---\nb: 2\n...\n# end\n")) == [(1, {"a": 1}), (3, {"b": 2})]


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        pytest.param("a: 1\nb: 2\na: 3", "line 3: the key a comes twice", id="repeated-key"),
        pytest.param("a: *b", "line 1", id="alias-without-anchor"),
        pytest.param("a: &a [*a]", "the alias *a has no anchor before it", id="an-alias-in-itself"),
        pytest.param("a: !!python/object:os.system x", "the tag", id="a-python-object"),
        pytest.param("a: !secret x", "the tag !secret", id="an-own-tag"),
        pytest.param("? {a: 1}\n: b", "is the key of a mapping", id="a-mapping-as-key"),
        pytest.param("a: &x [1]\n*x : b", "as a key is no text", id="a-list-alias-as-key"),
        pytest.param("<<: 5", "<< merges mappings only", id="merging-a-number"),
        pytest.param("[" * 200, "nested more than 100 deep", id="deep"),
        pytest.param("a: [1\nb: 2", "line 2", id="unclosed"),
        pytest.param("a:\n\t- b", "line 2", id="tab"),
        pytest.param("a: \x07", "control characters", id="bell"),
    ],
)
def test_what_is_no_yaml_is_reported_with_its_line(text: str, reported: str) -> None:
    with pytest.raises(BadYaml) as e:
        list(documents(text))
    assert reported in str(e.value)


def test_a_bomb_of_aliases_is_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    with pytest.raises(BadYaml, match="aliases stand for more than 100000 values"):
        list(documents("\n".join(lines)))
