"""How much a node loses when a pod is placed on it: the policy itself.

    PHI = sum over partly used cards (what is free - what that is worth + 0.05)
        + max(0, L - cpu free / cpu per card) + max(0, L - memory free / memory per card)
        - 2 sum over cards (scarcity of its kind and of its host * what is free)

where L is what is free of the node's cards, all in cards. An idle card loses nothing. Processor and
memory per card are what pods ask, but never more than the node itself has per card: so an
idle node loses nothing either. The pod goes where PHI grows least, in steps of `STEP`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from tessera_core.fleet.arrays import Bools, Codes, Floats, Ints
from tessera_core.placement.packing.demand import DemandShape, IdleNodes
from tessera_core.placement.packing.forecast import Forecast

STEP: Final = 0.04
"""Growths of PHI within one step are equal: the first node in a fixed order then wins, which keeps
whole nodes free. Between 0 and 0.1 it matters little."""
SCARCITY: Final = 2.0
BALANCE: Final = 0.1
_TIGHTER: Final = 1e-7
"""Cards per card: among cards that lose equally, the one with least left wins."""
_HAIR: Final = 1e-6
"""Of a step: so that rounding errors do not part what is equal."""
DEAREST: Final = 255
"""Steps: over ten cards, more than any card can lose."""


def steps_of(loss: Floats) -> Codes:
    """Losses, in cards, in whole steps up to `DEAREST`."""
    return np.minimum(np.floor(loss / STEP + _HAIR), DEAREST).astype(np.uint8)


class Rows(NamedTuple):
    """Some nodes, as they are."""

    kind: Ints
    """(nodes, cards): each card's kind."""
    free: tuple[Ints, ...]
    """Per axis (nodes, cards), in the units of `Kinds.totals`."""
    idle: Bools
    """(nodes, cards)."""
    cpu: Floats
    """(nodes,): what is free; infinite when not known."""
    memory: Floats
    cpu_per_card: Floats
    """(nodes,): what there is in all, per card that may be used; anything finite when not known."""
    memory_per_card: Floats

    @property
    def nodes(self) -> IdleNodes:
        """What they offer when they are idle."""
        cards = np.maximum((self.kind > 0).sum(1), 1)
        cpu, memory = self.cpu_per_card * cards, self.memory_per_card * cards
        return IdleNodes(self.kind, cpu, memory, np.isfinite(self.cpu))


class Losses(NamedTuple):
    """By how much PHI grows."""

    node: Floats
    """(nodes,): in cards; infinite where the shape does not fit."""
    cards: Ints
    """(nodes, cards asked): the columns chosen for it."""
    growth: Floats
    """(nodes, cards): each card's part, were it chosen; infinite where the shape does not fit."""

    @property
    def steps(self) -> Floats:
        """(nodes,): in whole steps."""
        return np.floor(self.node / STEP + _HAIR)

    @property
    def steps_over(self) -> Codes:
        """(nodes, cards): steps by which each card is dearer than its node's cheapest, up to
        `DEAREST`; that where the shape does not fit."""
        least = self.growth.min(1, initial=np.inf)[:, None]
        least[least == np.inf] = 0
        return steps_of(self.growth - least)


class CardRoom(NamedTuple):
    """Of each card, (nodes, cards)."""

    loose: Floats
    """What is free, in cards."""
    lost: Floats
    """How much of that is lost."""
    scarce: Floats
    """How scarce the card is, by its kind and by its host."""


def losses(
    rows: Rows,
    ask: DemandShape,
    forecast: Forecast,
    *,
    balanced: bool = False,
    now: CardRoom | None = None,
) -> Losses:
    """For each node what one pod of the shape costs there, on the cards that are best for it.
    `balanced` also counts how evenly cards and processor run out (policy B). `now` is
    `room(rows, outlook)`, where it is known already."""
    now = now or room(rows, forecast)
    loose = now.loose
    space = loose.sum(1)
    cpu, memory = rows.cpu - ask.cpu, rows.memory - ask.memory
    fits = (cpu >= 0) & (memory >= 0)
    grows, taken = np.zeros(len(space)), np.zeros(len(space))
    chosen, card = np.zeros((len(space), 0), np.int64), np.zeros_like(loose)
    if ask.count > loose.shape[1]:
        fits[:] = False
    elif ask.count:
        card, left = _placed(rows, ask, forecast, now)
        order = card + _TIGHTER * left
        if ask.count == 1:
            chosen = order.argmin(1)[:, None]
        else:
            chosen = order.argsort(1, kind="stable")[:, : ask.count]
        at = np.arange(len(space))[:, None], chosen
        grows, taken = card[at].sum(1), (loose - left)[at].sum(1)
        taken[grows == np.inf] = 0
    host = _Host(rows, forecast, balanced=balanced)
    grows = grows + host.lost(space - taken, cpu, memory) - host.lost(space, rows.cpu, rows.memory)
    return Losses(np.where(fits, grows, np.inf), chosen, card)


