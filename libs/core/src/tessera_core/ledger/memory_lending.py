"""What the pods on a card leave of its memory: owners, and those that it is lent to.

What a pod counts with is measured, and comes node by node from outside; what it was granted or lent
is in the ledger. So a pod that came since leaves nothing, and one that has gone neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tessera_core.fleet.charges import Charge
from tessera_core.fleet.fleet import Fleet
from tessera_core.fleet.lent_memory import set_lending
from tessera_core.ledger.entries import LedgerEntry

MemoryNeeds = Mapping[str, Mapping[str, int]]
"""Id of a card that lends memory -> uid of a pod -> the bytes that it counts with; one that is not
named counts with all that it has."""


class MemoryLending:
    """Keeps the fleet's columns of what is lent in step with both."""

    def __init__(self, fleet: Fleet) -> None:
        """No card lends memory."""
        self._fleet = fleet
        self._needs: dict[str, MemoryNeeds] = {}

    def set_needs(self, node: str, needs: MemoryNeeds, held: Iterable[LedgerEntry]) -> bool | None:
        """Set the cards of a node that lend memory, and what the pods that are `held` there count
        with. Whether that makes room worth trying for; None when it was the same before. It lasts
        until it is set again."""
        if self._needs.get(node, {}) == needs:
            return None
        self._needs.pop(node, None)
        if needs:
            self._needs[node] = needs
        return self._set(node, needs, held)

    def recount(self, node: str, held: Iterable[LedgerEntry]) -> None:
        """Other pods are held on the node, or its cards are others."""
        needs = self._needs.get(node)
        if needs is not None:
            self._set(node, needs, held)

    def _set(self, node: str, needs: MemoryNeeds, held: Iterable[LedgerEntry]) -> bool:
        unused = dict.fromkeys(needs, 0)
        for entry in held:
            for card, charge in entry.charges.items():
                need = needs.get(card, {}).get(entry.grant.uid)
                if need is not None:
                    unused[card] += max(_counted_bytes(charge) - need, 0)
        return set_lending(self._fleet, node, unused)


def _counted_bytes(charge: Charge) -> int:
    """What a pod may leave some of. A best-effort pod leaves nothing of what it was granted."""
    return charge.lent_bytes if charge.best_effort else charge.memory_bytes
