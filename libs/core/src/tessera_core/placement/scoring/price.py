"""What a card's holders lose by one pod more, by what they are expected to want of it.

The rebalancer says of each card what a pod would cost that wants 12, 25, 50, 75 or 100 % of it
(`tessera_core.usage.overload_price`). Here it is read for a request, and counted with what `pack`
loses on the card, in the same steps: so a good fit is worth some waiting, and much waiting is worth
a bad fit. It never decides whether something fits. Where no card has a price, or the pod names an
order, every answer is what it is without this module.

Shares that the rebalancer had not counted yet are taken to want as much as the request: pods that
come together are alike, and would all go to the same card without this.
"""

from __future__ import annotations

from functools import lru_cache
from sys import intern
from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from tessera_core.fleet.arrays import Codes
from tessera_core.fleet.charges import MOST_EQUAL
from tessera_core.fleet.columns import UNPRICED, CardColumns, CardPrice
from tessera_core.fleet.fleet import Fleet
from tessera_core.placement.packing.potential import STEP
from tessera_schema.messages.hints import PRICED_PERCENTS, NodeHints
from tessera_schema.requests import PressurePolicy, Request

Prices = NDArray[np.float32]
WEIGHT: Final = 0.5
"""Cards that `pack` may lose where the holders of a card are spared one card of overload."""
MEAN_PERCENT: Final = 50.0
"""What a pod of which nothing is known is expected to want."""
LEAST_PERCENT: Final = 1.0
"""Nobody wants nothing: so that it is not taken for one that has its cards to itself."""
WHOLE: Final = 100
COARSE: Final = 20
"""Hundredths of a card: one step of price where the order has no losses that it could be added to,
and comes after it."""
PLENTY: Final = 1.0
"""Demand density from which GPU time is not plenty any more: below it a cluster that is full has
memory granted to everybody and GPU time left. In simulated clusters it is 0.3 to 1.0 where pods use
a tenth of a card, and 1.1 to 1.7 where they use more than they ask for (docs/measurements.md).

Where it is plenty, what packing loses is more than what pods that want little can lose, so prices
alone would put them on cards that are full: pressure comes first, and nobody is taken to want less
than `MEAN_PERCENT`. Most pods want less, but most GPU time is wanted by a few, and nobody knows
whether the next pod is one of them."""
MOST: Final = 100_000.0
"""Percent of a card: nobody is believed to want more of one, whatever a message says."""
MOST_MET: Final = 300.0
"""Percent of a card: of those that want more together, a pod meets as many as of these."""
MOST_UNCOUNTED: Final = 3
"""Shares that are not counted in a card's price and still count: with more it is dear enough."""
MOST_CLASSES: Final = 16_384
"""Classes of pods of which it is remembered what they want; the one that no hint named for the
longest time is forgotten."""
_STEPS: Final = np.float32(WEIGHT / STEP / 100)
"""Of `pack`, to a hundredth of a card."""
_HAIR: Final = np.float32(1e-4)
"""Of a step: so that rounding errors do not part what is equal."""
_POINTS: Final = (0, *PRICED_PERCENTS)


def wanted_percent(fleet: Fleet, namespace: str, request: Request, *, plenty: bool) -> float:
    """`Policy.wanted_percent`: as hints say of pods of the namespace that ask for as much; of the
    first such pod, what it asks for. Where GPU time is plenty, `MEAN_PERCENT` at least."""
    if request.exclusive or request.cores_percent >= WHOLE or request.memory_percent >= WHOLE:
        return 0.0
    asked = request.cores_percent or MEAN_PERCENT
    least = MEAN_PERCENT if plenty else LEAST_PERCENT
    return max(fleet.wants.get((namespace, request.cores_percent), asked), least)


def is_plenty(fleet: Fleet) -> bool:
    """Whether pods want so little for the room that they take that memory runs out before GPU time
    does."""
    return demand_density(fleet) < PLENTY


def demand_density(fleet: Fleet) -> float:
    """GPU time that would be wanted of each card if all memory were granted to pods like those that
    are here: what the holders of cards with prices are expected to want, by what they were granted
    of these cards' memory. 1 = all of it. It does not depend on how full the cluster is; 0 where
    nothing is granted."""
    cards = fleet.cards
    granted = np.sum(
        cards.memory_used / np.maximum(cards.memory_total, 1), where=cards.priced != UNPRICED
    )
    return float(cards.expected.sum() / WHOLE / granted) if granted else 0.0


