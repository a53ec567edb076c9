"""How many equal pods the cards of each node take: counted in arrays, not tried one by one."""

from __future__ import annotations

import numpy as np

from tessera_core.fleet.arrays import Bools, Ints
from tessera_core.fleet.fleet import Fleet
from tessera_core.fleet.lent_memory import memory_taken, slots_taken
from tessera_core.placement.units import PlacementUnit


def copies_by_cards(fleet: Fleet, unit: PlacementUnit, fits: Bools, most: int) -> Ints:
    """Row -> pods of this one unit that its cards take, at most `most`. `fits` are the cards that
    have room for one.

    It is exact for a unit whose cards may be any of a node, on cards whose memory is not
    overcommitted; for others it is never too low.
    """
    cards, need = fleet.cards, unit.need(fleet.cards, fleet.models)
    each = np.full(fits.shape, most, np.int64)
    slots = slots_taken(cards, best_effort=need.best_effort)
    memory = memory_taken(cards, best_effort=need.best_effort)
    for free, asked in (
        (cards.slots - slots, need.slots),
        (cards.memory_total - memory, need.memory),
        (cards.cores_total - cards.cores_used, need.cores),
    ):
        amount = np.broadcast_to(np.asarray(asked), fits.shape)
        room = np.floor_divide(free, amount, out=np.full(fits.shape, most), where=amount > 0)
        each = np.minimum(each, room)
    alone = np.logical_or(need.alone, unit.lead.policy.idle_cards_only)
    each = np.where(fits, np.maximum(np.where(alone, np.minimum(each, 1), each), 0), 0)
    return _pods(each.astype(np.int64), unit.lead.count, most)


def _pods(each: Ints, count: int, most: int) -> Ints:
    """Row -> pods that get `count` different cards each, where card c serves `each[c]` of them: n
    fit if and only if the sum of min(each, n) is at least n x count, and if n fit then fewer do."""
    if count == 1:
        total: Ints = np.minimum(each.sum(1), most)
        return total
    low = np.zeros(len(each), np.int64)
    high = np.minimum(each.sum(1) // count, most)
    while (low < high).any():
        middle = (low + high + 1) // 2
        enough = np.minimum(each, middle[:, None]).sum(1) >= middle * count
        low, high = np.where(enough, middle, low), np.where(enough, high, middle - 1)
    return low
