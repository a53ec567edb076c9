"""What `pack` keeps between two pods: what it expects, and what each node would lose by a shape."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from tessera_core.fleet.arrays import Codes, Floats, Ints
from tessera_core.fleet.columns import CardColumns
from tessera_core.fleet.fleet import Fleet
from tessera_core.placement.packing.demand import CardKinds, Demand, DemandShape
from tessera_core.placement.packing.demand_history import DemandedShape, History
from tessera_core.placement.packing.fleet_tracker import FleetTracker
from tessera_core.placement.packing.forecast import Forecast, extended, learn
from tessera_core.placement.packing.free_capacity import HostColumns, free_rows, with_use
from tessera_core.placement.packing.loss_cache import LossCache
from tessera_core.placement.packing.potential import CardRoom, Rows, card_losses, losses, room
from tessera_core.placement.packing.whole_node_reserve import WholeNodeReserve, whole_nodes
from tessera_schema.requests import Policy, Request

_ASKS: Final = 1024
"""Shapes whose amounts are remembered."""
PRICED_SHAPES: Final = 128
"""Shapes of which every card's loss is remembered: a byte a card, 5 MB at 5,000 nodes x 8."""
_FAR: Final = 65535
"""No card loses as many steps."""


class Lesson(NamedTuple):
    """What there is to learn from: the arguments of
    `tessera_core.placement.packing.forecast.learn`."""

    kinds: CardKinds
    past: Demand


