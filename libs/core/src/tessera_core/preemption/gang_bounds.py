"""How many of some victims have to go at least so that a gang fits, seen without a trial.

All nodes at once, in columns: once the first n have gone, a node takes at most so many members, by
what is free of its cards then. As long as all nodes together take too few, no trial is made. Where
they take enough, few nodes take any member: trials are made on a copy of these alone.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from copy import copy as copy_of
from typing import Final

import numpy as np
from msgspec.structs import replace

from tessera_core.fleet.arrays import Bools, Ints
from tessera_core.gangs.scratch import MemberRequest, ScratchCluster
from tessera_core.preemption.card_lines import CardLines, freed
from tessera_core.slices import Slices

_STEP: Final = 8
"""By how many times more victims go in each attempt until they may suffice."""


class GangBounds:
    """What nodes take of a gang once victims have gone."""

    def __init__(
        self,
        scratch: ScratchCluster,
        members: Sequence[MemberRequest],
        domains: Sequence[Set[str]] | None,
        lines: CardLines,
    ) -> None:
        """Members that all ask for cards. `lines` are what victims hold, in the order in which they
        go; the owner of a line is its victim's place in that order. `domains` are groups of nodes,
        of which one has to take all members."""
        self._scratch = scratch
        self._lines = lines
        equal: dict[bytes, list[MemberRequest]] = {}
        for member in members:
            equal.setdefault(member.shape, []).append(member)
        self._kinds = [(of_kind[0], len(of_kind)) for of_kind in equal.values()]
        self._domains = None if domains is None else [self._rows_of(each) for each in domains]

    def rows(self, gone: int) -> tuple[Bools, bool]:
        """The rows that may take a member once so many victims have gone, and whether they may
        take all members; no others do."""
        shape = self._scratch.shape
        less = freed(self._lines.only(slice(int(np.searchsorted(self._lines.owner, gone)))), shape)
        found: Bools = np.zeros(shape[0], np.bool_)
        enough = True
        for member, count in self._kinds:
            copies = self._scratch.copies_without(member, count, less)
            found |= copies > 0
            domains = [copies] if self._domains is None else [copies[x] for x in self._domains]
            enough &= any(each.sum() >= count for each in domains)
        return found, enough

    def least(self, most: int) -> Slices[int | None]:
        """How many have to go at least, of the first `most`; None where all are too few."""
        few, gone = 0, min(1, most)
        rows, enough = self.rows(gone)
        while not enough:
            if gone == most:
                return None
            yield
            few, gone = gone, min(_STEP * gone, most)
            rows, enough = self.rows(gone)
        near = self._within(np.flatnonzero(rows))
        while few + 1 < gone:
            yield
            middle = (few + gone) // 2
            if near.rows(middle)[1]:
                gone = middle
            else:
                few = middle
        return gone

    def _within(self, rows: Ints) -> GangBounds:
        """The same of these rows alone."""
        made = copy_of(self)
        made._scratch = self._scratch.part(rows)
        place: Ints = np.full(self._scratch.shape[0], -1)
        place[rows] = np.arange(len(rows))
        there = place[self._lines.row] >= 0
        lines = self._lines.only(there)
        made._lines = replace(lines, row=place[lines.row])
        if self._domains is not None:
            made._domains = [each[rows] for each in self._domains]
        return made

    def _rows_of(self, nodes: Set[str]) -> Bools:
        return np.array([name in nodes for name in self._scratch.names], np.bool_)
