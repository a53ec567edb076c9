"""What is written on a pod that was given Mthreads' cards, and read back from bound ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tessera_core.dialect_kit import Card, Placed, Pod, RecordedShares, roles
from tessera_core.dialect_kit.hami_format import (
    RESULT_KEYS,
    binding_notes,
    list_text,
    shares_in_list,
)
from tessera_core.dialects.mthreads.options import CORES, NAME, WORD, MthreadsOptions

ALLOCATED: Final = "hami.io/mthreads-vgpu-devices-allocated"
GPU_INDEX: Final = "mthreads.com/gpu-index"
PREDICATE_NODE: Final = "mthreads.com/predicate-node"
PREDICATE_TIME: Final = "mthreads.com/predicate-time"
KEYS: Final = (
    *RESULT_KEYS, ALLOCATED, "hami.io/mthreads-vgpu-devices-to-allocate",
    GPU_INDEX, PREDICATE_NODE, PREDICATE_TIME,
)  # fmt: skip

_PERCENT: Final = 100 / CORES
"""Of one core unit."""


def annotate(placed: Placed) -> dict[str, str]:
    """HAMi's list, cores in sixteenths, and the keys that Mthreads' toolkit allocates from. The
    toolkit knows one list of card numbers per pod: that of the last container with cards."""
    last = max((s.position for s in placed.shares), default=-1)
    return {
        **binding_notes(placed),
        ALLOCATED: list_text(placed, WORD, percent_per_core=_PERCENT),
        GPU_INDEX: ",".join(str(s.index) for s in placed.shares if s.position == last),
        PREDICATE_NODE: placed.node,
        PREDICATE_TIME: str(placed.now_ns),
    }


def recorded(options: MthreadsOptions, pod: Pod, cards: Sequence[Card]) -> RecordedShares | None:
    """What HAMi's list says that a bound pod holds."""
    asking = {
        position
        for position, container, _ in roles(pod)
        if options.count in {*container.resources.limits, *container.resources.requests}
    }
    return shares_in_list(
        pod, cards, key=ALLOCATED, vendor=NAME, dialect=NAME, asking=asking,
        percent_per_core=_PERCENT,
    )  # fmt: skip
