"""What GPU Manager's node agent reads of a pod and of device nodes, by its own rules."""

from __future__ import annotations

import re
from typing import Final

from tessera_core.dialect_kit import Pod
from tessera_core.dialects.gpumanager.amounts import read
from tessera_core.dialects.gpumanager.names import PrefixNames
from tessera_core.dialects.gpumanager.result_annotations import DONE, NOT_YET

_TIME: Final = re.compile(r"[0-9]{1,20}")
_UINT64_MAX: Final = (1 << 64) - 1
_PATH: Final = re.compile(r"/dev/nvidia([0-9]{0,9})")


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


def minor_of(path: str) -> int | None:
    """The minor number of a card's device node, None for other paths.

    `/dev/nvidia` is read as the first card, as the node agent does.
    """
    match = _PATH.fullmatch(path)
    return int(match[1] or 0) if match else None
