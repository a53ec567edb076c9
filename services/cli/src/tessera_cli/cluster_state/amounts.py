"""Amounts and ages as lists show them: GiB with one decimal, percent of a card, kubectl's ages."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from tessera_core.occupancy.rows import CardRow, RequestedPart
from tessera_schema.cards import Card

GIB: Final = 1 << 30
UNKNOWN: Final = "-"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_AGES: Final = (
    (2 * _MINUTE, 1, "s", 0, ""), (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""), (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""), (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * 365 * _DAY, _DAY, "d", 0, ""),
)  # fmt: skip
"""Below so many seconds: the larger unit, and the smaller one if it is shown (`HumanDuration` of
k8s.io/apimachinery)."""


def gib(amount: int | None) -> str:
    """Bytes as GiB; `-` where they were not measured."""
    return UNKNOWN if amount is None else f"{amount / GIB:.1f}"


def percent(amount: float | None) -> str:
    """A whole number, without the sign."""
    return UNKNOWN if amount is None else f"{amount:.0f}"


def age(created: str, now_s: float) -> str:
    """Since a time as the API server writes it; `-` for what is no time."""
    try:
        since = datetime.fromisoformat(created.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return UNKNOWN
    return duration(max(now_s - since, 0))


def duration(seconds: float) -> str:
    """As kubectl prints it: `45s`, `3m20s`, `12m`, `5h`, `2d3h`."""
    whole = int(seconds)
    for below, unit, name, small, small_name in _AGES:
        if whole < below:
            rest = whole % unit // small if small else 0
            return f"{whole // unit}{name}" + (f"{rest}{small_name}" if rest else "")
    years, rest = divmod(whole, 365 * _DAY)
    return f"{years}y" + (f"{rest // _DAY}d" if rest >= _DAY else "")


def model(card: Card) -> str:
    """The model in short: without what is the same of all of a vendor's."""
    name = card.model or card.vendor
    return name.split(maxsplit=1)[1] if " " in name and len(name) > 12 else name


def state(row: CardRow) -> str:
    """One word and more: whether pods are placed there."""
    return row.note or "ready"


def requested(part: RequestedPart) -> str:
    """What of how many cards."""
    if part.exclusive:
        what = "whole"
    elif part.memory_bytes:
        what = f"{gib(part.memory_bytes)} GiB"
    elif part.memory_percent:
        what = f"{part.memory_percent:g} % of memory"
    else:
        what = ""
    cores = f"{part.cores_percent:g} %" if part.cores_percent and not part.exclusive else ""
    amounts = ", ".join(text for text in (what, cores) if text) or "a part"
    return f"{part.cards} x {amounts}"
