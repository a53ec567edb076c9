"""What cards and pods used over the last hour, a point every so often, in memory of a known size.

A series has a place for each point of the hour; what was not measured is no number. All series are
written at the same moments, so that times are kept once.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from tessera_core.occupancy.rows import NodeRow
from tessera_schema.cards import MIB

_NAN: Final = float("nan")


class UsePoint(Struct, frozen=True, kw_only=True):
    """One moment of a card or of a pod's part of one. Not a number = not measured."""

    granted_mib: float
    used_mib: float = _NAN
    granted_cores: float
    """Percent of the card, as all of these."""
    used_cores: float = _NAN
    throttled: float = _NAN
    """Percent of the time."""


class UseSeries(Struct, frozen=True, kw_only=True):
    """The points that are there, the oldest first: one list a figure, as charts want them."""

    at: tuple[float, ...] = ()
    """Unix seconds."""
    granted_mib: tuple[float, ...] = ()
    used_mib: tuple[float, ...] = ()
    granted_cores: tuple[float, ...] = ()
    used_cores: tuple[float, ...] = ()
    throttled: tuple[float, ...] = ()


_FIELDS: Final = UsePoint.__struct_fields__
_WIDTH: Final = len(_FIELDS)


class UseRecord:
    """All series."""

    def __init__(self, points: int, most: int) -> None:
        """Up to `most` series of `points` each; series beyond are left out and counted."""
        self.left_out = 0
        self._points, self._most = points, most
        self._series: dict[Hashable, array[float]] = {}
        self._at: list[float] = []
        self._count = 0
        """Points that were ever added."""

    def __len__(self) -> int:
        """How many series there are."""
        return len(self._series)

    def add(self, at: float, points: Mapping[Hashable, UsePoint]) -> None:
        """One more moment; series that have no point in it are forgotten: they are gone."""
        slot = self._count % self._points
        if len(self._at) < self._points:
            self._at.append(at)
        else:
            self._at[slot] = at
        self._count += 1
        for key in self._series.keys() - points.keys():
            del self._series[key]
        self.left_out = 0
        for key, point in points.items():
            series = self._series.get(key)
            if series is None:
                if len(self._series) >= self._most:
                    self.left_out += 1
                    continue
                series = self._series[key] = array("f", [_NAN]) * (self._points * _WIDTH)
            start = slot * _WIDTH
            series[start : start + _WIDTH] = array("f", [getattr(point, f) for f in _FIELDS])

    def of(self, key: Hashable) -> UseSeries:
        """The series; empty where there is none."""
        series = self._series.get(key)
        if series is None:
            return UseSeries()
        first = max(self._count - self._points, 0)
        slots = [n % self._points for n in range(first, self._count)]
        there = [slot for slot in slots if series[slot * _WIDTH] == series[slot * _WIDTH]]
        figures = {
            name: _rounded(series[slot * _WIDTH + place] for slot in there)
            for place, name in enumerate(_FIELDS)
        }
        return UseSeries(at=tuple(self._at[slot] for slot in there), **figures)


def points_of(rows: Sequence[NodeRow]) -> dict[Hashable, UsePoint]:
    """(node, card) and (node, card, pod's uid) -> what is so now."""
    found: dict[Hashable, UsePoint] = {}
    for row in rows:
        for card in row.cards:
            found[row.name, card.card.id] = UsePoint(
                granted_mib=card.memory_bytes / MIB, granted_cores=card.cores_percent,
                used_mib=_NAN if card.used_bytes is None else card.used_bytes / MIB,
                used_cores=_NAN if card.used_percent is None else card.used_percent,
            )  # fmt: skip
            for share in card.shares:
                use = share.measured
                found[row.name, card.card.id, share.uid] = UsePoint(
                    granted_mib=share.memory_bytes / MIB, granted_cores=share.cores_percent,
                    used_mib=_NAN if use is None else use.memory_bytes / MIB,
                    used_cores=_NAN if use is None else use.cores_percent,
                    throttled=_NAN if use is None else use.throttled_percent,
                )  # fmt: skip
    return found


def _rounded(figures: Iterable[float]) -> tuple[float, ...]:
    return tuple(round(figure, 1) for figure in figures)
