"""Who waits first for a card model claims all cards of it that it could use."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tessera_core.fleet.card_mask import CardMask
from tessera_core.fleet.fleet import Fleet
from tessera_core.shadows.card_claims import CardClaims
from tessera_testing.builders import a_card

MODELS = {"a": "A100", "b": "A100", "h": "H100"}


def a_fleet(nodes: Mapping[str, str] = MODELS, cards: int = 2) -> Fleet:
    fleet = Fleet()
    for node, model in nodes.items():
        fleet.put(node, [a_card(f"{node}{i}", i, model=model) for i in range(cards)])
    return fleet


def of_nodes(fleet: Fleet, *nodes: str) -> CardMask:
    """All cards of these nodes."""
    cards = np.zeros(fleet.cards.vendor.shape, np.bool_)
    for node in nodes:
        cards[fleet.rows[node], : len(fleet.facts[fleet.rows[node]])] = True
    return CardMask(fleet, cards)


def names(fleet: Fleet, cards: np.ndarray) -> set[str]:
    return {fleet.facts[row][column].id for row, column in zip(*cards.nonzero(), strict=True)}


def test_all_cards_of_the_models_of_a_shadow_are_claimed_that_could_be_used() -> None:
    fleet = a_fleet()
    claims = CardClaims(fleet)
    claims.add(None, of_nodes(fleet, "a", "h"), {"a": {"a0"}})
    assert names(fleet, claims.closed(None)) == {"a0", "a1"}
    assert not claims.leaves(None, of_nodes(fleet, "a"))
    assert claims.leaves(None, of_nodes(fleet, "a", "h"))
    assert claims.narrows(None, of_nodes(fleet, "a", "h"))
    assert claims.leaves(None, of_nodes(fleet, "b"))
    assert not claims.narrows(None, of_nodes(fleet, "b"))
    assert claims.take(None, {"a": {"a1"}})
    assert not claims.take(None, {"b": {"b1"}, "gone": {"a1"}})


def test_between_trees_the_cards_of_the_shadow_alone_are_claimed() -> None:
    fleet = a_fleet()
    claims = CardClaims(fleet)
    claims.add("one", of_nodes(fleet, "a"), {"a": {"a0"}})
    assert names(fleet, claims.closed("other")) == {"a0"}
    assert claims.leaves("other", of_nodes(fleet, "a"))


def test_a_claim_is_met_by_those_that_could_use_cards_of_its_shadow() -> None:
    fleet = a_fleet()
    claims = CardClaims(fleet)
    claims.add(None, of_nodes(fleet, "a"), {"a": {"a0"}})
    claims.add(None, of_nodes(fleet, "h"), {"h": {"h0"}})
    assert list(claims.met(of_nodes(fleet, "a", "b"))) == [0]
    assert list(claims.met(of_nodes(fleet, "a", "h"))) == [0, 1]
    assert list(claims.met(of_nodes(fleet, "b"))) == []


def test_claims_stay_with_their_cards_when_nodes_come_and_go() -> None:
    fleet = a_fleet()
    claims = CardClaims(fleet)
    usable = of_nodes(fleet, "a", "b")
    claims.add(None, usable, {"b": {"b0"}})
    assert not claims.leaves(None, usable)
    fleet.remove("a")
    fleet.put("x", [a_card(f"x{i}", i, model="A100") for i in range(4)])
    assert names(fleet, claims.closed(None)) == {"b0", "b1"}
    assert not claims.leaves(None, usable)
    assert claims.leaves(None, of_nodes(fleet, "b", "x"))
    assert list(claims.met(usable)) == [0]
