"""A fleet's nodes as `tessera_core.placement.packing.potential` reads them.

What is free is clipped to what there is; a card held alone has nothing free, and a card in use of
which nothing is promised counts as one byte less than idle.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tessera_core.fleet.arrays import Bools, Floats, Ints
from tessera_core.fleet.columns import CardColumns
from tessera_core.placement.packing.demand import CardKinds, Demand
from tessera_core.placement.packing.potential import Rows


class HostColumns(NamedTuple):
    """Processor (thousandths) and memory (bytes) of each row of the fleet."""

    cpu_free: Floats
    memory_free: Floats
    cpu_total: Floats
    memory_total: Floats

    def at(self, rows: Ints | slice) -> HostColumns:
        """Of these rows."""
        return HostColumns(*(column[rows] for column in self))


def free_rows(cards: CardColumns, kind: Ints, hosts: HostColumns | None = None) -> Rows:
    """Columns over (nodes, cards) as rows. Without hosts processor and memory never run out."""
    usable: Bools = (kind > 0) & (cards.exclusive == 0)
    idle: Bools = cards.sharers == 0
    memory = np.where(usable, np.maximum(cards.memory_total - cards.memory_used, 0), 0)
    memory -= usable & ~idle & (memory == cards.memory_total)
    cores = np.maximum(cards.cores_total - cards.cores_used, 0)
    slots = np.maximum(cards.slots - cards.sharers, 0)
    nodes = len(kind)
    if hosts is None:
        endless, any_ratio = np.full(nodes, np.inf), np.ones(nodes)
        hosts = HostColumns(endless, endless, any_ratio, any_ratio)
        per_card = any_ratio, any_ratio
    else:
        count = np.maximum((kind > 0).sum(1), 1)
        per_card = hosts.cpu_total / count, hosts.memory_total / count
    return Rows(
        kind=kind,
        free=(memory, np.where(usable, cores, 0), np.where(usable, slots, 0)),
        idle=idle & usable,
        cpu=hosts.cpu_free,
        memory=hosts.memory_free,
        cpu_per_card=per_card[0],
        memory_per_card=per_card[1],
    )


def with_use(past: Demand, rows: Rows, kinds: CardKinds) -> Demand:
    """The demand, with what is held on these nodes now. Nodes whose hosts are not known do not
    count."""
    nodes = rows.nodes
    there = rows.kind > 0
    counted = nodes.known & there.any(1)
    left = np.min(
        [
            free / np.maximum(kinds.totals[:, axis][rows.kind], 1)
            for axis, free in enumerate(rows.free[: kinds.amounts])
        ],
        axis=0,
    )
    return Demand(
        asks=past.asks, cpu=past.cpu, memory=past.memory,
        held_cpu=float((nodes.cpu - rows.cpu)[counted].sum()),
        cards_in_use=float(np.where(there, 1 - left, 0)[counted].sum()),
    )  # fmt: skip