class PackingState:
    """Nothing learned at first: halves, quarters and eighths of cards are expected."""

    def __init__(self, *, reserve: bool | None = None) -> None:
        """With `reserve` as policy B: balanced, and with whole nodes kept back. None: while hosts
        are short of processor, by what was learned."""
        self._seen = FleetTracker()
        self._forecast: Forecast | None = None
        self._reserving = reserve
        self._reserve: WholeNodeReserve | None = None
        self._kept, self._priced = LossCache(0), LossCache(0, PRICED_SHAPES)
        self._asks: dict[DemandedShape, DemandShape] = {}
        self._room: CardRoom | None = None
        """Of all rows, kept in step with them."""

    # -- learning: `lesson` is quick, `learn` is not, `warm` spares the next pods the first look

    def lesson(
        self, fleet: Fleet, history: History, now: float, hosts: HostColumns | None = None
    ) -> Lesson:
        """What can be learned now; while the history is too short, the default."""
        self.follow(fleet, hosts)
        seen = self._seen
        past = seen.catalogue.past(history, fleet) if history.enough(now) else Demand()
        kinds = seen.catalogue.describe(seen.kind)
        rows = seen.rows(None)
        past = with_use(past, rows, kinds)
        nodes = replace(rows.nodes, kind=seen.kind.copy())
        return Lesson(replace(kinds, nodes=nodes), past)

    def adopt(self, forecast: Forecast) -> None:
        """From now on this is expected."""
        self._forecast = forecast
        self._forget()

    def apart(self) -> PackingState:
        """The same expectations with nothing kept: for another fleet, such as a snapshot."""
        other = PackingState(reserve=self._reserving)
        other._seen = FleetTracker(self._seen.catalogue)
        other._forecast = self._forecast
        return other

    def warm(self, fleet: Fleet, wishes: Iterable[DemandedShape]) -> None:
        """Work out all nodes' losses by these shapes now, some milliseconds each."""
        for wish in wishes:
            self.steps(fleet, wish)

    @property
    def forecast(self) -> Forecast:
        """What is expected of all kinds met so far."""
        known, seen = self._forecast, self._seen
        if known is None or len(known.kinds) < len(seen.catalogue):
            kinds = seen.catalogue.describe(seen.kind)
            known = learn(kinds, Demand()) if known is None else extended(known, kinds)
            self._forecast = known
            self._forget()
        return known

    # -- answers

    def follow(self, fleet: Fleet, hosts: HostColumns | None = None) -> None:
        """Take in what changed. `hosts` are columns over the fleet's rows; None = not known."""
        known = len(self._seen.catalogue)
        changes = self._seen.update(fleet, hosts)
        if changes.rows is None or len(self._seen.catalogue) != known:
            self._forget()
            return
        if changes.facts:
            self._reserve = None
        for row in changes.rows.tolist():
            self._kept.changed(row)
            self._priced.changed(row)
        forecast = self.forecast  # may forget the room, when another state met new kinds
        if self._room is not None and len(changes.rows):
            rows = self._seen.rows(changes.rows)
            for column, fresh in zip(self._room, room(rows, forecast), strict=True):
                column[changes.rows] = fresh

    def steps(self, fleet: Fleet, wish: DemandedShape) -> Floats:
        """By how many steps each row's potential grows; infinite where the shape does not fit."""
        forecast = self.forecast
        ask = self.demand_shape(fleet, wish)
        whole = self._whole()

        def compute(at: Ints | None) -> tuple[Floats, Ints]:
            now = whole if at is None else CardRoom(*(column[at] for column in whole))
            rows = self._seen.rows(at)
            found = losses(rows, ask, forecast, balanced=self._balanced(forecast), now=now)
            first = found.cards[:, 0] if found.cards.size else np.zeros(len(found.node), np.int64)
            return found.steps, first

        return self._kept.losses_for(_key(wish), compute).steps

    def priced_steps(self, fleet: Fleet, wish: DemandedShape, prices: Codes) -> Floats:
        """The same where each card also has a price, (rows, cards) in steps: the cards for which
        both together are least are the ones that count."""
        forecast, whole = self.forecast, self._whole()
        ask = self.demand_shape(fleet, wish)

        def compute(at: Ints | None) -> tuple[Floats, Codes]:
            now = whole if at is None else CardRoom(*(column[at] for column in whole))
            rows = self._seen.rows(at)
            found = losses(rows, ask, forecast, balanced=self._balanced(forecast), now=now)
            return found.steps, np.asfortranarray(found.steps_over)  # as the fleet's columns

        kept = self._priced.losses_for(_key(wish), compute)
        over, count = kept.card.astype(np.uint16), ask.count
        both = over + prices
        if count <= 1:
            steps: Floats = kept.steps + both.min(1, initial=_FAR)
        else:
            steps = kept.steps + _least(both, count) - _least(over, count)
        return steps

    def rows(self, at: Ints | None) -> Rows:
        """Some rows of the fleet as they were followed last; None = all."""
        return self._seen.rows(at)

    def order(self) -> Ints:
        """Row -> place in the fixed order."""
        return self._seen.order

    def of_cards(self, fleet: Fleet, cards: CardColumns, request: Request) -> Floats:
        """What each card of some nodes, columns over (nodes, cards), loses by the request."""
        kind = self._seen.catalogue.numbers(cards)
        forecast = self.forecast
        return card_losses(
            free_rows(cards, kind), self.demand_shape(fleet, DemandedShape(request)), forecast
        )

    def reserved(self, count: int) -> list[Floats]:
        """Columns that come before the steps, where whole nodes are kept back."""
        if not self._balanced(self.forecast):
            return []
        rows = self._seen.rows(None)
        usable = rows.kind > 0
        idle = (usable & rows.idle).sum(1)
        if self._reserve is None:
            self._reserve = self._new_reserve(usable.sum(1))
        left = float(self._whole().loose.sum())
        self._reserve.settle(idle, left)
        return self._reserve.columns(count, idle)

    def demand_shape(self, fleet: Fleet, wish: DemandedShape) -> DemandShape:
        """The request on all kinds met so far."""
        key = _key(wish)
        if key not in self._asks:
            if len(self._asks) >= _ASKS:
                self._asks.clear()
            self._asks[key] = self._seen.catalogue.demand_shape(
                key.request, fleet, cpu=key.cpu, memory=key.memory
            )
        return self._asks[key]

    # -- inside

    def _balanced(self, forecast: Forecast) -> bool:
        return forecast.short if self._reserving is None else self._reserving

    def _whole(self) -> CardRoom:
        if self._room is None:
            self._room = room(self._seen.rows(None), self.forecast)
        return self._room

    def _forget(self) -> None:
        nodes = len(self._seen.order)
        self._kept, self._priced = LossCache(nodes), LossCache(nodes, PRICED_SHAPES)
        self._room = self._reserve = None
        self._asks = {}

    def _new_reserve(self, cards: Ints) -> WholeNodeReserve:
        size = int(cards.max(initial=0))
        nodes = whole_nodes(cards, self._seen.kind.max(1, initial=0), max(size, 1))
        in_order = nodes[np.argsort(self._seen.order[nodes], kind="stable")]
        return WholeNodeReserve(in_order, max(size, 1), self.forecast.many)


def _least(numbers: NDArray[np.uint16], count: int) -> Ints:
    """Per row the sum of the `count` least; of all where there are not as many."""
    ordered = np.partition(numbers, count - 1, axis=1) if count < numbers.shape[1] else numbers
    sums: Ints = ordered[:, :count].sum(1, dtype=np.int64)
    return sums


def _key(wish: DemandedShape) -> DemandedShape:
    """What of a wish decides the answer."""
    only = Policy(idle_cards_only=wish.request.policy.idle_cards_only)
    return wish.coarse()._replace(
        request=replace(
            wish.request, dialect="", ids=(), ids_denied=(), together=False, policy=only
        )
    )
