"""Fitting one pod to one node: which cards it gets, or why it does not fit, card by card."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import UNSET, Struct, UnsetType

from tessera_core.fleet.arrays import Bools, Codes
from tessera_core.fleet.capacity_check import over
from tessera_core.fleet.charges import Charge, Tally, charges
from tessera_core.fleet.columns import NodeView, at
from tessera_core.fleet.cores import percent
from tessera_core.fleet.fleet import Fleet
from tessera_core.fleet.needs import CardNeeds
from tessera_core.fleet.overcommit import is_overcommitted, resident_part
from tessera_core.placement import predicates
from tessera_core.placement.card_choice import links, ordered, scopes, tree
from tessera_core.placement.packing import ordering
from tessera_core.placement.packing.packer import Packer, joint
from tessera_core.placement.scoring.cards import in_order
from tessera_core.placement.units import Part, PlacementUnit
from tessera_core.quota.allowance import Allowance, QuotaUsage, Uses, use_of, use_on
from tessera_schema.cards import MIB, Card
from tessera_schema.grants import Share
from tessera_schema.reasons import Reason
from tessera_schema.requests import CardKey, Choice, Request

Chooser = Callable[[NodeView, Sequence[int], Request], tuple[int, ...] | None]

CHOOSERS: Final[Mapping[Choice, Chooser]] = {
    Choice.ORDERED: ordered.choose,
    Choice.LINKS: links.choose,
    Choice.TREE: tree.choose,
    Choice.SCOPES: scopes.choose,
}


class NoFit(Struct, frozen=True):
    """Why a node cannot take the pod: a reason of the node, or codes of its cards."""

    reason: Reason
    """The node's reason, or the one that most of its cards gave."""
    unit: PlacementUnit
    view: NodeView | None = None
    """The vendor's cards as they were for this unit."""
    need: CardNeeds | None = None
    codes: Codes | None = None
    """For each card of the view its reason, 0 for those that fit."""
    over: Mapping[int, str] = {}
    """Of the cards that quota keeps from it, which limit, in numbers."""


