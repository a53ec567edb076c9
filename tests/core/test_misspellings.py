"""Which known words a mistyped one may have meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.admission.misspellings import nearest

KNOWN = ("vgpu-mode", "use-gpuuuid", "nouse-gpuuuid", "use-gputype")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("use-gpuuid", ["use-gpuuuid"]),
        ("use-gpuuuuid", ["use-gpuuuid"]),
        ("use-gpuuudi", ["use-gpuuuid"]),
        ("Use_GpuUUID", ["use-gpuuuid"]),
        ("usegpuuuid", ["use-gpuuuid"]),
        ("vgpumode", ["vgpu-mode"]),
        ("vgpu-mdoe", ["vgpu-mode"]),
        ("no-use-gpuuuid", ["nouse-gpuuuid"]),
        ("mode", []),
        ("gpu", []),
        ("x" * 1000, []),
    ],
)
def test_near_words(word: str, meant: list[str]) -> None:
    assert list(nearest(word, KNOWN)) == meant


def test_equally_near_ones_are_all_named_but_not_many() -> None:
    assert nearest("card-x", ["card-4", "card-3", "card-1", "card-2"]) == (
        "card-1",
        "card-2",
        "card-3",
    )


def _reference(one: str, other: str) -> int:
    """Restricted edit distance with transpositions, by its definition."""
    if not one or not other:
        return len(one) + len(other)
    best = min(
        _reference(one[:-1], other) + 1,
        _reference(one, other[:-1]) + 1,
        _reference(one[:-1], other[:-1]) + (one[-1] != other[-1]),
    )
    if one[-2:] == other[-2:][::-1] and len(one) > 1 and len(other) > 1:
        best = min(best, _reference(one[:-2], other[:-2]) + 1)
    return best


@given(st.text("abc", min_size=1, max_size=6), st.text("abc", min_size=1, max_size=6))
def test_two_edits_are_near_and_three_are_not(one: str, other: str) -> None:
    assert bool(nearest(one, [other])) is (_reference(one, other) <= 2)
