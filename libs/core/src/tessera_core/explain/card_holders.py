"""Who holds what of each card: the ledger of a cluster, node by node, as people and programs read
them. It shows what was read of a cluster, so that what is missing there is seen.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

from msgspec import Struct

from tessera_core.fleet.charges import Charge
from tessera_core.fleet.fleet import Fleet
from tessera_core.kube.quantity import BadQuantity, quantity_value
from tessera_core.ledger.entries import LedgerEntry
from tessera_core.ledger.ledger import Ledger
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.cards import Card
from tessera_schema.kube import Node


class ListedHolder(Struct, frozen=True, kw_only=True):
    """A pod, and what it holds of one card."""

    namespace: str
    name: str
    dialects: tuple[str, ...]
    memory_bytes: int
    cores_percent: float
    slots: int
    exclusive: bool
    written: bool
    """By what is written on the pod; else it is counted by what it asks for, and may use another
    card."""


class ListedCard(Struct, frozen=True, kw_only=True):
    """One card, what of it is held in all, and who holds it."""

    card: Card
    held: Charge
    holders: tuple[ListedHolder, ...] = ()


class UnpublishedCard(Struct, frozen=True, kw_only=True):
    """A card that pods hold and that its node does not publish."""

    card: str
    """Its id, as the pods name it."""
    holders: tuple[ListedHolder, ...]


class ListedNode(Struct, frozen=True, kw_only=True):
    """One node."""

    name: str
    given: bool = True
    """The node itself was read; else only pods on it were."""
    closed: bool = False
    """It takes no more pods: what a pod on it holds cannot be read."""
    cards: tuple[ListedCard, ...] = ()
    lost: tuple[UnpublishedCard, ...] = ()


def listing(ledger: Ledger, estimated: Container[str] = ()) -> tuple[ListedNode, ...]:
    """Every node in the order in which it was put in, then those that only pods name. `estimated`
    are the uids of pods that are counted by what they ask for."""
    nodes = dict.fromkeys(ledger.fleet.rows)
    nodes.update(dict.fromkeys(entry.grant.node for entry in ledger.entries()))
    return tuple(listed(ledger, name, estimated) for name in nodes)


def unpublished(
    registry: DialectRegistry, nodes: Iterable[Node], listed: Iterable[ListedNode]
) -> Iterator[str]:
    """A warning for each vendor whose cards a node counts in its capacity and nobody publishes."""
    vendors = {node.name: {c.card.vendor for c in node.cards} for node in listed}
    for node in nodes:
        reported: set[str] = set()
        for name, quantity in node.status.capacity.items():
            vendor = next((d.vendor for d in registry.readers.values() if name in d.resources), "")
            missing = vendor and vendor not in vendors.get(node.name, ()) and vendor not in reported
            if missing and _is_some(quantity):
                reported.add(vendor)
                yield (
                    f"node {node.name}: status.capacity[{name}]: {quantity}, and nothing on the "
                    f"node says which {vendor} cards these are: if a plugin of whole cards alone "
                    "runs there, they are planned once Tessera's agent runs in its place "
                    "(docs/install.md); else see that the dump has the node's annotations"
                )


def _is_some(quantity: str | int | float) -> bool:
    try:
        return quantity_value(quantity) != 0
    except BadQuantity:
        return True


def listed(ledger: Ledger, name: str, estimated: Container[str] = ()) -> ListedNode:
    """One node; see `listing`."""
    fleet = ledger.fleet
    row = fleet.rows.get(name)
    facts: Sequence[Card] = () if row is None else fleet.facts[row]
    on: dict[str, list[tuple[ListedHolder, Charge]]] = {card.id: [] for card in facts}
    for entry in ledger.on(name):
        for card, charge in entry.charges.items():
            holder = _holder(entry, card, charge, written=entry.grant.uid not in estimated)
            on.setdefault(_known(fleet, name, card), []).append((holder, charge))
    cards = tuple(
        ListedCard(card=card, held=_sum(c for _, c in on[card.id]), holders=_sorted(on[card.id]))
        for card in facts
    )
    known = {card.id for card in facts}
    return ListedNode(
        name=name,
        given=row is not None,
        closed=row is not None and bool(fleet.blocked[row]),
        cards=cards,
        lost=tuple(
            UnpublishedCard(card=c, holders=_sorted(on[c])) for c in sorted(on.keys() - known)
        ),
    )


def _known(fleet: Fleet, node: str, card: str) -> str:
    """The id by which the node has the card now."""
    found = fleet.card(node, card)
    return card if found is None else found.id


def _holder(entry: LedgerEntry, card: str, charge: Charge, *, written: bool) -> ListedHolder:
    grant = entry.grant
    return ListedHolder(
        namespace=grant.namespace, name=grant.name,
        dialects=tuple(dict.fromkeys(s.dialect for s in grant.shares if s.card == card)),
        memory_bytes=charge.memory_bytes + charge.lent_bytes, cores_percent=charge.cores_percent,
        slots=charge.slots + charge.lent_slots, exclusive=bool(charge.exclusive), written=written,
    )  # fmt: skip


def _sorted(held: Iterable[tuple[ListedHolder, Charge]]) -> tuple[ListedHolder, ...]:
    return tuple(sorted((h for h, _ in held), key=lambda h: (h.namespace, h.name)))


def _sum(charges: Iterable[Charge]) -> Charge:
    total = Charge()
    for charge in charges:
        total = total.plus(charge)
    return total
