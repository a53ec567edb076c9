"""How good each card of a node is for a request, key by key.

`usage_score` is HAMi's: ten times the weighted parts of slots, cores and memory that would be in
use with the request. Koordinator's score is in `tessera_core.scoring.koordinator`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tessera_core.cards import NodeView, at
from tessera_core.ladder import Amounts
from tessera_core.scoring.koordinator import card_score
from tessera_core.scoring.pressure import felt
from tessera_schema.requests import CardKey, Heed, Request, Weights


def usage_score(
    used: tuple[float, float, float], total: tuple[float, float, float], weights: Weights
) -> float:
    """Slots, cores, memory in use (request included) of the totals; 0 where a total is 0."""
    slots, cores, memory = total
    if not (slots and cores and memory):
        return 0.0
    return 10 * (
        weights.slot * used[0] / slots
        + weights.core * used[1] / cores
        + weights.memory * used[2] / memory
    )


def _usage(view: NodeView, i: int, request: Request, need: Amounts) -> float:
    s = view.state
    return usage_score(
        (
            s.sharers.item(i) + need.slots,
            s.cores_used.item(i) + at(need.cores, i),
            s.memory_used.item(i) + at(need.memory, i),
        ),
        (s.slots.item(i), s.cores_total.item(i), s.memory_total.item(i)),
        request.policy.weights,
    )


Key = Callable[[NodeView, int, Request, Amounts], float | tuple[float, float]]

KEYS: Final[Mapping[CardKey, Key]] = {
    CardKey.BINPACK: lambda v, i, r, n: -_usage(v, i, r, n),
    CardKey.SPREAD: _usage,
    CardKey.NUMA_LOW: lambda v, i, _r, _n: v.state.numa[i],
    CardKey.NUMA_HIGH: lambda v, i, _r, _n: -v.state.numa[i],
    CardKey.TIGHTEST: lambda v, i, _r, _n: (
        v.state.cores_total[i] - v.state.cores_used[i],
        v.state.memory_total[i] - v.state.memory_used[i],
    ),
    CardKey.MOST_USED_MEMORY: lambda v, i, _r, _n: -v.state.memory_used[i],
    CardKey.FEWEST_SHARERS: lambda v, i, _r, _n: v.state.sharers[i],
    CardKey.LEAST_ALLOCATED: lambda v, i, r, n: -card_score(v, i, r, n, most=False),
    CardKey.MOST_ALLOCATED: lambda v, i, r, n: -card_score(v, i, r, n, most=True),
    CardKey.PACK: lambda v, i, r, n: -_usage(v, i, r, n),
}
"""Key -> number of a card; the least is the best."""


def in_order(
    view: NodeView, cards: list[int], request: Request, need: Amounts,
    packed: Sequence[float] = (),
) -> list[int]:  # fmt: skip
    """The cards, best first by the request's keys, then by index. `packed` is what each card of
    the view loses by the request (`tessera_core.packing`), where that is known."""
    policy = request.policy
    sign = -1 if policy.highest_index_first else 1
    keys = [_told(packed) if k is CardKey.PACK and packed else KEYS[k] for k in policy.cards]
    match policy.heed:
        case Heed.FIRST:
            keys.insert(0, _pressure)
        case Heed.TIES:
            keys.append(_pressure)
        case Heed.NOTHING:
            pass
    return sorted(
        cards,
        key=lambda i: (*(k(view, i, request, need) for k in keys), sign * view.facts[i].index),
    )


def _pressure(view: NodeView, card: int, request: Request, _need: Amounts) -> float:
    return float(felt(view.state, request)[card])


def _told(numbers: Sequence[float]) -> Key:
    return lambda _v, i, _r, _n: numbers[i]