def set_prices(fleet: Fleet, hints: NodeHints) -> None:
    """From now on the node's cards have these prices; those not named have none."""
    complete = (hint for hint in hints.cards if len(hint.prices) == len(PRICED_PERCENTS))
    prices = {
        intern(hint.card): _shared(
            hint.prices,
            min(max(hint.holders, 0), UNPRICED - 1),
            round(min(max(hint.expected_percent, 0.0), MOST)),
        )
        for hint in complete
    }
    fleet.set_prices(hints.node, prices)
    for want in hints.wants:
        name = want.namespace, want.cores_percent
        fleet.wants.pop(name, None)
        fleet.wants[name] = want.wanted_percent
    while len(fleet.wants) > MOST_CLASSES:
        del fleet.wants[next(iter(fleet.wants))]


@lru_cache(MOST_EQUAL)
def _shared(prices: tuple[int, ...], sharers: int, expected_percent: int) -> CardPrice:
    """Equal prices are one object: cards that nobody waits for have the same."""
    return CardPrice(prices, sharers, expected_percent)


def card_prices(cards: CardColumns, request: Request) -> Prices:
    """In hundredths of a card, of each card of the columns; 0 where none is known."""
    percent = request.policy.wanted_percent
    if not percent:
        return np.zeros(cards.priced.shape, np.float32)
    found = read(cards.prices, percent)
    late = cards.sharers > cards.priced
    if late.any():
        uncounted = np.where(late, np.minimum(cards.sharers - cards.priced, MOST_UNCOUNTED), 0)
        for more in range(1, MOST_UNCOUNTED + 1):
            some = uncounted == more
            prices = cards.prices[some]
            costs = read(prices, (more + 1) * percent) - read(prices, more * percent)
            found[some] = np.maximum(costs, 0)
    return found


def of_node(fleet: Fleet, row: int, namespace: str, request: Request) -> dict[str, int]:
    """For people: what a pod of the namespace with this request costs on each card of the node that
    has a price, by the card's id, in hundredths of a card; empty where it takes whole cards."""
    percent = wanted_percent(fleet, namespace, request, plenty=is_plenty(fleet))
    view = fleet.view(row, request.vendor)
    if not percent or view is None:
        return {}
    policy = replace(request.policy, wanted_percent=percent)
    prices = card_prices(view.state, replace(request, policy=policy)).round().astype(int).tolist()
    known = (view.state.priced != UNPRICED).tolist()
    cards = zip(view.facts, prices, known, strict=True)
    return {card.id: costs for card, costs, is_known in cards if is_known}


def meetings(cards: CardColumns, request: Request) -> Prices:
    """How much of the time the pod and those on each card will want it at once, in hundredths of a
    card: what one wants of it times what the others do, each at moments of its own.

    Synchronous jobs lose up to so much even where the card has time for all of them, which prices
    do not count; and of cards that are full, on which prices are equal, it is least where the
    fewest want to be served."""
    percent = min(request.policy.wanted_percent, WHOLE)
    uncounted = np.minimum(np.maximum(cards.sharers - cards.priced, 0), MOST_UNCOUNTED)
    others = np.minimum(cards.expected + uncounted * percent, MOST_MET)
    found: Prices = (others * (percent / WHOLE)).astype(np.float32)
    return found


def steps(cards: CardColumns, request: Request) -> Codes:
    """What the request costs on each card in the steps of `pack`: its price, and its meetings as
    well where GPU time is scarce and nobody asks for the whole cards that fewer meetings begin."""
    costs, policy = card_prices(cards, request), request.policy
    if policy.pressure is PressurePolicy.PRICE and not policy.spares_idle_cards:
        costs = costs + meetings(cards, request)
    found: Codes = (costs * _STEPS + _HAIR).astype(np.uint8)
    return found


def coarse_steps(cards: CardColumns, request: Request) -> Codes:
    """The same in coarse steps; a card that nobody holds counts as one step dear at least, so that
    parts do not spread over cards that others could have had as a whole."""
    if not request.policy.wanted_percent:
        return np.zeros(cards.priced.shape, np.uint8)
    found = (card_prices(cards, request) / COARSE).astype(np.uint8)
    begun: Codes = np.maximum(found, np.where(cards.sharers == 0, np.uint8(1), np.uint8(0)))
    return begun


def read(prices: Codes, percent: float) -> Prices:
    """Between the points that are known, and beyond them: nobody costs more than it wants."""
    last = _POINTS[-1]
    if percent >= last:
        beyond: Prices = prices[..., -1].astype(np.float32) + np.float32(percent - last)
        return beyond
    at = next(i for i, point in enumerate(_POINTS) if point > percent)
    part = (percent - _POINTS[at - 1]) / (_POINTS[at] - _POINTS[at - 1])
    between: Prices = prices[..., at - 1] * np.float32(part)
    if at > 1:
        between += prices[..., at - 2] * np.float32(1 - part)
    return between
