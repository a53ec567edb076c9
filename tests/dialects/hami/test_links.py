"""`topology-aware`: several cards that are linked best, one card that is linked worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera_core.fleet.columns import CardColumns, NodeView
from tessera_core.placement.card_choice import links
from tessera_core.vendors.nvidia import pair_closeness
from tessera_schema.kube import Quantity
from tessera_schema.requests import Policy, Request
from tessera_testing.builders import a_card, a_pod
from tests.dialects.hami.setting import CARD_POLICY, SCORE, needs, picks, planned

Pairs = Mapping[tuple[str, str], int]


def scores(ids: Sequence[str], pairs: Pairs, other: int = 0) -> str:
    """The node's score annotation."""
    return msgspec.json.encode(
        [
            {
                "uuid": a,
                "score": {b: pairs.get((a, b), pairs.get((b, a), other)) for b in ids if b != a},
            }
            for a in ids
        ]
    ).decode()


THREE, SIX = ["dev-0", "dev-1", "dev-2"], list("abcdef")


@pytest.mark.parametrize(
    ("ids", "pairs", "other", "limits", "want"),
    [
        pytest.param(
            THREE, {("dev-0", "dev-1"): 100, ("dev-0", "dev-2"): 200, ("dev-1", "dev-2"): 150}, 0,
            {"gpu": 1, "mem": 100, "core": 10}, ["dev-1"], id="TOP-01",
        ),
        pytest.param(THREE, {}, 0, {"gpu": 2}, ["dev-2", "dev-1"], id="TOP-03"),
        pytest.param(
            SIX, {("a", "f"): 100, ("c", "f"): 100}, 1,
            {"gpu": 3, "mem": 1024, "pct": 100, "core": 20}, ["f", "c", "a"], id="TOP-06",
        ),
        pytest.param(
            SIX, {(x, "f"): 1 for x in "abcde"}, 100, {"gpu": 1, "mem": 1024}, ["f"], id="TOP-07"
        ),
        pytest.param(
            THREE, {("dev-0", "dev-1"): -5, ("dev-0", "dev-2"): -3, ("dev-1", "dev-2"): -1}, 0,
            {"gpu": 1}, ["dev-0"], id="one card, negative links",
        ),
        pytest.param(
            THREE, {("dev-0", "dev-1"): -5, ("dev-0", "dev-2"): -3, ("dev-1", "dev-2"): -1}, 0,
            {"gpu": 2}, ["dev-2", "dev-1"], id="two cards, negative links",
        ),
        pytest.param(THREE, {}, 7, {"gpu": 3}, ["dev-2", "dev-1", "dev-0"], id="all of them"),
    ],
)  # fmt: skip
def test_cards_are_chosen_by_their_links(
    ids: Sequence[str], pairs: Pairs, other: int, limits: Mapping[str, Quantity], want: list[str]
) -> None:
    pod = a_pod(needs(limits), annotations={CARD_POLICY: "topology-aware"})
    assert picks(planned(pod, *ids, notes={SCORE: scores(ids, pairs, other)})) == want


def test_without_the_policy_links_do_not_matter() -> None:
    notes = {SCORE: scores(THREE, {("dev-0", "dev-1"): 100})}
    assert picks(planned(a_pod(needs({"gpu": 2})), *THREE, notes=notes)) == ["dev-2", "dev-1"]


def test_the_cluster_may_be_topology_aware_by_default() -> None:
    notes = {SCORE: scores(THREE, {("dev-0", "dev-1"): 100})}
    config = {"hami": {"gpu_scheduler_policy": "topology-aware"}}
    pod = a_pod(needs({"gpu": 2}))
    assert picks(planned(pod, *THREE, notes=notes, config=config)) == ["dev-1", "dev-0"]


@pytest.mark.parametrize(
    ("there", "back", "want"),
    [
        pytest.param(["SameCPU", "NVLink4"], ["SameCPU"], None, id="TOP-08"),
        pytest.param(["SameCPU", "NVLink4"], ["SameCPU", "NVLink2"], 220, id="the lesser side"),
        pytest.param(["SameBoard"], ["SameBoard"], 60, id="no NVLink"),
        pytest.param([], [], 0, id="unknown"),
    ],
)
def test_closeness_is_pcie_class_and_nvlinks(
    there: Sequence[str], back: Sequence[str], want: int | None
) -> None:
    assert pair_closeness(there, back) == want


@pytest.mark.parametrize("link", ["Bluetooth", "NVLink", "NVLinkX"])
def test_an_unknown_link_is_reported(link: str) -> None:
    with pytest.raises(ValueError, match=link):
        pair_closeness([link], [link])


def view_of(cards: int, pairs: Mapping[tuple[int, int], int], **facts: Any) -> NodeView:
    made = [
        a_card(str(i), i, links={str(b): w for (a, b), w in pairs.items() if a == i}, **facts)
        for i in range(cards)
    ]
    return NodeView("n1", tuple(made), CardColumns((cards,)))


def request(count: int, **policy: Any) -> Request:
    return Request(vendor="acme", dialect="test", count=count, policy=Policy(**policy))


def total(view: NodeView, chosen: Sequence[int]) -> int:
    return sum(links.closeness(view.facts[a], view.facts[b]) for a, b in combinations(chosen, 2))


@given(st.data(), st.integers(1, 6))
def test_no_set_of_cards_is_linked_better(data: st.DataObject, count: int) -> None:
    cards = data.draw(st.integers(count, 7))
    pairs = {
        (a, b): data.draw(st.integers(0, 5)) for a in range(cards) for b in range(cards) if a != b
    }
    view = view_of(cards, pairs)
    chosen = links.choose(view, range(cards), request(count))
    assert chosen is not None
    assert len(set(chosen)) == count
    if count > 1:
        assert total(view, chosen) == max(
            total(view, each) for each in combinations(range(cards), count)
        )


def test_too_many_sets_to_try_still_give_a_linked_one() -> None:
    island = range(0, 64, 2)
    view = view_of(64, {(a, b): 100 for a in island for b in island if a != b})
    assert links.choose(view, range(64), request(32)) == tuple(island)


def test_too_many_sets_of_negative_links_still_give_the_best_linked_ones() -> None:
    ids = [f"c{i:02}" for i in range(20)]
    near = set(ids[:9])
    cards = [
        a_card(a, i, links={b: -1 if {a, b} <= near else -100 for b in ids if b != a})
        for i, a in enumerate(ids)
    ]
    view = NodeView("n", tuple(cards), CardColumns((20,)))
    request = Request(vendor="acme", dialect="acme", count=9, policy=Policy())
    chosen = links.choose(view, range(20), request)
    assert chosen == tuple(range(9))


def test_one_silent_side_leaves_the_word_to_the_other() -> None:
    view = view_of(3, {(0, 1): 5, (1, 2): 9, (2, 1): 3})
    a, b, c = view.facts
    assert (links.closeness(a, b), links.closeness(b, c), links.closeness(a, c)) == (5, 3, 0)


def test_too_few_cards_are_no_set() -> None:
    assert links.choose(view_of(2, {}), [1], request(2)) is None


def test_on_one_numa_node_the_best_linked_pair_of_any_node_wins() -> None:
    view = view_of(4, {(0, 1): 10, (2, 3): 20, (1, 2): 90})
    view.state.numa[:] = [0, 0, 1, 1]
    assert links.choose(view, range(4), request(2, same_numa=True)) == (2, 3)
    assert links.choose(view, range(4), request(2)) == (1, 2)
