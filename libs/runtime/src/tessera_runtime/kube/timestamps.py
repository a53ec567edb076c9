"""Times as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

_MOST: Final = 4096
"""Texts whose seconds are remembered: pods that come together show the same ones."""


def format_time(seconds: float) -> str:
    """Unix seconds as RFC 3339."""
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    return text.replace("+00:00", "Z")


def parse_time(text: str | None) -> float | None:
    """Unix seconds; None for what is no time."""
    return _parsed(text) if text else None


@lru_cache(_MOST)
def _parsed(text: str) -> float | None:
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return found.timestamp() if found.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
