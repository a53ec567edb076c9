"""How good each card of a node is for a request, key by key.

`usage_scores` are HAMi's: ten times the weighted parts of slots, cores and memory that would be in
use with the request. Koordinator's score is in `tessera_core.placement.scoring.koordinator`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import add
from typing import Final

import numpy as np

from tessera_core.fleet.columns import NodeView, each
from tessera_core.fleet.needs import CardNeeds
from tessera_core.placement.packing.potential import steps_of
from tessera_core.placement.scoring import price
from tessera_core.placement.scoring.koordinator import card_score
from tessera_core.placement.scoring.pressure import COMES_FIRST, PRICED, felt
from tessera_schema.requests import CardKey, PressurePolicy, Request, Weights

Parts = tuple[float, float, float]
"""Of slots, cores and memory."""


def usage_scores(used: Iterable[Parts], totals: Iterable[Parts], w: Weights) -> list[float]:
    """What is in use of each card, the request included, of its totals; 0 where a total is 0."""
    return [
        10 * (w.slot * slots / all_slots + w.core * cores / all_cores + w.memory * memory / all_)
        if all_slots and all_cores and all_
        else 0.0
        for (slots, cores, memory), (all_slots, all_cores, all_) in zip(used, totals, strict=True)
    ]


Column = Sequence[float] | Sequence[tuple[float, float]]
"""A number, or several in order, for each card of a view."""
Key = Callable[[NodeView, Request, CardNeeds], Column]


def _usage(view: NodeView, request: Request, need: CardNeeds) -> Sequence[float]:
    s, count, more = view.state, len(view.facts), need.slots
    used = zip(
        [sharers + more for sharers in s.sharers.tolist()],
        map(add, s.cores_used.tolist(), each(need.cores, count)),
        map(add, s.memory_used.tolist(), each(need.memory, count)),
        strict=True,
    )
    totals = zip(s.slots.tolist(), s.cores_total.tolist(), s.memory_total.tolist(), strict=True)
    return usage_scores(used, totals, request.policy.weights)


def _negative(column: Sequence[float]) -> Sequence[float]:
    return [-number for number in column]


def _tightest(view: NodeView, _r: Request, _n: CardNeeds) -> Sequence[tuple[float, float]]:
    s = view.state
    cores, memory = s.cores_total - s.cores_used, s.memory_total - s.memory_used
    return list(zip(cores.tolist(), memory.tolist(), strict=True))


def _allocated(*, most: bool) -> Key:
    def column(view: NodeView, request: Request, need: CardNeeds) -> Sequence[float]:
        cards = range(len(view.facts))
        return [-card_score(view, i, request, need, most=most) for i in cards]

    return column


KEYS: Final[Mapping[CardKey, Key]] = {
    CardKey.BINPACK: lambda v, r, n: _negative(_usage(v, r, n)),
    CardKey.SPREAD: _usage,
    CardKey.NUMA_LOW: lambda v, _r, _n: v.state.numa.tolist(),
    CardKey.NUMA_HIGH: lambda v, _r, _n: (-v.state.numa).tolist(),
    CardKey.TIGHTEST: _tightest,
    CardKey.MOST_USED_MEMORY: lambda v, _r, _n: (-v.state.memory_used).tolist(),
    CardKey.FEWEST_SHARERS: lambda v, _r, _n: v.state.sharers.tolist(),
    CardKey.LEAST_ALLOCATED: _allocated(most=False),
    CardKey.MOST_ALLOCATED: _allocated(most=True),
    CardKey.PACK: lambda v, r, n: _negative(_usage(v, r, n)),
}
"""Key -> number of each card; the least is the best."""


def in_order(
    view: NodeView, cards: list[int], request: Request, need: CardNeeds,
    packed: Sequence[float] = (),
) -> list[int]:  # fmt: skip
    """The cards, best first by the request's keys, then by index. `packed` is what each card of
    the view loses by the request (`tessera_core.placement.packing`), where that is known."""
    policy = request.policy
    sign = -1 if policy.highest_index_first else 1
    keys = [_key(packed) if k is CardKey.PACK and packed else KEYS[k] for k in policy.cards]
    if policy.pressure in PRICED:
        keys.insert(0, _priced(packed) if packed else _coarse)
    if policy.pressure in COMES_FIRST:
        keys.insert(0, _pressure)
    if policy.pressure is PressurePolicy.TIES:
        keys.append(_pressure)
    columns = [key(view, request, need) for key in keys]
    ranks = list(zip(*columns, [sign * card.index for card in view.facts], strict=True))
    return sorted(cards, key=ranks.__getitem__)


def _pressure(view: NodeView, request: Request, _need: CardNeeds) -> Sequence[float]:
    numbers: list[float] = felt(view.state, request).tolist()
    return numbers


def _priced(packed: Sequence[float]) -> Key:
    """What is lost by the request and its price, in steps."""

    def column(view: NodeView, request: Request, _need: CardNeeds) -> Sequence[float]:
        losses = np.array(packed)
        least = losses.min()
        over = steps_of(losses - (least if np.isfinite(least) else 0))
        both: list[float] = (over.astype(np.int64) + price.steps(view.state, request)).tolist()
        return both

    return column


def _coarse(view: NodeView, request: Request, _need: CardNeeds) -> Sequence[float]:
    numbers: list[float] = price.coarse_steps(view.state, request).tolist()
    return numbers


def _key(numbers: Sequence[float]) -> Key:
    return lambda _v, _r, _n: numbers
