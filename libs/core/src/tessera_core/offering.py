"""The nodes that kube-scheduler offers for a pod, looked up once while the same ones keep coming,
without those on which room is made for others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from tessera_core.cards import Bools, Ints
from tessera_core.fleet import Fleet
from tessera_schema.extender import decode_names

_KEPT: Final = 64
"""Narrowed offers that are kept while one offer keeps coming."""


class Offer(Struct, frozen=True):
    """The nodes that kube-scheduler offers."""

    data: bytes
    layout: int
    """The fleet's, when the rows were looked up."""
    names: tuple[str, ...]
    at: Ints
    """Each name's row, -1 where the fleet does not know it."""
    rows: Bools
    reserved: Mapping[str, str] = {}
    """Nodes that are left to others although they were offered, with why."""


class Offers:
    """Equal offers are one object, which others may remember answers by."""

    def __init__(self, fleet: Fleet) -> None:
        """The fleet is the ledger's."""
        self._fleet = fleet
        self._last: Offer | None = None
        self._narrowed: dict[frozenset[tuple[str, str]], Offer] = {}

    def of(self, raw: msgspec.Raw) -> Offer:
        """The names offered. Raises msgspec.DecodeError."""
        fleet, data, last = self._fleet, bytes(raw), self._last
        if last is None or last.layout != fleet.layout or last.data != data:
            names = decode_names(raw)
            at = np.array([fleet.rows.get(n, -1) for n in names], np.int64)
            rows = np.zeros(len(fleet.names), np.bool_)
            rows[at[at >= 0]] = True
            last = self._last = Offer(data, fleet.layout, names, at, rows)
            self._narrowed = {}
        return last

    def without(self, offer: Offer, closed: Mapping[str, str]) -> Offer:
        """The offer without these nodes; the same object while they are the same."""
        if not closed:
            return offer
        key = frozenset(closed.items())
        if key not in self._narrowed:
            rows, known = offer.rows.copy(), self._fleet.rows
            rows[[known[node] for node in closed if node in known]] = False
            if len(self._narrowed) >= _KEPT:
                self._narrowed = {}
            self._narrowed[key] = replace(offer, rows=rows, reserved=closed)
        return self._narrowed[key]
