"""The node's register and link scores in JSON, as HAMi's newest plugins write them."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from tessera_core.dialect_kit import decoder
from tessera_core.dialect_kit.hami_format import RegisteredCard, read_csv

_pieces: Final = decoder(list[msgspec.Raw])
_entry: Final = decoder(RegisteredCard)


class Scores(Struct, frozen=True):
    """One card's links."""

    uuid: str = ""
    score: dict[str, int] | None = None
    """Go's nil for a card that is alone."""


_scores: Final = decoder(list[Scores])


def read_register(text: str) -> tuple[list[RegisteredCard], list[str]]:
    """The entries that can be read, and what is wrong with the others. Never raises.

    Plugins up to 2.7 wrote CSV; both are read.
    """
    if not text.lstrip().startswith("["):
        return read_csv(text)
    try:
        pieces = _pieces(text)
    except msgspec.DecodeError as e:
        return [], [f"no list of cards: {e}"]
    entries: list[RegisteredCard] = []
    problems: list[str] = []
    for position, piece in enumerate(pieces):
        try:
            entries.append(_entry(bytes(piece)))
        except msgspec.DecodeError as e:
            problems.append(f"entry {position}: {e}")
    return entries, problems


def read_scores(text: str) -> dict[str, dict[str, int]]:
    """Card id -> other card's id -> closeness. Raises ValueError for malformed text."""
    try:
        scores = _scores(text)
    except msgspec.DecodeError as e:
        raise ValueError(f"no list of scores: {e}") from e
    return {
        s.uuid: {other: min(max(v, -_MOST), _MOST) for other, v in (s.score or {}).items()}
        for s in scores
    }


_MOST: Final = 1 << 31
"""Sums of scores stay far from 64 bits."""
