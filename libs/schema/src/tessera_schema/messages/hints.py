"""Hints: what usage says about cards, and how far agents may lend on them.

A hint changes which of several places is taken and how far idle cores are lent. It never gives a
card and never takes one. One message has all of a node, and the last value is kept.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from tessera_schema.json_codec import decoder

PRICED_PERCENTS: Final = (12, 25, 50, 75, 100)
"""What the pods want that `CardHint.prices` are for, percent of a card."""
Price = Annotated[int, Meta(ge=0, le=100)]


class MemoryNeed(Struct, frozen=True, kw_only=True, gc=False):
    """A pod that was granted or lent memory, and what it counts with where that is less."""

    uid: str
    """Of the pod."""
    memory_bytes: Annotated[int, Meta(ge=0)]
    """The most that its containers used, and a margin."""


class CardHint(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One card, smoothed over minutes."""

    card: str
    busy_percent: float = 0
    """GPU time of everybody on it, percent of the card."""
    contended_percent: float = 0
    """How much of the time a container waited for GPU time that it was granted or could have used,
    0 to 100."""
    idle_cores_percent: float = 0
    """Cores granted and not used, percent of the card."""
    idle_memory_bytes: int = 0
    """Memory granted and not used."""
    trend_percent: float = 0
    """How `busy_percent` changes, per hour."""
    confidence: float = 0
    """0 = hardly measured yet, 1 = measured for long enough."""
    expected_percent: float = 0
    """GPU time that those who hold parts of the card are expected to want together, percent of the
    card; it may be more than 100."""
    prices: Annotated[tuple[Price, ...], Meta(max_length=len(PRICED_PERCENTS))] = ()
    """What a pod more would cost them: GPU time that they are then expected to want and not to get,
    in hundredths of a card, one for each of `PRICED_PERCENTS`. Empty = not said, as by releases
    before this field."""
    holders: int = 0
    """Shares of the card that are counted in these."""
    needs: tuple[MemoryNeed, ...] | None = None
    """Of the pods that leave memory. None = none of the card may be lent: its agent takes none
    back, an owner was short of it in the last hour, or nobody says, as in releases before this
    field."""


class ClassWant(Struct, frozen=True, kw_only=True, gc=False):
    """What a pod of a namespace that asks for so many cores is expected to want of each card."""

    namespace: str
    cores_percent: float = 0
    """0 = it asks for none in particular."""
    wanted_percent: Annotated[float, Meta(ge=0, le=100)]


class LendingBound(Struct, frozen=True, kw_only=True, gc=False):
    """How far lending may take one container on one card. Without one the agent's setting holds."""

    uid: str
    container: str
    card: str
    most_cores_percent: float
    """Of the card, its own cores included; at or below its own: it gets nothing lent."""


class NodeHints(Struct, frozen=True, kw_only=True):
    """All cards of a node of which something is known."""

    node: str
    at: float
    """Unix time in seconds of the newest usage in it."""
    cards: tuple[CardHint, ...] = ()
    bounds: tuple[LendingBound, ...] = ()
    wants: tuple[ClassWant, ...] = ()
    """Of the pods that hold its cards, for pods like them that come; each class once."""


_encode = msgspec.json.Encoder().encode
_decode = decoder(NodeHints)


def encode_hints(hints: NodeHints) -> bytes:
    """The message's data."""
    return _encode(hints)


def decode_hints(data: bytes) -> NodeHints:
    """Raises msgspec.DecodeError."""
    return _decode(data)
