"""Hosts that alone can hold some pods, and therefore are kept for them.

Where one node in ten has the memory that a pod of eight cards asks for, the others cannot help it.
A shape presses on each card of a node that can hold it with what it asks over the cards of all such
nodes; the excess is what that is more than if every node with enough cards could hold it. A
shape that all can hold has none, so where hosts are alike, or not known, nothing of this counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct

from tessera_core.fleet.arrays import Bools, Floats, Ints
from tessera_core.placement.packing.demand import CardKinds, DemandShape, IdleNodes

SHAPES: Final = 64
"""Shapes that count, those of the largest excess."""
LEAST: Final = 1e-6
"""An excess below this, in cards per card, is none."""
_FEW: Final = 32
"""Nodes that are looked at for all shapes at once; more would take too much room."""
_HAIR: Final = 1 - 1e-9
"""Totals come as a number per card, times the cards."""


class ScarceHosts(Struct, frozen=True, eq=False):
    """The shapes that some nodes with enough cards cannot hold."""

    cpu: Floats
    memory: Floats
    count: Ints
    allowed: Bools
    """(shapes, kinds)."""
    excess: Floats
    """(shapes,): cards asked per card that can serve, less what it were if all could."""

    def per_card(self, nodes: IdleNodes) -> Floats:
        """(nodes, cards): the excess of all shapes that the node, idle, could hold."""
        of_kind = cards_of_kind(nodes.kind)
        if len(nodes.cpu) <= _FEW:
            holds = (nodes.cpu >= self.cpu[:, None] * _HAIR) & (
                nodes.memory >= self.memory[:, None] * _HAIR
            )
            serves = self.allowed.take(nodes.kind, 1) & (of_kind >= self.count[:, None, None])
            few: Floats = np.einsum("s,sn,snc->nc", self.excess, holds, serves)
            return few
        found = np.zeros(nodes.kind.shape)
        for cpu, memory, count, allowed, excess in zip(
            self.cpu, self.memory, self.count, self.allowed, self.excess, strict=True
        ):
            rows = np.flatnonzero((nodes.cpu >= cpu * _HAIR) & (nodes.memory >= memory * _HAIR))
            if len(rows):
                serves = allowed.take(nodes.kind[rows]) & (of_kind[rows] >= count)
                found[rows] += excess * serves
        return found

    def among(self, kinds: int) -> ScarceHosts:
        """The same where more kinds of cards are known, which the shapes were not asked about."""
        more = np.zeros((len(self.excess), kinds - self.allowed.shape[1]), np.bool_)
        allowed = np.concatenate([self.allowed, more], axis=1)
        return ScarceHosts(self.cpu, self.memory, self.count, allowed, self.excess)


class _Sites(NamedTuple):
    """Idle nodes of known hosts, each kind of them once for each kind of its cards."""

    kind: Ints
    each: Ints
    """Cards of that kind on one such node."""
    cpu: Floats
    memory: Floats
    cards: Ints
    """Cards of that kind on all of them."""


def scarce_hosts(kinds: CardKinds, asked: Iterable[tuple[DemandShape, float]]) -> ScarceHosts:
    """`asked`: each shape with the cards that it asks for, scaled to all cards being asked for."""
    sites = _sites(kinds.nodes)
    found: dict[tuple[float, float, int, bytes], float] = {}
    for ask, cards in asked:
        able = ask.allowed.take(sites.kind) & (sites.each >= max(ask.count, 1))
        holds = able & (sites.cpu >= ask.cpu * _HAIR) & (sites.memory >= ask.memory * _HAIR)
        if holds.any() and holds.sum() < able.sum():
            excess = cards / sites.cards[holds].sum() - cards / sites.cards[able].sum()
            key = (ask.cpu, ask.memory, ask.count, ask.allowed.tobytes())
            found[key] = found.get(key, 0) + float(excess)
    most = sorted(found.items(), key=lambda item: -item[1])[:SHAPES]
    kept = [(*key, excess) for key, excess in most if excess >= LEAST]
    allowed = [np.frombuffer(text, np.bool_) for _, _, _, text, _ in kept]
    return ScarceHosts(
        cpu=np.array([cpu for cpu, *_ in kept]),
        memory=np.array([memory for _, memory, *_ in kept]),
        count=np.array([count for _, _, count, *_ in kept], np.int64),
        allowed=np.array(allowed).reshape(len(kept), len(kinds)).astype(np.bool_),
        excess=np.array([excess for *_, excess in kept]),
    )


def cards_of_kind(kind: Ints) -> Ints:
    """(nodes, cards): how many cards of its kind the node has, for each card."""
    count: Ints = (kind[:, :, None] == kind[:, None, :]).sum(2)
    return count


def _sites(nodes: IdleNodes | None) -> _Sites:
    if nodes is None:
        none = np.zeros(0, np.int64)
        return _Sites(none, none, none.astype(float), none.astype(float), none)
    node, card = np.nonzero((nodes.kind > 0) & nodes.known[:, None])
    columns = (
        nodes.kind[node, card], cards_of_kind(nodes.kind)[node, card],
        nodes.cpu[node], nodes.memory[node],
    )  # fmt: skip
    both = np.stack(columns, axis=1).astype(np.float64)
    found, cards = np.unique(both, axis=0, return_counts=True)
    kind, each = found[:, 0].astype(np.int64), found[:, 1].astype(np.int64)
    return _Sites(kind, each, found[:, 2], found[:, 3], cards)
