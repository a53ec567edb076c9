"""What making room on each node costs at least, seen without a trial: which nodes are tried first.

A card without room for the pod stays so until pods of some priority go, and with them some of its
memory. So a pod that needs three cards more costs at least what the three cheapest cards of the
node cost: of each the priority up to which pods have to go, and the least that is lost with so much
memory. All nodes at once, in columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from tessera_core.fleet.arrays import Bools, Floats, Ints
from tessera_core.gangs.scratch import MemberRequest, ScratchCluster
from tessera_core.placement.units import units
from tessera_core.preemption.card_lines import CardLines, freed
from tessera_core.preemption.eviction_costs import EvictionCost
from tessera_core.preemption.eviction_trials import EvictionTrials
from tessera_core.slices import Slices

_LEVELS: Final = 6
"""Steps of priority that are distinguished."""
_LESS: Final = 1 - 1e-9
"""Sums in another order may differ by so much."""


def nodes_in_order(
    held: CardLines, trials: EvictionTrials, member: MemberRequest
) -> Slices[Iterator[tuple[EvictionCost, str]]]:
    """The nodes that may do for the pod once what is `held` has gone, no others, with what that
    costs at least: the cheapest first."""
    scratch, (rows, has_room) = trials.scratch, trials.room
    shape = has_room.shape
    if not len(held.row) or member.request is None:
        return iter(())
    short = units(member.request)[0].lead.count - has_room.sum(1)
    steps = np.array_split(np.unique(held.priority), _LEVELS)
    lows, tops = zip(*((step[0], step[-1]) for step in steps if len(step)), strict=True)
    level: Ints = np.full(shape, len(lows))
    for at, top in enumerate(tops):
        yield
        rows, room = scratch.room_without(member, freed(held.only(held.priority <= top), shape))
        level[room & ~has_room & (level == len(lows))] = at
    yield
    any_card = np.full(shape, len(lows))
    any_card[held.row, held.column] = 0
    level = np.where((short > 0)[:, None], level, any_card)
    nth = np.maximum(short, 1) - 1
    fits = nth < shape[1]
    nth_level: Ints = np.sort(level, 1)[np.arange(shape[0]), np.where(fits, nth, 0)]
    rows = rows & fits & (nth_level < len(lows))
    yield
    of_row = np.array([*lows, np.inf])[nth_level]
    lost = _lost(
        held.only(held.priority <= np.array([*tops, np.inf])[nth_level][held.row]), scratch, member
    )
    lost[level > nth_level[:, None]] = np.inf
    least = np.cumsum(np.sort(lost, 1), 1)[np.arange(shape[0]), np.where(fits, nth, 0)]
    return _sorted(rows, of_row, least * _LESS, scratch)


def _sorted(
    rows: Bools, priority: Floats, card_s: Floats, scratch: ScratchCluster
) -> Iterator[tuple[EvictionCost, str]]:
    found = np.flatnonzero(rows)
    order = found[np.lexsort((scratch.order[found], card_s[found], priority[found]))]
    for row in order.tolist():
        least = EvictionCost(priority=int(priority[row]), card_s=float(card_s[row]))
        yield least, scratch.name_of(row)


def _lost(held: CardLines, scratch: ScratchCluster, member: MemberRequest) -> Floats:
    """Card-seconds that are lost at least for room on each card, (nodes, cards)."""
    short = scratch.memory_short(member)
    each, by_memory = np.full(short.shape, np.inf), np.full(short.shape, np.inf)
    place = held.row, held.column
    np.minimum.at(each, place, held.card_s)
    with np.errstate(divide="ignore"):
        np.minimum.at(by_memory, place, held.card_s / held.memory)
    needed = np.where(short > 0, short, 0)
    rated = np.where(np.isfinite(by_memory), by_memory, 0) * needed
    lost: Floats = np.maximum(each, rated)
    return lost
