"""Thousands of node names in whatever order are the same names."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from tessera_core.fleet.fleet import Fleet
from tessera_core.scheduling.candidates import CandidateCache
from tessera_core.scheduling.name_digest import digest_of, has_digest

FORMS = [
    pytest.param("n{:05}", id="six letters"),
    pytest.param("node{:04}", id="a word and some"),
    pytest.param("node-{:06}", id="two words that overlap"),
    pytest.param("ip-{:09}.example.org", id="several words"),
    pytest.param("ip-10-{}.eu-west-1.compute.internal", id="lengths that differ"),
    pytest.param("nö{}-{{}}".format("x" * 40), id="not ASCII"),
]


def some_names(count: int, form: str = "node-{:06}") -> list[str]:
    return [form.format(i) for i in range(count)]


def in_another_order(names: list[str]) -> list[str]:
    return sorted(names, key=lambda name: name[::-1])


def same(names: list[str], others: list[str]) -> bool:
    found = digest_of(names, msgspec.json.encode(names))
    assert found is not None
    return has_digest(msgspec.json.encode(others), found)


@pytest.mark.parametrize("form", FORMS)
def test_names_have_one_digest_in_any_order(form: str) -> None:
    names = some_names(2000, form)
    assert same(names, in_another_order(names))


@pytest.mark.parametrize("form", FORMS)
def test_each_letter_counts(form: str) -> None:
    names = some_names(2000, form)
    last = names[-1]
    for place in range(len(last)):
        assert not same(names, [*names[:-1], f"{last[:place]}?{last[place + 1 :]}"])


@pytest.mark.parametrize("form", FORMS)
def test_another_number_of_names_counts(form: str) -> None:
    names = some_names(2000, form)
    assert not same(names, names[1:])
    assert not same(names, [*names, names[0]])


@pytest.mark.parametrize("form", ["node-{:06}", "ip-10-{}.eu-west-1.compute.internal"])
def test_letters_that_change_places_count(form: str) -> None:
    names, others = some_names(2000, form), some_names(2000, form)
    others[12], others[30] = form.format(10), form.format(32)  # and not 12 and 30
    assert not same(names, others)
    longer, shorter = form.format(121), form.format(12)
    others = [*names[:12], longer, *names[13:121], shorter, *names[122:]]
    assert same(names, others)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param([], id="none"),
        pytest.param(some_names(100), id="few"),
        pytest.param(some_names(2000, "node-{}"), id="lengths that differ, and not so many"),
        pytest.param(some_names(2000, "n{:04}"), id="short"),
        pytest.param([*some_names(9000, "a-node-{}"), "n"], id="one of them is short"),
        pytest.param([*some_names(999), 'node-"00000'], id="escapes"),
    ],
)
def test_others_are_decoded(names: list[str]) -> None:
    assert digest_of(names, msgspec.json.encode(names)) is None


def test_what_is_no_list_of_names_has_no_digest() -> None:
    names = some_names(2000)
    found = digest_of(names, msgspec.json.encode(names))
    assert found is not None
    pairs = dict(zip(names[::2], names[1::2], strict=True))
    assert not has_digest(msgspec.json.encode(pairs), found)
    assert not has_digest(msgspec.json.encode(list(range(2000))), found)


@pytest.mark.parametrize("form", ["node-{:06}", "ip-10-{}.eu-west-1.compute.internal"])
def test_equal_offers_are_one_object_and_others_are_not(form: str) -> None:
    names = some_names(2000, form)
    fleet = Fleet()
    for name in names:
        fleet.put(name, ())
    offers = CandidateCache(fleet)

    def offered(names: list[str]) -> msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode(names))

    first = offers.of(offered(names))
    assert offers.of(offered(in_another_order(names))) is first
    one_less = offers.of(offered(names[1:]))
    assert one_less is not first
    assert not one_less.rows[fleet.rows[names[0]]]
    assert np.count_nonzero(one_less.rows) == 1999
    another = offers.of(offered([*names[1:], form.format(999999)]))
    assert another.at.tolist().count(-1) == 1
