"""The annotations that the scheduler writes and the node agent reads, both ways."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tessera_core.dialect_kit import Placed, Pod
from tessera_core.dialects.gpumanager.amounts import given, read
from tessera_core.dialects.gpumanager.names import PrefixNames

NOT_YET: Final = "false"
DONE: Final = "true"
_INDEX: Final = re.compile(r"[+-]?[0-9]{1,9}")
_TIME: Final = re.compile(r"[0-9]{1,20}")
_UINT64_MAX: Final = (1 << 64) - 1


def annotate(placed: Placed, all_names: Sequence[PrefixNames]) -> dict[str, str]:
    """What gpu-admission writes; its node agent works these keys off.

    An init container has no number in `spec.containers`, so that no key tells its cards.
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


def assigned(pod: Pod, names: PrefixNames) -> bool:
    """True once the node agent has given the cards: any value but "false"."""
    return pod.metadata.annotations.get(names.assigned, NOT_YET) != NOT_YET


def predicated(pod: Pod, names: PrefixNames) -> bool:
    """True where the node agent expects a scheduler's choice of cards on the pod.

    It does not for a pod whose containers name no memory: it then chooses cards by itself.
    """
    asking = read(pod, names)
    notes = pod.metadata.annotations
    return (
        any(ask.core for ask in asking)
        and any(ask.blocks for ask in asking)
        and names.time in notes
        and notes.get(names.assigned, DONE) != DONE
    )


def predicate_time_ns(pod: Pod, names: PrefixNames, created_ns: int) -> int:
    """When the pod's node was chosen: its place in the node agent's queue.

    A pod without the key counts from its creation, one whose key cannot be read comes first.
    """
    text = pod.metadata.annotations.get(names.time)
    if text is None:
        return created_ns
    number = int(text) if _TIME.fullmatch(text) else 0
    return number if number <= _UINT64_MAX else 0
