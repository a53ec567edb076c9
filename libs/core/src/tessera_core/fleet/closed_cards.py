"""Why no pod is placed on a card, whatever is free of it."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final

from tessera_core.fleet.arrays import Bools, Codes
from tessera_schema.cards import Card
from tessera_schema.reasons import Reason

MODES_LEFT_ALONE: Final = ("mig",)
"""Cards in these modes are not cut into shares. They are set in hardware: a card whose source names
no mode is in none of them."""
_RESERVED: Final = int(Reason.CARD_RESERVED)


def closed(card: Card, silent: Container[str], reserved: Container[str]) -> int:
    """The reason for which no pod may be placed on the card, 0 where there is none. `silent` are
    vendors, `reserved` ids of cards. A silent agent comes first: what it reported of the card is no
    longer known to hold."""
    if card.vendor in silent:
        return Reason.AGENT_SILENT
    if not card.healthy:
        return Reason.CARD_NOT_HEALTH
    if card.hidden:
        return Reason.CARD_HIDDEN
    if card.cordoned:
        return Reason.CARD_CORDONED
    if card.mode in MODES_LEFT_ALONE:
        return Reason.MODE_NOT_FIT
    return Reason.CARD_RESERVED if card.id in reserved else 0


def with_reserved(blocked: Codes, opened: Iterable[tuple[int, int]], more: Bools | None) -> Codes:
    """The column `blocked`, of whose reserved cards those in the places `opened` are open, and with
    `more` reserved cards."""
    column = blocked.copy(order="K")
    for place in opened:
        if column[place] == _RESERVED:
            column[place] = 0
    if more is not None:
        column[more & (column == 0)] = _RESERVED
    return column


def takes_nobody(code: int) -> bool:
    """Whether a card with this code in `blocked` can be used by nobody at all."""
    return code not in (0, _RESERVED)