class NodeFit:
    """One pod on trial on one node. Containers are taken in spec order: an init container meets
    the sidecars started before it, everything else meets what already runs."""

    def __init__(
        self,
        fleet: Fleet,
        row: int,
        allowance: Allowance,
        room: Bools | None = None,
        packer: Packer | None = None,
    ) -> None:
        """Nothing is changed outside this object. `room` are the fleet's cards that have room for
        the first unit, where that is known and nobody is limited. `packer` orders the cards of
        units that are packed."""
        self._packer = packer
        self._room = room
        self._fleet = fleet
        self._row = row
        self._allowance = allowance
        self._views: dict[str, NodeView] = {}
        self._last: tuple[PlacementUnit, NodeView, Sequence[int]] | None = None
        """What was given last, and is not counted in the view yet."""
        self._joint: set[str] = set()
        """Vendors of which requests that share a card were given some: their containers may stand
        between others."""
        self._tally = Tally()
        """Of the shares, where somebody is limited."""
        self._uses: dict[str, Uses] = {}
        """Vendor -> what its shares count in quotas, where somebody is limited."""
        self.shares: list[Share] = []
        self.chosen: list[frozenset[str]] = []
        """Ids of the cards of each unit taken so far."""
        self._over: dict[int, str] = {}
        """Card of the view that quota kept from the last unit -> which limit, in numbers."""

    def take(self, unit: PlacementUnit, banned: frozenset[str] = frozenset()) -> NoFit | None:
        """Give the unit its cards, or say why not. `banned` cards are left for other units."""
        self._count_last()
        view = self._view(unit.lead.vendor)
        if view is None:
            missing = self._fleet.missing.get(self._fleet.names[self._row], frozenset())
            expected = unit.lead.vendor in missing
            return NoFit(Reason.NODE_UNREGISTERED if expected else Reason.NODE_HAS_NO_CARDS, unit)
        need = unit.need(view.state, self._fleet.models)
        if unit.lead.count > len(view.facts):
            codes = self._codes(unit, view, need)
            return NoFit(Reason.NODE_INSUFFICIENT_DEVICE, unit, view, need, codes)
        chosen = self._at_once(unit, view, need)
        if chosen is None:
            chosen, codes = self._choose(unit, view, need, banned)
            if chosen is None:
                return NoFit(_main_reason(codes), unit, view, need, codes, self._over)
        self._give(unit, view, chosen, need)
        self.chosen.append(frozenset(view.facts[i].id for i in chosen))
        return None

    def _view(self, vendor: str) -> NodeView | None:
        if vendor not in self._views:
            view = self._fleet.view(self._row, vendor)
            if view is None:
                return None
            self._views[vendor] = view
        return self._views[vendor]

    def _at_once(
        self, unit: PlacementUnit, view: NodeView, need: CardNeeds
    ) -> tuple[int, ...] | None:
        """The cards of the first unit, where it is known which have room; None where none do or
        that has to be asked."""
        room, self._room = self._room, None
        if room is None:
            return None
        columns = self._fleet.columns(self._row, unit.lead.vendor)
        passed: list[int] = room[self._row, columns].nonzero()[0].tolist()
        eligible = in_order(view, passed, unit.lead, need, self._packed(unit, view))
        if len(eligible) < unit.lead.count:
            return None
        return CHOOSERS[unit.lead.policy.choice](view, eligible, unit.lead)

    def _choose(
        self, unit: PlacementUnit, view: NodeView, need: CardNeeds, banned: frozenset[str]
    ) -> tuple[tuple[int, ...] | None, Codes]:
        request = unit.lead
        codes = self._codes(unit, view, need)
        self._over = {}
        passed = [i for i in np.flatnonzero(codes == 0) if view.facts[i].id not in banned]
        packed = self._packed(unit, view)
        eligible = in_order(view, [int(i) for i in passed], request, need, packed)
        if self._allowance.limits:
            eligible = self._affordable(unit, view, need, eligible, codes)
        if len(eligible) < request.count:
            return None, codes
        chosen = CHOOSERS[request.policy.choice](view, eligible, request)
        if chosen is None:
            short = Reason.NUMA_NOT_FIT if request.policy.same_numa else Reason.TOPOLOGY_NOT_FIT
            codes[codes == 0] = short
        return chosen, codes

    def _codes(self, unit: PlacementUnit, view: NodeView, need: CardNeeds) -> Codes:
        """The first reason that keeps each card from the unit, quota and cards together apart."""
        request, fleet = unit.lead, self._fleet
        refused = predicates.predicates(
            request, need, view.state, models=fleet.models, modes=fleet.modes,
            ids=predicates.ids_allowed(request, [c.id for c in view.facts]),
        )  # fmt: skip
        codes = predicates.first_reasons(refused, view.state.vendor.shape)
        self._drop_full(unit, view, codes)
        return codes

    def _drop_full(self, unit: PlacementUnit, view: NodeView, codes: Codes) -> None:
        """Requests that share a card live at different times, which one sum for a unit cannot
        distinguish from others on that card: there the ledger's own rule decides."""
        if not self.shares or not self._is_joint(unit):
            return
        for i in np.flatnonzero(codes == 0).tolist():
            card = view.facts[i].id
            mine = [share for share in self.shares if share.card == card]
            place = self._fleet.locate(view.node, card)
            if mine and place is not None:
                charge = charges([*mine, *shares_of(self._fleet, unit, view, [i])])[card]
                codes[i] = over(self._fleet, place, charge) or 0

    def _packed(self, unit: PlacementUnit, view: NodeView) -> list[float]:
        """What each card loses by the unit; empty where that does not matter or is not known."""
        packer = self._packer
        if packer is None or CardKey.PACK not in unit.lead.policy.cards:
            return []
        return ordering.card_keys(self._fleet, view, joint(unit), packer.state)

    def _affordable(
        self, unit: PlacementUnit, view: NodeView, need: CardNeeds, eligible: list[int],
        codes: Codes,
    ) -> list[int]:  # fmt: skip
        """The eligible cards that quota lets the unit have; the others get its code.

        Where quota allows any `count` of them it is silent; else it lets in card after card.
        HAMi asks quota before memory and cores, so those codes give way to quota's.
        """
        count = unit.lead.count
        eligible = self._inside(view, eligible, codes)
        memory = view.state.memory_total
        dearest = sorted(eligible, key=lambda i: (-at(need.memory, i), -memory[i]))[:count]
        known = self._alike(view, eligible) and len(dearest) == count
        if known and not self._over_at_most(unit, view, dearest):
            return eligible
        kept: list[int] = []
        others = np.flatnonzero(np.isin(codes, _AFTER_QUOTA)).tolist()
        for i in (*eligible, *others):
            over = self._exceeded(unit, view, [*kept, i])
            if over:
                codes[i], self._over[i] = Reason.RESOURCE_QUOTA_NOT_FIT, over
            elif codes[i] == 0 and len(kept) < count:
                kept.append(i)
        return kept

    def _alike(self, view: NodeView, eligible: Sequence[int]) -> bool:
        """Whether limits distinguish these cards by their memory alone."""
        if all(limit.models is None for limit in self._allowance.limits):
            return True
        facts = (view.facts[i] for i in eligible)
        return len({(f.model, f.memory_bytes, f.cores_percent) for f in facts}) == 1

    def _inside(self, view: NodeView, eligible: list[int], codes: Codes) -> list[int]:
        """The eligible cards of nodes that quota allows."""
        outside = {i: self._allowance.outside(view.facts[i]) for i in eligible}
        self._over |= {i: over for i, over in outside.items() if over}
        codes[list(self._over)] = Reason.RESOURCE_QUOTA_NOT_FIT
        return [i for i in eligible if i not in self._over]

    def _exceeded(self, unit: PlacementUnit, view: NodeView, cards: Sequence[int]) -> str:
        """Which limit the unit would exceed with these cards, in numbers; empty when none."""
        return self._beyond(unit.lead.vendor, self._uses_with(unit, view, cards))

    def _over_at_most(self, unit: PlacementUnit, view: NodeView, cards: Sequence[int]) -> str:
        """The same, had the unit these cards to itself: with shares that are there it is less."""
        alone = charges(shares_of(self._fleet, unit, view, cards))
        uses = dict(self._uses.get(unit.lead.vendor, {}))
        for i in cards:
            _add(uses, view.facts[i], alone[view.facts[i].id])
        return self._beyond(unit.lead.vendor, uses)

    def _beyond(self, vendor: str, uses: Uses) -> str:
        total = dict(uses)
        for other, used in self._uses.items():
            if other != vendor:
                total |= used
        return self._allowance.exceeded(total)

    def _uses_with(self, unit: PlacementUnit, view: NodeView, cards: Sequence[int]) -> Uses:
        """What the shares of the unit's vendor count in quotas, these cards with them."""
        vendor, more = unit.lead.vendor, shares_of(self._fleet, unit, view, cards)
        if self._is_joint(unit):
            facts = {card.id: card for card in view.facts}
            mine = [share for share in self.shares if share.vendor == vendor]
            return use_of((facts[card], x) for card, x in charges([*mine, *more]).items())
        uses = dict(self._uses.get(vendor, {}))
        for i, share in zip(cards, more, strict=True):
            card, before = view.facts[i], self._tally.of(share.card)
            if before != _NOTHING:
                _add(uses, card, before, -1)
            _add(uses, card, self._tally.then(share))
        return uses

    def _is_joint(self, unit: PlacementUnit) -> bool:
        return len(unit.parts) > 1 or unit.lead.vendor in self._joint

    def _give(
        self, unit: PlacementUnit, view: NodeView, chosen: Sequence[int], need: CardNeeds
    ) -> None:
        joint = len(unit.parts) > 1
        limited = bool(self._allowance.limits)
        if limited:
            self._uses[unit.lead.vendor] = self._uses_with(unit, view, chosen)
        shares = shares_of(self._fleet, unit, view, chosen, None if joint else need)
        self.shares += shares
        if limited:
            for share in shares:
                self._tally.add(share)
        if joint:
            self._joint.add(unit.lead.vendor)
        self._last = unit, view, chosen

    def _count_last(self) -> None:
        """What was given last stays: most pods have one unit, and nobody meets it."""
        if self._last is None:
            return
        (unit, view, chosen), self._last = self._last, None
        stays = unit.stays(view.state, self._fleet.models)
        state = view.state
        for i in chosen:
            lent = stays.best_effort and state.lends[i]
            memory = state.lent_memory if lent else state.memory_used
            slots = state.lent_slots if lent else state.sharers
            memory[i] += at(stays.memory, i)
            slots[i] += stays.slots
            state.cores_used[i] += at(stays.cores, i)
            state.exclusive[i] += int(at(stays.alone, i))