def card_losses(rows: Rows, ask: DemandShape, forecast: Forecast) -> Floats:
    """(nodes, cards): each card's part in the loss, the tighter of two equal cards a hair
    cheaper; infinite where the shape does not fit."""
    card, left = _placed(rows, ask, forecast, room(rows, forecast))
    return card + _TIGHTER * left


def potential(rows: Rows, forecast: Forecast, *, balanced: bool = False) -> Floats:
    """(nodes,): PHI itself, for tests and for the curious."""
    loose, lost, scarce = room(rows, forecast)
    host = _Host(rows, forecast, balanced=balanced)
    of_host = host.lost(loose.sum(1), rows.cpu, rows.memory)
    phi: Floats = lost.sum(1) - SCARCITY * (scarce * loose).sum(1) + of_host
    return phi


def room(rows: Rows, forecast: Forecast, scarce: Floats | None = None) -> CardRoom:
    """As the nodes are; `scarce` is `scarcity(rows, outlook)`, where it is known already."""
    loose, lost = _left(rows.free, rows.kind, forecast)
    return CardRoom(loose, lost, scarcity(rows, forecast) if scarce is None else scarce)


def scarcity(rows: Rows, forecast: Forecast) -> Floats:
    """(nodes, cards): see `CardRoom.scarce`. What is free of the nodes does not matter."""
    found: Floats = forecast.scarcity.take(rows.kind)
    if len(forecast.confined.excess):
        found += forecast.confined.per_card(rows.nodes)
    return found


def _left(free: tuple[Ints, ...], kind: Ints, forecast: Forecast) -> tuple[Floats, Floats]:
    """Free and lost of cards of these kinds, with so much free along each axis."""
    loose = np.zeros(kind.shape)
    at = forecast.base.take(kind)
    for axis, column in enumerate(free):
        if axis < forecast.kinds.amounts:
            loose += column * forecast.per_unit[:, axis].take(kind)
        cells = column * forecast.per_cell[:, axis].take(kind) + _HAIR
        cell = np.maximum(cells, 0).astype(np.int64)
        cell = np.minimum(cell, forecast.top[:, axis].take(kind))
        at += cell * forecast.stride[:, axis].take(kind)
    return loose, loose - forecast.value.take(at)


def _placed(
    rows: Rows, ask: DemandShape, forecast: Forecast, now: CardRoom
) -> tuple[Floats, Floats]:
    """(nodes, cards): growth of what is lost if the pod takes the card, and what is left free."""
    kind, loose, lost = rows.kind, now.loose, now.lost
    fits = ask.allowed.take(kind)
    after = []
    for axis, column in enumerate(rows.free):
        after.append(column - ask.need[:, axis].take(kind))
        fits &= after[-1] >= 0
    if ask.alone.all():
        fits &= rows.idle
        left, lost_then = np.zeros_like(loose), np.zeros_like(lost)
    else:
        left, lost_then = _left(tuple(after), kind, forecast)
        if ask.alone.any():
            alone = ask.alone.take(kind)
            fits &= rows.idle | ~alone
            left, lost_then = np.where(alone, 0, left), np.where(alone, 0, lost_then)
    grows = lost_then - lost
    if forecast.scarcity.any() or len(forecast.confined.excess):
        grows += SCARCITY * now.scarce * (loose - left)
    return np.where(fits, grows, np.inf), left


class _Host:
    """Cards that cannot be used for want of processor or memory on their node."""

    def __init__(self, rows: Rows, forecast: Forecast, *, balanced: bool) -> None:
        self._cpu = _at_most(forecast.cpu_per_card, rows.cpu_per_card)
        self._memory = _at_most(forecast.memory_per_card, rows.memory_per_card)
        self._balanced = balanced

    def lost(self, room: Floats, cpu: Floats, memory: Floats) -> Floats:
        served = cpu / self._cpu
        lost: Floats = np.maximum(0, room - served) + np.maximum(0, room - memory / self._memory)
        if self._balanced:
            lost += BALANCE * room * ((room + 0.2) / (np.maximum(served, 0) + 0.2)) ** 2
        return lost


def _at_most(asked: float, has: Floats) -> Floats:
    """Per card, never 0, so that it divides."""
    return np.maximum(np.minimum(asked, has), 1e-9)
