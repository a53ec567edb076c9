"""What pods that may go hold of cards: a line for each pod and card."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from tessera_core.fleet.arrays import Bools, Floats, Ints
from tessera_core.fleet.charges import Charge
from tessera_core.ledger.ledger import Ledger
from tessera_core.preemption.eviction_costs import EvictionCosts
from tessera_core.preemption.victim_units import VictimUnit


class CardLines(Struct, frozen=True):
    """What pods that may go hold: a line for each pod and card."""

    row: Ints
    """Of the fleet."""
    column: Ints
    memory: Floats
    """Bytes."""
    cores: Floats
    slots: Floats
    exclusive: Floats
    priority: Floats
    card_s: Floats
    """Card-seconds that are lost with the pod, in equal parts for its cards."""
    owner: Ints
    """Number of the pod, or of the unit, among those that the lines were made of."""

    def only(self, lines: Bools | Ints | slice) -> CardLines:
        """Some of the lines."""
        return CardLines(*(getattr(self, name)[lines] for name in self.__struct_fields__))


def lines_of(units: Iterable[VictimUnit], ledger: Ledger, costs: EvictionCosts) -> CardLines:
    """The same of these units, each pod at the priority of its unit."""
    found: list[tuple[float, ...]] = []
    for number, unit in enumerate(units):
        for victim in unit.pods:
            entry = ledger.entry(victim.uid)
            if entry is None:
                continue
            lost = costs.of_pod(victim)[0] / max(len(entry.charges), 1)
            found += [
                (row, column, memory, c.cores_milli, c.slots, c.exclusive, unit.priority, lost,
                 number)
                for row, column, memory, c in places_of(ledger, entry.grant.node, entry.charges)
            ]  # fmt: skip
    table = np.array(found, np.float64).reshape(len(found), 9)
    row, column, owner = (table[:, n].astype(np.int64) for n in (0, 1, 8))
    memory, cores, slots, exclusive, priority, lost_s = table[:, 2:8].T
    return CardLines(row, column, memory, cores, slots, exclusive, priority, lost_s, owner)


def joined(parts: Sequence[CardLines]) -> CardLines:
    """All lines together."""
    parts = [part for part in parts if len(part.row)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    return CardLines(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in CardLines.__struct_fields__
        )
    )


def freed(held: CardLines, shape: tuple[int, ...]) -> dict[str, Ints]:
    """Name of a column of use -> what comes free of each card."""
    place = held.column * shape[0] + held.row  # column by column, as the fleet's
    amounts = {
        "memory_used": held.memory, "cores_used": held.cores, "sharers": held.slots,
        "exclusive": held.exclusive,
    }  # fmt: skip
    size = shape[0] * shape[1]
    return {
        name: np.bincount(place, weights, size).astype(np.int64).reshape(shape, order="F")
        for name, weights in amounts.items()
    }


def places_of(
    ledger: Ledger, node: str, charges: Mapping[str, Charge]
) -> Iterator[tuple[int, int, int, Charge]]:
    """Row and column of each card that is there, the memory that comes free of it, the charge."""
    for card, charge in charges.items():
        place = ledger.fleet.locate(node, card)
        if place is not None and charge.slots:  # whose memory is lent leaves nothing to others
            yield *place, ledger.fleet.memory_cost(place, charge), charge
