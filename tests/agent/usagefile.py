"""Usage files as a hook writes them, and as nobody should."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from tessera_core.hook import usage_file
from tessera_core.hook.records import HEAD, LAYOUT

NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


def a_usage(
    *cards: dict[str, Any],
    slots: tuple[dict[str, Any], ...] = (),
    head: Mapping[str, int] = NOTHING,
) -> bytearray:
    """A whole file; each card, slot and head is its fields."""
    data = bytearray(usage_file.SIZE)
    header = {"layout": LAYOUT, "size": usage_file.SIZE, "magic": usage_file.MAGIC, "sequence": 1}
    HEAD.write(data, 0, header | dict(head))
    for number, card in enumerate(cards):
        usage_file.CARD.write(
            data, usage_file.CARD_AT + number * usage_file.CARD.size, {"used": 1} | card
        )
    for number, slot in enumerate(slots):
        usage_file.SLOT.write(
            data, usage_file.SLOT_AT + number * usage_file.SLOT.size, {"state": 1} | slot
        )
    return data


def memory(**kinds: int) -> bytes:
    """The `bytes` of a slot."""
    return b"".join(kinds.get(kind, 0).to_bytes(8, "little") for kind in usage_file.KINDS)
