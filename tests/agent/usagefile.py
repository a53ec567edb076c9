"""Usage files as a hook writes them, and as nobody should."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from tessera_core.hook import usage_file
from tessera_core.hook.records import HEAD, LAYOUT, RecordLayout

NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


def a_usage(
    *cards: dict[str, Any],
    slots: tuple[dict[str, Any], ...] = (),
    head: Mapping[str, int] = NOTHING,
) -> bytearray:
    """A whole file; each card, slot and head is its fields."""
    data = bytearray(usage_file.SIZE)
    header = {"layout": LAYOUT, "size": usage_file.SIZE, "magic": usage_file.MAGIC, "sequence": 1}
    _write(HEAD, data, 0, header | dict(head))
    for number, card in enumerate(cards):
        at = usage_file.CARD_AT + number * usage_file.CARD.size
        _write(usage_file.CARD, data, at, {"used": 1} | card)
    for number, slot in enumerate(slots):
        at = usage_file.SLOT_AT + number * usage_file.SLOT.size
        _write(usage_file.SLOT, data, at, {"state": 1} | slot)
    return data


def memory(**kinds: int) -> bytes:
    """The `bytes` of a slot."""
    return b"".join(kinds.get(kind, 0).to_bytes(8, "little") for kind in usage_file.KINDS)


def _write(layout: RecordLayout, into: bytearray, at: int, values: Mapping[str, Any]) -> None:
    """Fields that are not named are zero."""
    empty = {field: b"" if form.endswith("s") else 0 for field, form in layout.formats.items()}
    layout.pack(into, at, *{**empty, **values}.values())
