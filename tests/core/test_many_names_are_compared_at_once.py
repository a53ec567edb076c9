"""Thousands of node names in whatever order are the same names."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from tessera_core.fleet.fleet import Fleet
from tessera_core.scheduling.candidates import CandidateCache
from tessera_core.scheduling.name_digest import digest_of, text_digest


def some_names(count: int, letters: str = "node-{:06}") -> list[str]:
    return [letters.format(i) for i in range(count)]


def in_another_order(names: list[str]) -> list[str]:
    return sorted(names, key=lambda name: name[::-1])


def offered(names: list[str]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(names))


@pytest.mark.parametrize("letters", ["n{:05}", "node{:04}", "node-{:06}", "ip-{:09}.example.org"])
def test_names_of_one_length_have_one_digest_in_any_order(letters: str) -> None:
    names = some_names(1000, letters)
    found = digest_of(names, msgspec.json.encode(names))
    assert found is not None
    assert text_digest(msgspec.json.encode(in_another_order(names))) == found


@pytest.mark.parametrize("place", range(11))
def test_each_letter_counts(place: int) -> None:
    names = some_names(1000)
    others = [*names[:-1], names[-1][:place] + "x" + names[-1][place + 1 :]]
    assert text_digest(msgspec.json.encode(names)) != text_digest(msgspec.json.encode(others))


def test_letters_that_change_places_count() -> None:
    names, others = some_names(1000), some_names(1000)
    others[12], others[30] = "node-000010", "node-000032"  # and not 000012 and 000030
    assert text_digest(msgspec.json.encode(names)) != text_digest(msgspec.json.encode(others))


@pytest.mark.parametrize(
    "names",
    [
        [],
        some_names(100),
        some_names(2000, "n{}"),
        some_names(2000, "n{:04}"),
        [*some_names(999), "node-ü0000"],
        [*some_names(999), 'node-"00000'],
    ],
    ids=["none", "few", "lengths that differ", "short", "not ASCII", "with escapes"],
)
def test_others_are_decoded(names: list[str]) -> None:
    assert digest_of(names, msgspec.json.encode(names)) is None


def test_equal_offers_are_one_object_and_others_are_not() -> None:
    names = some_names(1000)
    fleet = Fleet()
    for name in names:
        fleet.put(name, ())
    offers = CandidateCache(fleet)
    first = offers.of(offered(names))
    assert offers.of(offered(in_another_order(names))) is first
    one_less = offers.of(offered(names[1:]))
    assert one_less is not first
    assert not one_less.rows[fleet.rows[names[0]]]
    assert np.count_nonzero(one_less.rows) == 999
    another = offers.of(offered([*names[1:], "node-999999"]))
    assert another.at.tolist().count(-1) == 1
