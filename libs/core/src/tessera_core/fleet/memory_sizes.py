"""Which size a share has on cards that are cut by templates, model by model.

The request names the sizes of each model (`Request.memory_sizes`); everything that works out what a
card must have goes by the functions here, so that fit, grants, quotas and explanations agree.
"""

from __future__ import annotations

import numpy as np

from tessera_core.fleet.arrays import Bools, Ints
from tessera_core.fleet.columns import CardColumns
from tessera_core.fleet.name_table import NameTable
from tessera_schema.requests import Request


def sizes_of(request: Request, model: str) -> tuple[int, ...] | None:
    """The sizes in bytes that a share of the model's cards may have; None = any."""
    name = model.lower()
    found = [one for one in request.memory_sizes if one.model.lower() in name]
    return max(found, key=lambda one: len(one.model)).memory_bytes if found else None


def size_on(request: Request, model: str) -> int | None:
    """What a share of `memory_bytes` has on a card of the model; None = no size is large enough."""
    sizes = sizes_of(request, model)
    if sizes is None:
        return request.memory_bytes
    return min((size for size in sizes if size >= request.memory_bytes), default=None)


def sizes_on(request: Request, cards: CardColumns, models: NameTable) -> tuple[Ints, Bools]:
    """The same for each card, in the shape of `cards`: bytes, and whether no size is large enough;
    such a card's bytes are those that were asked."""
    each = [size_on(request, name) for name in models.of]
    sizes = np.array([request.memory_bytes if size is None else size for size in each], np.int64)
    unfit = np.array([size is None for size in each], np.bool_)
    return sizes[cards.model], unfit[cards.model]


def least_memory(request: Request) -> int:
    """The bytes that a share has at least, on whatever card: more than was asked only where every
    allowed model has sizes. Of `equal_parts` none are known before a card is."""
    if request.equal_parts is not None:
        return 0
    named = {one.model.lower() for one in request.memory_sizes}
    if not request.models or not named.issuperset(model.lower() for model in request.models):
        return request.memory_bytes
    # a card of an allowed model may go by another, longer entry: so all of them count
    sizes = [size for one in request.memory_sizes for size in one.memory_bytes]
    enough = (size for size in sizes if size >= request.memory_bytes)
    return min(enough, default=request.memory_bytes)
