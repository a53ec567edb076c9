"""The best linked cards of a node: HAMi's `topology-aware`.

Several cards: the set whose links add up to the most. One card: the worst linked, so that the
well linked ones stay together for others. Among equals the first in the order of the keys wins.
Exact up to `MOST_SETS` sets (8 of 16 cards); beyond, sets are grown from every card in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import Final

import numpy as np

from tessera_core.fleet.arrays import Ints
from tessera_core.fleet.columns import NodeView
from tessera_schema.cards import Card
from tessera_schema.requests import Request

MOST_SETS: Final = 12_870
_TAKEN: Final = -(1 << 62)
"""Less than any sum of links, which may be negative."""


def choose(view: NodeView, eligible: Sequence[int], request: Request) -> tuple[int, ...] | None:
    """See `tessera_core.placement.card_choice`. Under `same_numa` the best set of any one NUMA
    node."""
    count = request.count
    groups = [list(eligible)]
    if request.policy.same_numa and count > 1:
        numas = dict.fromkeys(int(view.state.numa[i]) for i in eligible)
        groups = [[i for i in eligible if view.state.numa[i] == numa] for numa in numas]
    best: tuple[int, ...] | None = None
    most = 0
    for group in groups:
        if len(group) < count:
            continue
        chosen, total = _best(_scores([view.facts[i] for i in group]), count)
        if best is None or total > most:
            best, most = tuple(group[i] for i in chosen), total
    return best


def closeness(one: Card, other: Card) -> int:
    """How close two cards are; where they disagree the less counts, where one is silent the
    other's word."""
    there, back = one.links.get(other.id), other.links.get(one.id)
    if there is None or back is None:
        return there or back or 0
    return min(there, back)


def _scores(cards: Sequence[Card]) -> Ints:
    scores = np.zeros((len(cards), len(cards)), np.int64)
    for i, j in combinations(range(len(cards)), 2):
        scores[i, j] = scores[j, i] = closeness(cards[i], cards[j])
    return scores


def _best(scores: Ints, count: int) -> tuple[Sequence[int], int]:
    """Rows of the best set, in their order, and the sum of its links."""
    cards = len(scores)
    if cards == count:
        return range(count), int(scores.sum())
    if count == 1:
        return [int(scores.sum(1).argmin())], 0
    if comb(cards, count) > MOST_SETS:
        sets = np.array([_grown(scores, seed, count) for seed in range(cards)])
    else:
        sets = np.array(list(combinations(range(cards), count)))
    totals = scores[sets[:, :, None], sets[:, None, :]].sum((1, 2))
    first = int(totals.argmax())
    return sets[first].tolist(), int(totals[first])


def _grown(scores: Ints, seed: int, count: int) -> list[int]:
    """A set that starts with one card and takes the best linked one each time."""
    chosen = [seed]
    gain = scores[seed].copy()
    for _ in range(count - 1):
        gain[chosen] = _TAKEN
        chosen.append(int(gain.argmax()))
        gain += scores[chosen[-1]]
    return sorted(chosen)
