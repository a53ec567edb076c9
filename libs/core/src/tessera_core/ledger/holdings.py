"""Who holds which cards now, kept in step three times: the page of the pod, the fleet's columns
and the namespace's quota.

The ledger alone writes here. What is held of a card stays held while its node is away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tessera_core.fleet.charges import Charge
from tessera_core.fleet.fleet import Fleet
from tessera_core.ledger.change_log import ChangeLog
from tessera_core.ledger.entries import LedgerEntry
from tessera_core.ledger.entry_checks import relink_renamed_cards, uses
from tessera_core.ledger.memory_lending import MemoryLending
from tessera_core.quota.accounting import QuotaAccounting


class LedgerHoldings:
    """The pages, and what they add up to."""

    def __init__(self, fleet: Fleet, quota: QuotaAccounting) -> None:
        """Nobody holds anything."""
        self.entries: dict[str, LedgerEntry] = {}
        """By the pod's uid."""
        self.changed: Callable[[str], object] = lambda _: None
        """Called with the uid of a pod whose page comes, goes or counts otherwise."""
        self.changes = ChangeLog()
        """The same pods."""
        self.lending = MemoryLending(fleet)
        self._fleet = fleet
        self._quota = quota
        self._on_node: dict[str, dict[str, None]] = {}

    def charges_on(self, node: str) -> Mapping[str, Charge]:
        """Card id -> sum of charges on a node, whether the cards are there or not."""
        total: dict[str, Charge] = {}
        for entry in self.on(node):
            for card, charge in entry.charges.items():
                total[card] = total[card].plus(charge) if card in total else charge
        return total

    def hold(self, entry: LedgerEntry) -> LedgerEntry:
        """Add a page; the page."""
        self._count(entry, 1)
        self._quota.drop_pending(entry.grant.uid)
        self.entries[entry.grant.uid] = entry
        self._on_node.setdefault(entry.grant.node, {})[entry.grant.uid] = None
        self._note(entry.grant.uid)
        self.lending.recount(entry.grant.node, self.on(entry.grant.node))
        return entry

    def release(self, entry: LedgerEntry) -> None:
        """Take a page out."""
        self._count(entry, -1)
        node, uid = entry.grant.node, entry.grant.uid
        del self.entries[uid], self._on_node[node][uid]
        if not self._on_node[node]:
            del self._on_node[node]
        self._note(uid)
        self.lending.recount(node, self.on(node))

    def reattach(self, node: str) -> None:
        """The fleet has other cards for the node: what is held on it is held on these, and counts
        in quotas as they do."""
        for entry in self.on(node):
            relink_renamed_cards(self._fleet, entry.grant)
        for entry in self.on(node):  # one by one, as they will be taken back
            for card, charge in entry.charges.items():
                self._fleet.charge(node, card, charge)
            self._quota.count(entry.grant.namespace, entry.uses, -1)
            entry.uses = uses(self._fleet, entry.grant, entry.charges)
            self._quota.count(entry.grant.namespace, entry.uses)
            self._note(entry.grant.uid)
        self.lending.recount(node, self.on(node))

    def on(self, node: str) -> Iterator[LedgerEntry]:
        """The pages of a node."""
        for uid in self._on_node.get(node, ()):
            yield self.entries[uid]

    def _note(self, uid: str) -> None:
        self.changes.add(uid)
        self.changed(uid)

    def _count(self, entry: LedgerEntry, sign: int) -> None:
        for card, charge in entry.charges.items():
            self._fleet.charge(entry.grant.node, card, charge, sign)
        self._quota.count(entry.grant.namespace, entry.uses, sign)
