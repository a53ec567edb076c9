"""The prices of a node's cards, from what was measured there and who holds parts of them.

A pod is one holder of a card, however many of its containers have shares of it: they want GPU time
in turn, or together as one. It counts from the moment that it holds a share, measured or not.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import astuple

from tessera_core.shared_values import one_number
from tessera_core.usage.expected_use import (
    ExpectedUse,
    ExpectedWant,
    PodSamples,
    PodTraits,
    wanted_percent,
)
from tessera_core.usage.lending_terms import GrantedShare, Holders
from tessera_core.usage.overload_price import card_prices
from tessera_core.usage.smoothed import SmoothNode
from tessera_schema.messages.hints import ClassWant

FULL_PERCENT: Final = 50.0
"""Crowding of a card from which it counts as full: those on it may want more than they get."""
_WHOLE: Final = 100.0
MOST_WANTS: Final = 64
"""Classes of pods in one node's hints; there are hardly ever more on its cards."""
_HeldCard = tuple[str, str]
"""Pod uid and card."""
_NUMBERS: Final = len(PodSamples.__struct_fields__)


class PricedCard(Struct, frozen=True, gc=False):
    """What a hint says of one card's price (`CardHint`)."""

    card: str
    expected_percent: float = 0
    prices: tuple[int, ...] = ()
    holders: int = 0


class _Holder(Struct, gc=False):
    """A pod on one card."""

    traits: PodTraits
    best_effort: bool = False
    """It has what others leave: nobody loses what it wants, and no pod is alike."""
    shares: int = 0
    wanted: float = 0.0
    """Percent of the card, by what was measured now."""
    measured: bool = False


_Pods = Mapping[_HeldCard, _Holder]


class PricedNode(Struct, frozen=True):
    """A node: its measured cards, and what pods like those on them are expected to want."""

    priced: tuple[PricedCard, ...] = ()
    wants: tuple[ClassWant, ...] = ()

    @property
    def cards(self) -> dict[str, PricedCard]:
        """The cards by id. A cluster has 10,000 nodes: tables of them would take more memory."""
        return {one.card: one for one in self.priced}


class _Known(Struct):
    """What was kept of a node."""

    holders: Holders
    """Of its cards, when it was priced."""
    sums: array[float]
    """Of each pod on each card, in the order in which the holders name them first, the numbers of
    its samples: in a cluster of 100,000 pods, objects would take ten times as much."""
    priced: PricedNode
    next_at: float
    """Unix time before which none of its pods has another sample."""

    @property
    def samples(self) -> dict[_HeldCard, PodSamples]:
        """Of each pod on each card."""
        keys = dict.fromkeys((uid, card) for uid, _, card in self.holders)
        rows = (self.sums[at : at + _NUMBERS] for at in range(0, len(self.sums), _NUMBERS))
        return {key: PodSamples(*row) for key, row in zip(keys, rows, strict=True)}

    def lasts(self, seen: SmoothNode, holders: Holders) -> bool:
        """Whether nothing can have changed."""
        same = self.holders is holders and seen.at < self.next_at
        return same and [one.card for one in self.priced.priced] == [c.card for c in seen.cards]


class CardPricer:
    """Follows what holders of cards want, node by node, and prices the cards."""

    def __init__(self, expected: ExpectedUse | None = None) -> None:
        """Nothing is known of anybody."""
        self.expected = expected or ExpectedUse()
        self._nodes: dict[str, _Known] = {}

    def price(self, seen: SmoothNode, holders: Holders) -> PricedNode:
        """The node as it is now; `holders` are those of its cards, another object when they are
        others. What is measured of pods that
        hold nothing counts nothing, and what is known of pods that hold nothing any more is
        forgotten. Between two samples of its pods, prices stay what they are."""
        known = self._nodes.get(seen.node)
        if known is not None and known.lasts(seen, holders):
            return known.priced
        on, former = _pods(seen, holders), {} if known is None else known.samples
        samples = {key: former.get(key) or self.expected.samples(seen.at) for key in on}
        sampled = self._sample(seen, on, samples)
        cards = [card.card for card in seen.cards]
        same = known is not None and samples.keys() == former.keys()
        if known is not None and same and not sampled and known.priced.cards.keys() == set(cards):
            priced = known.priced
        else:
            priced = PricedNode(self._cards(cards, on, samples), self._wants(on))
        newest = (samples[key].at for key, pod in on.items() if not pod.best_effort)
        next_at = min(newest, default=math.inf) + self.expected.rules.sample_s
        sums = array("d", [n for one in samples.values() for n in astuple(one)])
        self._nodes[seen.node] = _Known(holders, sums, priced, next_at)
        return priced

    def forget(self, node: str) -> None:
        """The node is gone."""
        self._nodes.pop(node, None)

    def _sample(self, seen: SmoothNode, on: _Pods, samples: Mapping[_HeldCard, PodSamples]) -> bool:
        """Whether something was learned of one of its pods."""
        full = {card.card for card in seen.cards if card.crowded_percent >= FULL_PERCENT}
        found = [
            self.expected.add(samples[key], pod.traits, pod.wanted, seen.at, full=key[1] in full)
            for key, pod in on.items()
            if pod.measured and not pod.best_effort
        ]
        return any(found)

    def _cards(
        self, cards: Sequence[str], on: _Pods, samples: Mapping[_HeldCard, PodSamples]
    ) -> tuple[PricedCard, ...]:
        wants: dict[str, list[ExpectedWant]] = {card: [] for card in cards}
        shares = dict.fromkeys(cards, 0)
        for key, pod in on.items():
            if key[1] in wants:
                if not pod.best_effort:
                    wants[key[1]].append(self.expected.of(samples[key], pod.traits))
                shares[key[1]] += pod.shares
        return tuple(
            PricedCard(
                card, one_number(round(sum(want.mean for want in there), 1)), card_prices(there),
                shares[card],
            )
            for card, there in wants.items()
        )  # fmt: skip

    def _wants(self, on: _Pods) -> tuple[ClassWant, ...]:
        traits = (pod.traits for pod in on.values() if not pod.best_effort)
        found = {(each.namespace, each.cores_percent) for each in traits}
        return tuple(
            ClassWant(
                namespace=namespace, cores_percent=cores,
                wanted_percent=round(self.expected.of_class(namespace, cores), 1),
            )
            for namespace, cores in sorted(found)[:MOST_WANTS]
        )  # fmt: skip


def _pods(seen: SmoothNode, holders: Holders) -> dict[_HeldCard, _Holder]:
    """Who holds parts of the node's cards, with what it wants."""
    found: dict[_HeldCard, _Holder] = {}
    for (uid, _, card), held in holders.items():
        pod = found.get((uid, card))
        if pod is None:
            pod = found[uid, card] = _Holder(_traits(held), best_effort=held.best_effort)
        pod.shares += not held.lent
    for one in (one for card in seen.cards for one in card.containers if one.key in holders):
        pod = found[one.uid, one.card]
        wanted = wanted_percent(one.cores_percent, one.held_percent)
        pod.wanted, pod.measured = min(pod.wanted + wanted, _WHOLE), True
    return found


def _traits(held: GrantedShare) -> PodTraits:
    """By the first of its shares: pods that are alike have the same first one."""
    return PodTraits(held.namespace, held.cores_percent, held.memory_bytes, held.owner)
