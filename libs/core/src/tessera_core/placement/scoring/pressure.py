"""Pressure: how much a card is used, as a number that orders may go by.

It comes from hints, counts by their confidence and in coarse steps, so that what was measured moves
no pod unless it says much. It never decides whether something fits: where an order that responds to
it finds no place, the order without it is asked too. While no card is under pressure that could be
felt, every answer is what it is without this module.

A pod that names an order keeps it, and so do dialects that spread or whose strategy an operator
chose: there pressure decides between equals. Where nobody named an order
(`tessera_core.placement.packing.packer` knows), by `pack` and by the orders that give way to it,
prices count (`tessera_core.placement.scoring.price`). Where GPU time is plenty, and while no hint
has prices because the rebalancer is of an earlier release, pressure comes first there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from tessera_core.fleet.arrays import Bools, Codes, Ints
from tessera_core.fleet.columns import CardColumns
from tessera_core.fleet.fleet import Fleet
from tessera_core.placement import predicates
from tessera_core.placement.packing.packer import GIVE_WAY, Packer, joint
from tessera_core.placement.scoring import price
from tessera_core.placement.units import PlacementUnit
from tessera_schema.messages.hints import CardHint, NodeHints
from tessera_schema.requests import NodeOrder, PodRequest, PressurePolicy, Request

COMES_FIRST: Final = frozenset({PressurePolicy.FIRST, PressurePolicy.FIRST_PRICED})
"""With these nodes and cards under less pressure come first."""
PRICED: Final = frozenset({PressurePolicy.PRICE, PressurePolicy.FIRST_PRICED})
"""With these prices count."""
STEPS: Final = 8
"""The pressure of a card that is used all the time."""
SOFT: Final = 5
"""Steps that a request without promised cores does not feel: it lives on what others leave, so it
feels a card of which three quarters are used. Where less is felt, packing suffers: more pods wait.
"""
FIRM: Final = 6
"""The same for one with promised cores: it feels a card that is used nearly all the time."""
IDLE: Final = 1
"""What a request for a part feels of a card that nobody holds: it begins a card that others could
have had as a whole, so it rather goes where little is felt. Without this, pods that ask for whole
cards wait longer than they would without any hints (docs/measurements.md, Rebalancing). Where cards
have prices and no pod of the packer's history asks for a whole card, nobody loses by it, and it
counts nothing."""
_WHOLE: Final = 100
_SOON_H: Final = 0.25
"""Hours for which a trend is believed."""


def steps(hint: CardHint) -> int:
    """The pressure of one card, 0 to `STEPS`: its GPU time as it will soon be, and half of the time
    that somebody waits there."""
    soon = hint.busy_percent + max(hint.trend_percent, 0) * _SOON_H
    percent = min(soon + hint.contended_percent / 2, 100) * hint.confidence
    return int(percent * STEPS // 100)


def set_pressure(fleet: Fleet, hints: NodeHints) -> None:
    """From now on the node's cards are under this pressure and have these prices; those not named
    have none."""
    found = {hint.card: steps(hint) for hint in hints.cards}
    fleet.set_pressure(hints.node, {card: number for card, number in found.items() if number})
    price.set_prices(fleet, hints)


def clear(fleet: Fleet, node: str) -> None:
    """Nothing is known of the node's cards any more."""
    set_pressure(fleet, NodeHints(node=node, at=0))


def pressure_sensitive_units(
    fleet: Fleet, packer: Packer | None, pod: PodRequest, wanted: Sequence[PlacementUnit]
) -> Sequence[PlacementUnit]:
    """The units with policies that respond to pressure; the very same ones while no card is under
    any that could be felt."""
    pressed = fleet.pressed and fleet.cards.pressure.max(initial=0) > SOFT
    ties = PressurePolicy.TIES if pressed else PressurePolicy.NOTHING
    if not fleet.priced and ties is PressurePolicy.NOTHING:
        return wanted
    first = _without_a_name(fleet)
    gives_way = not (packer is None or packer.has_named(pod.uid))
    policies = [first if gives_way and _packs(unit) else ties for unit in wanted]
    if all(policy is PressurePolicy.NOTHING for policy in policies):
        return wanted
    return tuple(
        _responding(fleet, packer, pod.namespace, unit, policy)
        for unit, policy in zip(wanted, policies, strict=True)
    )


def felt(cards: CardColumns, request: Request) -> Codes:
    """What the request feels of the cards: those that are used, and those that nobody holds."""
    soft = not request.cores_percent and not request.exclusive
    least = np.uint8(SOFT if soft else FIRM)
    over: Codes = np.maximum(cards.pressure, least) - least
    policy = request.policy
    if policy.pressure not in COMES_FIRST or not policy.spares_idle_cards or _takes_all(request):
        return over
    begun: Codes = np.maximum(over, np.where(cards.sharers == 0, np.uint8(IDLE), np.uint8(0)))
    return begun


def _without_a_name(fleet: Fleet) -> PressurePolicy:
    """For pods that name no order."""
    if not fleet.priced:
        return PressurePolicy.FIRST
    return PressurePolicy.FIRST_PRICED if price.is_plenty(fleet) else PressurePolicy.PRICE


def _takes_all(request: Request) -> bool:
    whole = request.cores_percent >= _WHOLE or request.memory_percent >= _WHOLE
    return request.exclusive or whole


def of_nodes(fleet: Fleet, request: Request, room: Bools | None = None) -> Ints:
    """What the request would feel on each node."""
    return on_worst_card(fleet, request, felt(fleet.cards, request), room)


def on_worst_card(fleet: Fleet, request: Request, steps: Codes, room: Bools | None) -> Ints:
    """Steps of each node, from those of its cards: of the worst of the cards that the request would
    get, were it given the least of those that have room (`room`, where that is known already)."""
    if room is None:
        cards = fleet.cards
        refused = predicates.predicates(
            request,
            predicates.amounts(request, cards, fleet.models),
            cards,
            models=fleet.models,
            modes=fleet.modes,
        )
        room = predicates.passed(refused, fleet.of_vendor(request.vendor))
    over = np.where(room, steps, np.uint8(STEPS))
    worst = min(request.count, over.shape[1]) - 1
    least = np.partition(over, worst, axis=1)[:, worst] if worst > 0 else over.min(1)
    column: Ints = least.astype(np.int64)
    return column


def _packs(unit: PlacementUnit) -> bool:
    order = unit.lead.policy.node
    return order in GIVE_WAY or order is NodeOrder.PACK


def _responding(
    fleet: Fleet, packer: Packer | None, namespace: str, unit: PlacementUnit, to: PressurePolicy
) -> PlacementUnit:
    lead = joint(unit)
    policy = replace(unit.lead.policy, pressure=to)
    if to in PRICED:
        plenty = to is PressurePolicy.FIRST_PRICED
        wanted = price.wanted_percent(fleet, namespace, lead, plenty=plenty)
        policy = replace(policy, wanted_percent=wanted)
    if to in PRICED and packer is not None and policy.node is NodeOrder.PACK:
        policy = replace(policy, spares_idle_cards=packer.state.forecast.whole)
    return PlacementUnit(
        tuple(replace(part, request=replace(part.request, policy=policy)) for part in unit.parts)
    )
