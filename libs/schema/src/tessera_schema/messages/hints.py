"""Hints: what usage says about cards, and how far agents may lend on them.

A hint changes which of several places is taken and how far idle cores are lent. It never gives a
card and never takes one. One message has all of a node, and the last value is kept.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from tessera_schema.json_codec import decoder


class CardHint(Struct, frozen=True, kw_only=True):
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


class LendingBound(Struct, frozen=True, kw_only=True):
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


_encode = msgspec.json.Encoder().encode
_decode = decoder(NodeHints)


def encode_hints(hints: NodeHints) -> bytes:
    """The message's data."""
    return _encode(hints)


def decode_hints(data: bytes) -> NodeHints:
    """Raises msgspec.DecodeError."""
    return _decode(data)
