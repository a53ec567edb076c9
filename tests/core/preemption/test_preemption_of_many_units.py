"""Where not all sets can be tried: nobody goes in vain all the same, and the answer says so."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from random import Random

import pytest

from tessera_core.preemption.preemption import Preemption, PreemptionPlanner
from tests.core.preemption.scenarios import (
    NOW,
    Cost,
    Party,
    Room,
    Scenario,
    broken_rule,
    cost_of,
    fits_without,
    preemptor_of,
    view_of,
)

CARDS, SHARES = 8, 2


def crowded(seed: int, members: int, cards: int) -> Scenario:
    """Three nodes whose cards are full of halves; a pod or a gang needs whole cards."""
    random = Random(seed)  # noqa: S311  (clusters, not keys)
    running = tuple(
        Party(
            name=f"p{node}-{card}-{half}", cores=50, priority=random.choice([0, 0, 1, 9]),
            age_s=random.randint(60, 90_000), places=((node, card),),
        )
        for node in range(3)
        for card in range(CARDS)
        for half in range(SHARES)
    )  # fmt: skip
    needy = tuple(
        Party(name=f"m{n}", cards=cards, mib=16, cores=100, priority=5,
              gang="g" if members > 1 else "")
        for n in range(members)
    )  # fmt: skip
    return Scenario(((64, CARDS),) * 3, running, needy, {"g": members})


def check(scenario: Scenario) -> Preemption:
    found = PreemptionPlanner(view_of(scenario), NOW).preempt(preemptor_of(scenario))
    assert isinstance(found, Preemption)
    names = {victim.pod.metadata.name for victim in found.victims}
    gone = [party for party in scenario.running if party.name in names]
    assert broken_rule(scenario, gone) == ""
    room = Room(scenario, names)
    for party in scenario.needy:
        grant = found.seats[party.uid].grant
        assert grant is not None
        room.take(party, [(int(grant.node[1:]), share.index) for share in grant.shares])
    assert all(free >= 0 for card in room.cards.values() for free in card)
    for name in names:
        assert not fits_without(scenario, names - {name}), f"{name} goes in vain"
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("members", "cards"), [(1, 1), (1, 3), (2, 1)])
def test_nobody_goes_in_vain(seed: int, members: int, cards: int) -> None:
    found = check(crowded(seed, members, cards))
    assert len(found.victims) == members * cards * SHARES


@pytest.mark.parametrize("cards", [1, 2, 3])
def test_the_cheapest_cards_are_freed(cards: int) -> None:
    """A pod of whole cards: the best that there is are the cheapest cards of one node."""
    for seed in range(6):
        scenario = crowded(seed, 1, cards)
        best = min(costs_of_cards(scenario, cards))
        found = PreemptionPlanner(view_of(scenario), NOW).preempt(preemptor_of(scenario))
        assert isinstance(found, Preemption)
        cost = found.cost
        assert cost.priority == best[1]
        assert cost.card_s <= best[3] * 1.1


def costs_of_cards(scenario: Scenario, count: int) -> Iterator[Cost]:
    """Of all choices of so many cards of a node on which everybody may go."""
    for node in range(3):
        on_cards = [
            [party for party in scenario.running if party.places == ((node, card),)]
            for card in range(CARDS)
        ]
        free = [on_card for on_card in on_cards if not broken_rule(scenario, on_card)]
        for chosen in combinations(free, count):
            yield cost_of(scenario, [party for on_card in chosen for party in on_card])


def test_a_search_that_ends_early_says_so() -> None:
    scenario = crowded(0, 3, 1)
    found = PreemptionPlanner(view_of(scenario), NOW).preempt(preemptor_of(scenario))
    assert isinstance(found, Preemption)
    assert found.exhausted
