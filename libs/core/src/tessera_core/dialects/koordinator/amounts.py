"""What one container writes, read by kind: deprecated names count as today's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from tessera_core.dialect_kit.amounts import (
    INT32_MAX,
    INT64_MAX,
    LIMITS_THEN_REQUESTS,
    amount,
    find,
    invalid,
)
from tessera_core.dialects.koordinator.names import DEPRECATED, FOREIGN, Kind
from tessera_core.kube.quantity import BadQuantity, value
from tessera_schema.kube import Pod, Quantity

MEMORY_MAX: Final = 1 << 50
"""Bytes, and bandwidths, that nodes and annotations of others may say: a PiB keeps sums over a
node's cards far from 64 bits. A pod may ask less of a card: see
`tessera_core.dialect_kit.memory_units`."""
UNITS: Final[Mapping[Kind, str]] = {
    Kind.WHOLE: "The unit is whole cards.",
    Kind.GPU: "The unit is percent of a card, 100 = one card.",
    Kind.SHARED: "The unit is cards.",
    Kind.CORE: "The unit is percent of a card's cores.",
    Kind.MEMORY: "The unit is bytes, such as 8Gi.",
    Kind.RATIO: "The unit is percent of a card's memory.",
}


class Written(Struct, frozen=True):
    """One amount as the container writes it."""

    amount: int
    name: str
    field: str
    text: str


Ask = Mapping[Kind, Written]
"""What a container writes. An amount of 0 is as if not written."""


def read(pod: Pod, position: int, names: Mapping[Kind, str]) -> Ask:
    """The container's ask.

    Raises InvalidField for what is no whole amount, for limits that differ from requests, for an
    amount under both its deprecated and its present name, and for another vendor's cards.
    """
    ask: dict[Kind, Written] = {}
    for kind, name in names.items():
        spellings = dict.fromkeys((name, DEPRECATED.get(kind, name)))
        found = [w for s in spellings if (w := _written(pod, position, kind, s)) is not None]
        if len(found) > 1:
            raise invalid(found[1].field, found[1].text, f"{name} says the same; keep only that.")
        if found:
            ask[kind] = found[0]
    if ask:
        _refuse_foreign(pod, position)
    return ask


def _written(pod: Pod, position: int, kind: Kind, name: str) -> Written | None:
    high = INT64_MAX if kind is Kind.MEMORY else INT32_MAX  # bytes are judged card by card
    found = []
    for where in LIMITS_THEN_REQUESTS:
        place = find(pod, position, name, (where,))
        number = amount(pod, position, name, where=(where,), high=high, hint=UNITS[kind])
        if place is not None and number is not None:
            found.append(Written(number, name, place[0], str(place[1])))
    if len({w.amount for w in found}) > 1:
        limit, request = found
        remedy = f"requests must equal limits, which say {limit.text}."
        raise invalid(request.field, request.text, remedy)
    return found[0] if found and found[0].amount else None


def _refuse_foreign(pod: Pod, position: int) -> None:
    for name in sorted(FOREIGN):
        found = find(pod, position, name)
        if found is not None and _is_some(found[1]):
            remedy = "only NVIDIA cards are shared under Koordinator's names; take one of them out."
            raise invalid(*found, remedy)


def _is_some(quantity: Quantity) -> bool:
    try:
        return value(quantity) != 0
    except BadQuantity:
        return True
