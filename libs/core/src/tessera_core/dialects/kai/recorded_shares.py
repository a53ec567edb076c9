"""What is written on a pod that was placed, and what a bound pod holds.

KAI itself writes the card on its reservation pod alone. Plans read both together
(`kai.reservations`); the scheduler sees one pod at a time: there a reservation pod holds all of
its card, and a pod with a fraction is counted by what it requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tessera_core.dialect_kit import MIB, Card, InvalidField, Placed, Pod, RecordedShares, Share
from tessera_core.dialects.kai.amounts import KaiContainerRequest, container_requests
from tessera_core.dialects.kai.names import (
    DIALECT,
    GROUP,
    RECEIVED,
    RESERVED,
    VENDOR,
    WHOLE,
    KaiOptions,
)
from tessera_core.dialects.kai.reservations import PLACE, groups_of, is_reservation

_FRACTION: Final = "Fraction"
_REGULAR: Final = "Regular"
_DIGITS: Final = 9


def annotate(placed: Placed) -> dict[str, str]:
    """The kind of what it got, and its cards, each once."""
    if not placed.shares:
        return {}
    whole = all(share.exclusive for share in placed.shares)
    return {
        RECEIVED: _REGULAR if whole else _FRACTION,
        RESERVED: ",".join(share.card for share in placed.shares),
    }


def recorded_shares(options: KaiOptions, pod: Pod, cards: Sequence[Card]) -> RecordedShares | None:
    """The pod's shares; None where nobody wrote a card on it."""
    text = pod.metadata.annotations.get(RESERVED)
    if text is None:
        if groups_of(pod) and not is_reservation(options, pod):
            return RecordedShares(
                problem=f"metadata.labels[{GROUP}]: {', '.join(groups_of(pod))[:80]}: its card is "
                "known from a reservation pod, which is not on the node"
            )
        return None
    listed = []
    for name in text.split(","):
        card = _card(name, cards)
        if card is None:
            return _problem(text, f"the node has no card {name[:40]}")
        listed.append(card)
    try:
        found = container_requests(pod, options)
    except InvalidField as e:
        return RecordedShares(problem=e.rejected.message)
    if sum(a.count for a in found) != len(listed):
        return _problem(text, f"names {len(listed)} cards, the pod requests "
                        f"{sum(a.count for a in found)}")  # fmt: skip
    shares, rest = [], iter(listed)
    for a in found:
        shares += [_share(a, next(rest)) for _ in range(a.count)]
    return RecordedShares(shares=tuple(shares)) if shares else None


def _problem(text: str, what: str) -> RecordedShares:
    return RecordedShares(problem=f"metadata.annotations[{RESERVED}]: {text[:80]!r}: {what}")


def _card(name: str, cards: Sequence[Card]) -> Card | None:
    """By its id; by its number, which early releases wrote; else, of a UUID that the node does not
    publish, by the place that the plan gave it."""
    name, _, place = name.partition(PLACE)
    by_id = next((card for card in cards if card.id == name), None)
    if by_id is not None:
        return by_id
    number = name if name.isdecimal() else place
    if not number.isdecimal() or len(number) > _DIGITS:
        return None
    return next((card for card in cards if card.index == int(number)), None)


def _share(a: KaiContainerRequest, card: Card) -> Share:
    percent = round(a.fraction * WHOLE * 1000)
    part = card.memory_bytes * percent // (WHOLE * 1000) // MIB * MIB
    return Share(
        container=a.container.name, position=a.position, role=a.role, vendor=VENDOR,
        dialect=DIALECT, card=card.id, index=card.index,
        memory_bytes=card.memory_bytes if a.whole else a.mib * MIB or part,
        cores_percent=WHOLE if a.whole else 0, exclusive=a.whole,
    )  # fmt: skip
