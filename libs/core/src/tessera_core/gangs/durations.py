"""Durations as Go writes them: `90s`, `1h30m`, `1.5h`."""

from __future__ import annotations

import re
from typing import Final

_PART: Final = re.compile(r"(?P<number>\d+(?:\.\d*)?|\.\d+)(?P<unit>ns|us|µs|ms|s|m|h)", re.ASCII)
_SECONDS: Final = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0,
}  # fmt: skip
_LONGEST: Final = 64


def seconds_of(text: str) -> float | None:
    """Seconds of a Go duration; None for what is none, or is negative."""
    if not text or len(text) > _LONGEST:
        return None
    total, end = 0.0, 0
    while end < len(text):
        part = _PART.match(text, end)
        if part is None:
            return 0.0 if text == "0" else None
        total += float(part["number"]) * _SECONDS[part["unit"]]
        end = part.end()
    return total
