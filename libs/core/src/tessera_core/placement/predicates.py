"""The tests that a card must pass for a request, in the order in which they name the reason.

The order is HAMi's, so that a card refused here for one reason is refused there for the same.
Everything works on columns of any shape: one node's cards, or the whole fleet's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from tessera_core.fleet.arrays import Bools, Codes, Ints
from tessera_core.fleet.closed_cards import MODES_LEFT_ALONE
from tessera_core.fleet.columns import CardColumns
from tessera_core.fleet.cores import WHOLE_CARD, milli
from tessera_core.fleet.lent_memory import memory_taken, slots_taken
from tessera_core.fleet.memory_sizes import sizes_on
from tessera_core.fleet.name_table import NameTable
from tessera_core.fleet.needs import CardNeeds
from tessera_core.fleet.overcommit import price
from tessera_schema.reasons import Reason
from tessera_schema.requests import Request

_BLOCKED = tuple(
    (reason, int(reason))  # numpy takes ten times as long to compare with a member of an enum
    for reason in (
        Reason.AGENT_SILENT,
        Reason.CARD_NOT_HEALTH,
        Reason.CARD_HIDDEN,
        Reason.CARD_CORDONED,
        Reason.MODE_NOT_FIT,
    )
)
_RESERVED: Final = int(Reason.CARD_RESERVED)

_LARGEST_DIVIDED: Final = 1 << 46
"""Bytes of a card of which a fraction of a percent is taken: times `WHOLE_CARD` they fit into 64
bits."""


def amounts(request: Request, cards: CardColumns, models: NameTable) -> CardNeeds:
    """The request on each card: percentages become bytes of that card, and bytes a size that its
    model has. `models` are the names behind `cards.model`."""
    memory: Ints | int = request.memory_bytes
    unfit: Bools | bool = False
    unit = request.memory_unit
    if request.equal_parts is not None:
        parts = request.equal_parts or np.maximum(cards.slots, 1)
        memory = cards.memory_total // parts // unit * unit
        cores = 0 if request.best_effort else cards.cores_total // parts
        return CardNeeds(memory, cores, request.exclusive, best_effort=request.best_effort)
    if memory and request.memory_sizes:
        memory, unfit = sizes_on(request, cards, models)
    elif not memory and request.memory_percent:
        whole = cards.memory_physical if request.guaranteed else cards.memory_total
        memory = _percent_of(whole, request.memory_percent) // unit * unit
    alone: Bools | bool = request.exclusive
    if request.owns_whole_cores and not alone and request.cores_percent >= 100:
        alone = cards.cores_total == WHOLE_CARD
    granted = None
    if request.guaranteed:
        memory, granted = price(memory, cards.memory_total, cards.memory_physical), memory
    return CardNeeds(
        memory, milli(request.cores_percent), alone, unfit=unfit, granted=granted,
        best_effort=request.best_effort,
    )  # fmt: skip


def _percent_of(total: Ints, percent: float) -> Ints:
    """Rounded down to a byte, without rests of floats: 12.5 % of 16 GiB are 2 GiB."""
    if percent == int(percent):
        return total * int(percent) // 100
    part = Fraction(milli(percent), WHOLE_CARD)
    return np.minimum(total, _LARGEST_DIVIDED) * part.numerator // part.denominator


def predicates(
    request: Request,
    need: CardNeeds,
    cards: CardColumns,
    *,
    models: NameTable,
    modes: NameTable,
    ids: Bools | None = None,
) -> list[tuple[Reason, Bools]]:
    """Each reason with the cards that it refuses. `ids` are the cards that the request's lists
    of ids allow; None = all. Quota, which stands before memory, is asked per node in
    `tessera_core.placement.node_fit`."""
    refused: list[tuple[Reason, Bools]] = [
        (reason, cards.blocked == number) for reason, number in _BLOCKED
    ]
    if request.models or request.models_denied:
        fits = _by_name(models, lambda name: _model_fits(name, request))
        refused.append((Reason.CARD_TYPE_MISMATCH, ~fits[cards.model]))
    if need.unfit is not False:
        unfit = np.broadcast_to(need.unfit, cards.model.shape)
        refused.append((Reason.CARD_TYPE_MISMATCH, unfit))
    if request.modes:
        never = wants_left_alone_mode(request)
        fits = _by_name(modes, lambda name: name in request.modes or not (name or never))
        reason = Reason.MODE_NOT_FIT if never else Reason.CARD_TYPE_MISMATCH
        refused.append((reason, ~fits[cards.mode]))
    if ids is not None:
        refused.append((Reason.CARD_UUID_MISMATCH, ~ids))
    slots = slots_taken(cards, best_effort=request.best_effort)
    memory = memory_taken(cards, best_effort=request.best_effort)
    busy = slots > 0
    refused.append((Reason.CARD_TIME_SLICING_EXHAUSTED, cards.slots < slots + need.slots))
    if request.policy.idle_cards_only:
        refused.append((Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT, busy))
    by_part = request.equal_parts is not None or request.memory_percent
    if by_part and not request.memory_bytes:
        # a part of an unknown size would be a share without a limit
        unknown = (cards.memory_total == 0) & np.logical_not(need.alone)
        refused.append((Reason.CARD_INSUFFICIENT_MEMORY, unknown))
    refused += [
        (Reason.CARD_INSUFFICIENT_MEMORY, cards.memory_total - memory < need.memory),
        (Reason.CARD_INSUFFICIENT_CORE, cards.cores_total - cards.cores_used < need.cores),
        (Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT, busy & need.alone),
    ]
    if request.needs_free_cores:
        spent = (cards.cores_used >= cards.cores_total) & (cards.cores_total > 0) & busy
        none_asked = np.asarray(need.cores) == 0
        refused.append((Reason.CARD_COMPUTE_UNITS_EXHAUSTED, spent & none_asked))
    refused.append((Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT, cards.exclusive > 0))
    refused.append((Reason.CARD_RESERVED, cards.blocked == _RESERVED))
    return refused


def passed(refused: Sequence[tuple[Reason, Bools]], among: Bools) -> Bools:
    """Those of the cards that no test refuses."""
    barred = ~among
    for _, by in refused:
        barred |= by
    return ~barred


def first_reasons(refused: Sequence[tuple[Reason, Bools]], shape: tuple[int, ...]) -> Codes:
    """For each card the first reason that refuses it, 0 where none does."""
    codes = np.zeros(shape, np.uint8, "F")
    for reason, by in reversed(refused):
        codes[by] = int(reason)
    return codes


def ids_allowed(request: Request, ids: Sequence[str]) -> Bools | None:
    """The cards that the request's lists allow, None without lists. Denial wins."""
    if not request.ids and not request.ids_denied:
        return None
    return np.array(
        [(not request.ids or i in request.ids) and i not in request.ids_denied for i in ids],
        np.bool_,
    )


def wants_left_alone_mode(request: Request) -> bool:
    """Whether the request allows only cards in a mode in which cards are left alone. Users spell it
    in any case, and name what they want of it: `mig-1g.10gb`."""
    return bool(request.modes) and all(
        any(mode in asked.lower() for mode in MODES_LEFT_ALONE) for asked in request.modes
    )


def _by_name(names: NameTable, fits: Callable[[str], bool]) -> Bools:
    return np.array([fits(name) for name in names.of], np.bool_)


def _model_fits(model: str, request: Request) -> bool:
    name = model.lower()
    if any(part.lower() in name for part in request.models_denied):
        return False
    return not request.models or any(part.lower() in name for part in request.models)
