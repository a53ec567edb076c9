"""The nodes that kube-scheduler offers for a pod, resolved once while it offers the same ones,
without those on which room is made for others or an equal pod has to start first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from tessera_core.fleet.arrays import Bools, Ints
from tessera_core.fleet.fleet import Fleet
from tessera_core.scheduling.filter_bodies import NodeNames
from tessera_core.scheduling.name_digest import NameDigest, digest_of, has_digest
from tessera_schema.endpoints.extender import decode_name_set, decode_names

_KEPT: Final = 64
"""Narrowed offers that are kept while one offer keeps coming."""
_NONE: Final[Mapping[str, str]] = {}
_Nodes = frozenset[tuple[str, str]]


class CandidateNodes(Struct, frozen=True):
    """The nodes that kube-scheduler offers."""

    data: bytes
    layout: int
    """The fleet's, when the rows were resolved."""
    names: tuple[str, ...]
    known: frozenset[str]
    """The names again."""
    digest: NameDigest | None
    """Of the names, where they are many."""
    at: Ints
    """Each name's row, -1 where the fleet does not know it."""
    rows: Bools
    answers: NodeNames
    """The names again, for answers about all of them."""
    reserved: Mapping[str, str] = {}
    """Nodes that are left to others although they were offered, with why."""
    starting: Mapping[str, str] = {}
    """Nodes on which another pod has to start first, with which."""


class CandidateCache:
    """Equal offers are one object, which others may remember answers by."""

    def __init__(self, fleet: Fleet) -> None:
        """The fleet is the ledger's."""
        self._fleet = fleet
        self._last: CandidateNodes | None = None
        self._narrowed: dict[tuple[_Nodes, _Nodes], CandidateNodes] = {}

    def of(self, raw: msgspec.Raw) -> CandidateNodes:
        """The names offered, in whatever order: kube-scheduler's changes from pod to pod. Raises
        msgspec.DecodeError."""
        last = self._last
        if last is None or not self._is(last, raw):
            last = self._last = self._resolve(raw)
            self._narrowed = {}
        return last

    def _is(self, last: CandidateNodes, raw: msgspec.Raw) -> bool:
        return last.layout == self._fleet.layout and _same_names(last, raw)

    def _resolve(self, raw: msgspec.Raw) -> CandidateNodes:
        fleet, names = self._fleet, decode_names(raw)
        at = fleet.rows_of(names)
        rows = np.zeros(len(fleet.names), np.bool_)
        rows[at[at >= 0]] = True
        data = bytes(raw)
        return CandidateNodes(
            data, fleet.layout, names, frozenset(names), digest_of(names, data), at, rows,
            NodeNames(names),
        )  # fmt: skip

    def without(
        self, offer: CandidateNodes, closed: Mapping[str, str], starting: Mapping[str, str] = _NONE
    ) -> CandidateNodes:
        """The offer without these nodes, left to others or to be asked for later; the same object
        while they are the same."""
        if not closed and not starting:
            return offer
        key = frozenset(closed.items()), frozenset(starting.items())
        if key not in self._narrowed:
            rows, known = offer.rows.copy(), self._fleet.rows
            rows[[known[node] for node in (*closed, *starting) if node in known]] = False
            if len(self._narrowed) >= _KEPT:
                self._narrowed = {}
            self._narrowed[key] = replace(offer, rows=rows, reserved=closed, starting=starting)
        return self._narrowed[key]


def _same_names(last: CandidateNodes, raw: msgspec.Raw) -> bool:
    data = bytes(raw)
    if data == last.data:
        return True
    if last.digest is not None and len(data) == len(last.data):
        return has_digest(data, last.digest)
    return last.known == decode_name_set(raw)