_NOTHING: Final = Charge()


def _add(
    uses: dict[tuple[str, str], QuotaUsage], card: Card, charge: Charge, sign: int = 1
) -> None:
    """Count a charge on a card, or with sign -1 take it back."""
    key = card.vendor, card.model
    uses[key] = uses.get(key, QuotaUsage()).plus(use_on(card, charge), sign)


_AFTER_QUOTA: Final = (
    Reason.CARD_INSUFFICIENT_MEMORY,
    Reason.CARD_INSUFFICIENT_CORE,
    Reason.CARD_COMPUTE_UNITS_EXHAUSTED,
)


def shares_of(
    fleet: Fleet, unit: PlacementUnit, view: NodeView, cards: Sequence[int],
    known: CardNeeds | None = None,
) -> list[Share]:  # fmt: skip
    """The share of each of the unit's containers on each of these cards of the fleet's view. What a
    unit of one container needs there may be `known`."""
    shares: list[Share] = []
    for part in unit.parts:
        need = known or predicates.amounts(part.request, view.state, fleet.models)
        shares += [_share_of(part, view, i, need) for i in cards]
    return shares


def _share_of(part: Part, view: NodeView, i: int, need: CardNeeds) -> Share:
    """A container's share of the view's card `i`, sized by what its request needs there."""
    card, container = view.facts[i], part.container
    memory = int(at(need.share_memory, i))
    return Share(
        container=container.container,
        position=container.position,
        role=container.role,
        vendor=card.vendor,
        dialect=part.request.dialect,
        card=card.id,
        index=card.index,
        memory_bytes=memory,
        cores_percent=percent(int(at(need.cores, i))),
        exclusive=bool(at(need.alone, i)),
        resident_bytes=_resident(memory, card, part.request, alone=bool(at(need.alone, i))),
        best_effort=part.request.best_effort or UNSET,
        lent=(part.request.best_effort and bool(view.state.lends[i])) or UNSET,
    )


def _resident(
    memory: int, card: Card, request: Request, *, alone: bool
) -> int | UnsetType:  # fmt: skip
    """`Share.resident_bytes`. A container that has the card to itself has all of it."""
    if request.guaranteed or not is_overcommitted(card):
        return UNSET
    if alone:
        whole = card.physical_bytes // MIB * MIB
        return UNSET if memory <= whole else whole
    return resident_part(memory, card)


def _main_reason(codes: Codes) -> Reason:
    """The reason that most cards gave; the first in the order of the predicates among equals."""
    given = codes[codes > 0]
    if not len(given):
        return Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST
    return Reason(int(np.bincount(given).argmax()))
