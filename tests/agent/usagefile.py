"""Usage files as a hook writes them, and as nobody should."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from tessera_core.hookfiles import usage
from tessera_core.hookfiles.layout import HEAD, LAYOUT

NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


def a_usage(
    *cards: dict[str, Any],
    slots: tuple[dict[str, Any], ...] = (),
    head: Mapping[str, int] = NOTHING,
) -> bytearray:
    """A whole file; each card, slot and head is its fields."""
    data = bytearray(usage.SIZE)
    told = {"layout": LAYOUT, "size": usage.SIZE, "magic": usage.MAGIC, "sequence": 1}
    HEAD.write(data, 0, told | dict(head))
    for number, card in enumerate(cards):
        usage.CARD.write(data, usage.CARD_AT + number * usage.CARD.size, {"used": 1} | card)
    for number, slot in enumerate(slots):
        usage.SLOT.write(data, usage.SLOT_AT + number * usage.SLOT.size, {"state": 1} | slot)
    return data


def memory(**kinds: int) -> bytes:
    """The `bytes` of a slot."""
    return b"".join(kinds.get(kind, 0).to_bytes(8, "little") for kind in usage.KINDS)
