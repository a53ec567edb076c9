"""The cards of nodes, with who holds them and why a pod cannot have a part: the answer to `cards`.

It describes the ledger as it is now, in small pieces between which filter and bind go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from tessera_core.explain.card_holders import ListedCard, ListedHolder, listed
from tessera_core.fleet.cores import percent
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.node_fit import NoFit
from tessera_core.placement.packing.packer import joint
from tessera_core.placement.placer import Placer
from tessera_core.placement.scoring import price
from tessera_core.placement.units import PlacementUnit, units
from tessera_core.quota.allowance import Allowance
from tessera_scheduler.explain.explanation import PIECE
from tessera_schema.cards import MIB
from tessera_schema.endpoints import visibility
from tessera_schema.reasons import Reason
from tessera_schema.requests import PodRequest

CARDS_MOST: Final = 2000
"""Cards of one answer; those of later nodes are left out."""
HOLDERS_MOST: Final = 64
"""Pods of one card that are listed."""


async def with_cards(
    ledger: Ledger, found: visibility.PodExplanation, request: PodRequest, most: int
) -> visibility.PodExplanation:
    """The explanation with the cards of its nodes, and of the one that it is on or that has room;
    at most so many nodes."""
    fleet = ledger.fleet
    known = {node.name: node for node in found.nodes}
    if found.node:
        known.setdefault(found.node, visibility.NodeState(name=found.node))
    elif not found.more_nodes:
        for name in fleet.rows:
            known.setdefault(name, visibility.NodeState(name=name))
    allowance, wanted = ledger.allowance(request.namespace), units(request)
    nodes: list[visibility.NodeState] = []
    left = CARDS_MOST
    for i, node in enumerate(known.values()):
        limits = None if found.node else allowance
        cards = _cards(ledger, node.name, request.namespace, wanted, limits)[:left]
        left -= len(cards)
        if cards or node.reasons:
            nodes.append(replace(node, cards=cards))
        if i % PIECE == PIECE - 1:
            await asyncio.sleep(0)
    more = found.more_nodes + max(len(nodes) - most, 0)
    return replace(found, nodes=tuple(nodes[:most]), more_nodes=more)


def _cards(
    ledger: Ledger,
    node: str,
    namespace: str,
    wanted: Sequence[PlacementUnit],
    allowance: Allowance | None,
) -> tuple[visibility.CardState, ...]:
    """The node's cards of the vendors that are requested. For a pod that has its cards
    (`allowance` is None) no card has a reason."""
    row = ledger.fleet.rows.get(node)
    if row is None:
        return ()
    unfit = None if allowance is None else Placer(ledger.fleet).fit(row, wanted, allowance)
    reasons: dict[str, str] = {}
    if isinstance(unfit, NoFit) and unfit.view is not None and unfit.codes is not None:
        for card, code in zip(unfit.view.facts, unfit.codes.tolist(), strict=True):
            reasons[card.id] = Reason(code).wire if code else ""
    vendors = {unit.lead.vendor for unit in wanted}
    prices = price.of_node(ledger.fleet, row, namespace, joint(wanted[0]))
    return tuple(
        _state(card, reasons.get(card.card.id, ""), prices.get(card.card.id, UNSET))
        for card in listed(ledger, node).cards
        if card.card.vendor in vendors
    )


def _state(card: ListedCard, reason: str, costs: int | UnsetType) -> visibility.CardState:
    facts, held = card.card, card.held
    return visibility.CardState(
        index=facts.index,
        id=facts.id,
        model=facts.model,
        memory_mib=facts.memory_mib,
        memory_mib_used=held.memory_bytes // MIB,
        cores_percent=facts.cores_percent,
        cores_percent_used=percent(held.cores_milli),
        slots=facts.slots,
        slots_used=held.slots,
        reason=reason,
        holders=tuple(_holder(holder) for holder in card.holders[:HOLDERS_MOST]),
        price_percent=costs,
    )


def _holder(holder: ListedHolder) -> visibility.CardHolder:
    return visibility.CardHolder(
        namespace=holder.namespace, name=holder.name, memory_mib=holder.memory_bytes // MIB,
        cores_percent=holder.cores_percent, exclusive=holder.exclusive,
    )  # fmt: skip
