"""Amounts as people write them, for one machine."""

from __future__ import annotations

import re
from typing import Final

from tessera_cli.errors import UsageError
from tessera_core.kube.quantity import BadQuantity, quantity_value

_DURATION: Final = re.compile(r"(\d{1,9})(s|m|h)?")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}


def memory_bytes(text: str | None, *, alone: bool) -> int:
    """Bytes of memory; 0 = whole cards, which is so only where nothing else (`alone`) is said.
    Raises UsageError."""
    if text is None:
        if alone:
            return 0
        raise UsageError("run", "--memory", "it is missing: write an amount such as 8Gi")
    try:
        found = quantity_value(text)
    except BadQuantity as e:
        raise UsageError("run", "--memory", f"{e}: write an amount such as 8Gi") from e
    if found <= 0:
        raise UsageError("run", "--memory", f"{text}: write an amount such as 8Gi")
    return found


def cores_percent(text: str | None, *, best_effort: bool) -> float:
    """Percent of each card's time. Raises UsageError."""
    if text is None:
        return 0
    if best_effort:
        raise UsageError("run", "--cores", f"{text}: take it out: best-effort promises none")
    try:
        found = float(text.removesuffix("%"))
    except ValueError:
        found = -1
    if not 0 < found <= 100:
        raise UsageError("run", "--cores", f"{text!r}: write a percentage from 1 to 100")
    return found


def wait_s(text: str) -> float:
    """Seconds of a duration. Raises UsageError."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise UsageError("run", "--wait", f"{text!r}: write a duration such as --wait=10m")
    return float(int(match[1]) * _SECONDS[match[2] or "s"])
