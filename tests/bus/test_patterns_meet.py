"""Patterns of subjects: what two of them cover together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_runtime.bus.subject_patterns import covered_by, matches, meet

TOKENS = st.sampled_from(["a", "b", "c"])
SUBJECTS = st.lists(TOKENS, min_size=1, max_size=4).map(".".join)
PATTERNS = st.builds(
    lambda tokens, rest: ".".join([*tokens, ">"] if rest or not tokens else tokens),
    st.lists(st.sampled_from(["a", "b", "*"]), max_size=4),
    st.booleans(),
)


@pytest.mark.parametrize(
    ("pattern", "subject", "covered"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.b.c", False),
        ("a.b.c", "a.b", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        (">", "a", True),
        ("*.b.>", "a.b.c", True),
        ("*.b.>", "a.c.c", False),
    ],
)
def test_a_pattern_covers_what_nats_says(pattern: str, subject: str, covered: bool) -> None:  # noqa: FBT001  (a column of the table)
    assert matches(pattern, subject) is covered


@given(PATTERNS, PATTERNS, SUBJECTS)
def test_the_meeting_covers_what_both_cover(one: str, other: str, subject: str) -> None:
    both = matches(one, subject) and matches(other, subject)
    met = meet(one, other)
    assert (bool(met) and matches(met, subject)) == both


@given(PATTERNS, PATTERNS)
def test_the_order_does_not_matter(one: str, other: str) -> None:
    assert meet(one, other) == meet(other, one)


@given(PATTERNS, SUBJECTS)
def test_what_is_prepared_covers_the_same(pattern: str, subject: str) -> None:
    assert bool(covered_by(pattern)(subject)) == matches(pattern, subject)
