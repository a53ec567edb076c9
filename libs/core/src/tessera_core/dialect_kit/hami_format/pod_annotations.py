"""The annotations that HAMi puts around a binding, and the small values that users write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tessera_core.dialect_kit.amounts import find_amount, invalid_field
from tessera_core.dialect_kit.contract import Placed
from tessera_schema.kube import Pod

NODE: Final = "hami.io/vgpu-node"
"""Name of the node that was chosen. An annotation, and a label."""
TIME: Final = "hami.io/vgpu-time"
"""When it was chosen, Unix seconds."""
BIND_PHASE: Final = "hami.io/bind-phase"
"""`allocating` from the binding on; a vendor's plugin makes it `success` or `failed`. Where an
Tessera's agent gives the cards there is no such plugin, and the binding says `success`: who waits
for it (HAMi's tools, and its plugin where it comes back) must not wait for ever."""
BIND_TIME: Final = "hami.io/bind-time"
"""When the binding was sent, Unix seconds."""
RESULT_KEYS: Final = (NODE, TIME, BIND_PHASE, BIND_TIME)

_TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")
_FALSE: Final = ("0", "f", "F", "FALSE", "false", "False")


def binding_notes(placed: Placed) -> dict[str, str]:
    """The keys that every vendor's pods carry once they are bound."""
    seconds = str(placed.now_ns // 1_000_000_000)
    phase = "success" if placed.agent_managed else "allocating"
    return {NODE: placed.node, TIME: seconds, BIND_PHASE: phase, BIND_TIME: seconds}


def binding_labels(_pod: Pod, node: str) -> dict[str, str]:
    """The label that every vendor's pods have once they are bound: its monitor, and people, select
    the pods of a node by it."""
    return {NODE: node}


def annotation_field(key: str) -> str:
    """An annotation as messages print it."""
    return f"metadata.annotations[{key}]"


def field_in(pod: Pod, position: int, name: str) -> str:
    """A resource's field as messages print it, in limits or requests as the manifest has it."""
    found = find_amount(pod, position, name)
    return found[0] if found else name


def words_of(notes: Mapping[str, str], key: str) -> tuple[str, ...]:
    """The words of a comma list, trimmed, each once; absent, blank and empty ones are none."""
    words = (word.strip() for word in notes.get(key, "").split(","))
    return tuple(dict.fromkeys(word for word in words if word))


ids_of = words_of
"""The card ids of an allow or deny list; none = no constraint. They match exactly."""


def bool_word(text: str) -> bool | None:
    """A boolean in the spellings that Go accepts (`1`, `t`, `true`, ...); None for others."""
    return True if text in _TRUE else False if text in _FALSE else None


def boolean_of(notes: Mapping[str, str], key: str) -> bool:
    """A yes or no; absent and blank are no. Raises InvalidField for other words."""
    text = notes.get(key, "").strip()
    if not text:
        return False
    known = bool_word(text)
    if known is None:
        raise invalid_field(annotation_field(key), notes[key], "write true or false")
    return known
