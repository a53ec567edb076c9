"""What one container writes, read by kind: deprecated names count as today's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from tessera_core.dialect_kit import (
    INT32_MAX,
    INT64_MAX,
    LIMITS_THEN_REQUESTS,
    BadQuantity,
    Pod,
    Quantity,
    find_amount,
    invalid_field,
    parse_amount,
    quantity_value,
)
from tessera_core.dialects.koordinator.names import DEPRECATED, FOREIGN, ResourceKind

MEMORY_MAX: Final = 1 << 50
"""Bytes, and bandwidths, that nodes and annotations of others may say: a PiB keeps sums over a
node's cards far from 64 bits. A pod may ask less of a card: see
`tessera_core.dialect_kit.memory_units`."""
UNITS: Final[Mapping[ResourceKind, str]] = {
    ResourceKind.WHOLE: "The unit is whole cards.",
    ResourceKind.GPU: "The unit is percent of a card, 100 = one card.",
    ResourceKind.SHARED: "The unit is cards.",
    ResourceKind.CORE: "The unit is percent of a card's cores.",
    ResourceKind.MEMORY: "The unit is bytes, such as 8Gi.",
    ResourceKind.RATIO: "The unit is percent of a card's memory.",
}


class WrittenAmount(Struct, frozen=True):
    """One amount as the container writes it."""

    amount: int
    name: str
    field: str
    text: str


Ask = Mapping[ResourceKind, WrittenAmount]
"""What a container writes. An amount of 0 is as if not written."""


def read(pod: Pod, position: int, names: Mapping[ResourceKind, str]) -> Ask:
    """The container's ask.

    Raises InvalidField for what is no whole amount, for limits that differ from requests, for an
    amount under both its deprecated and its present name, and for another vendor's cards.
    """
    ask: dict[ResourceKind, WrittenAmount] = {}
    for kind, name in names.items():
        spellings = dict.fromkeys((name, DEPRECATED.get(kind, name)))
        found = [w for s in spellings if (w := _written(pod, position, kind, s)) is not None]
        if len(found) > 1:
            raise invalid_field(
                found[1].field, found[1].text, f"{name} says the same; keep only that."
            )
        if found:
            ask[kind] = found[0]
    if ask:
        _refuse_foreign(pod, position)
    return ask


def _written(pod: Pod, position: int, kind: ResourceKind, name: str) -> WrittenAmount | None:
    high = INT64_MAX if kind is ResourceKind.MEMORY else INT32_MAX  # bytes are checked card by card
    found = []
    for where in LIMITS_THEN_REQUESTS:
        place = find_amount(pod, position, name, (where,))
        number = parse_amount(pod, position, name, where=(where,), high=high, hint=UNITS[kind])
        if place is not None and number is not None:
            found.append(WrittenAmount(number, name, place[0], str(place[1])))
    if len({w.amount for w in found}) > 1:
        limit, request = found
        remedy = f"requests must equal limits, which say {limit.text}."
        raise invalid_field(request.field, request.text, remedy)
    return found[0] if found and found[0].amount else None


def _refuse_foreign(pod: Pod, position: int) -> None:
    for name in sorted(FOREIGN):
        found = find_amount(pod, position, name)
        if found is not None and _is_some(found[1]):
            remedy = "only NVIDIA cards are shared under Koordinator's names; take one of them out."
            raise invalid_field(*found, remedy)


def _is_some(quantity: Quantity) -> bool:
    try:
        return quantity_value(quantity) != 0
    except BadQuantity:
        return True
