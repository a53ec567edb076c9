"""The annotations that the scheduler writes and the node agent reads, both ways."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tessera_core.dialect_kit import Placed
from tessera_core.dialects.gpumanager.amounts import given
from tessera_core.dialects.gpumanager.names import PrefixNames

NOT_YET: Final = "false"
DONE: Final = "true"
_INDEX: Final = re.compile(r"[+-]?[0-9]{1,9}")


def annotate(placed: Placed, all_names: Sequence[PrefixNames]) -> dict[str, str]:
    """What gpu-admission writes; its node agent works these keys off.

    An init container has no number in `spec.containers`, so that no key names its cards.
    """
    asking = given(placed.pod, all_names)
    if not asking or not placed.shares:
        return {}
    names = asking[0].names
    inits = len(placed.pod.spec.init_containers)
    cards: dict[int, list[str]] = {}
    for share in placed.shares:
        cards.setdefault(share.position - inits, []).append(str(share.index))
    return {
        names.time: str(placed.now_ns),
        names.node: placed.node,
        names.assigned: NOT_YET,
        **{f"{names.index}{i}": ",".join(found) for i, found in cards.items() if i >= 0},
    }


def indices(text: str) -> tuple[int, ...] | None:
    """Card numbers of one container, each once; None if a part is no number."""
    parts = text.split(",")
    if not all(_INDEX.fullmatch(part) for part in parts):
        return None
    return tuple(dict.fromkeys(int(part) for part in parts))
