"""Koordinator's score of a card and of a node: a mean over memory in percent and in bytes.

Each counts alike (DeviceShareArgs' default weights). As in Koordinator, a request in percent is
not yet counted in bytes, nor one in bytes in percent, so a whole idle card scores 50, not 0; and
a node is scored for one card's worth of the request, however many cards are asked. The percent in
use is the bytes in use, rounded up: of requests in percent exactly what they ask. All numbers are
whole, from 0 to 100, and rounded down.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tessera_core.fleet.arrays import Bools, Ints
from tessera_core.fleet.columns import CardColumns, NodeView
from tessera_core.fleet.fleet import Fleet
from tessera_core.fleet.needs import CardNeeds
from tessera_schema.reasons import Reason
from tessera_schema.requests import Request

FULL: Final = 100


def part_score(total: Ints, used: Ints, request: int, *, most: bool) -> Ints:
    """Score of one resource, where `used` is what others have; 0 where the total is 0."""
    after = np.minimum(used, total) + request
    part = np.minimum(after, total) if most else np.maximum(total - after, 0)
    score: Ints = part * FULL // np.maximum(total, 1)
    return score


def score(
    memory_total: Ints, memory_used: Ints, counted: Bools, request: Request, *, most: bool
) -> Ints:
    """Score of each row over its cards (the last axis); `counted` are the cards that exist and
    are healthy. 0 where none is."""
    total = memory_total * counted
    used = np.minimum(memory_used, total)
    percent_used = -(-used * FULL // np.maximum(total, 1))
    asked_bytes = request.memory_bytes
    asked_percent = 0 if asked_bytes else int(request.memory_percent)
    by_bytes = part_score(_sum(total), _sum(used), asked_bytes, most=most)
    by_percent = part_score(_sum((total > 0) * FULL), _sum(percent_used), asked_percent, most=most)
    mean: Ints = (by_bytes + by_percent) // 2
    return mean


def _sum(rows: Ints) -> Ints:
    """Over the last axis; several times as fast as `sum` where that axis is short."""
    sums: Ints = np.einsum("...j->...", rows)
    return sums


def card_score(view: NodeView, card: int, request: Request, _need: CardNeeds, *, most: bool) -> int:
    """Score of one card of a node: the higher the better under the strategy."""
    one = slice(card, card + 1)
    state = view.state
    scores = score(
        state.memory_total[one], state.memory_used[one], _healthy(state)[one], request, most=most
    )
    return int(scores)


def node_score(fleet: Fleet, request: Request, *, most: bool) -> Ints:
    """Score of every node over its cards of the request's vendor."""
    cards = fleet.cards
    counted = _healthy(cards) & fleet.of_vendor(request.vendor)
    return score(cards.memory_total, cards.memory_used, counted, request, most=most)


def _healthy(cards: CardColumns) -> Bools:
    healthy: Bools = cards.blocked != Reason.CARD_NOT_HEALTH
    return healthy
