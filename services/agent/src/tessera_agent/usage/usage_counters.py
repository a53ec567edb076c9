"""Reads of a container's usage file that cost next to nothing: the file stays open, and one short
read gets what the container did on one card.

The file is the container's to write: a short, missing or replaced one counts as empty.
Reads may block for the file system's sake: call from a thread, one call at a time.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from tessera_agent.containers.hook_files import ContainerFiles, ContainerKey
from tessera_core.hook.records import CARDS, uuid_key
from tessera_core.hook.usage_counters import (
    NOTHING,
    SIZE,
    UsageCounters,
    is_of,
    name_of,
    read_counters,
    record_at,
)


def record_of(usage: int, key: str) -> tuple[int, bytes] | None:
    """Where in an open usage file the record of the card begins whose id `uuid_key` spells so, and
    its first `SIZE` bytes; None where there is none. Raises OSError."""
    for position in range(CARDS):
        data = os.pread(usage, SIZE, record_at(position))
        if is_of(data, key):
            return record_at(position), data
    return None


class _Open:
    """One container's file."""

    def __init__(self, files: ContainerFiles, seldom: int) -> None:
        self.files = files
        self._seldom = seldom
        self.fd = files.open_usage()
        self._places: dict[str, tuple[int, bytes]] = {}
        """Card -> where its record begins and how its id stands there, as last found."""
        self._missing: dict[str, int] = {}
        """Card -> reads until it is searched for again."""

    def record(self, card: str) -> bytes | None:
        known = self._places.get(card)
        if known is not None:
            data = os.pread(self.fd, SIZE, known[0])
            if len(data) == SIZE and name_of(data) == known[1]:
                return data
            del self._places[card]
        return self._search(card)

    def _search(self, card: str) -> bytes | None:
        wait = self._missing.pop(card, 0)
        if wait:
            self._missing[card] = wait - 1
            return None
        found = record_of(self.fd, uuid_key(card))
        if found is None:
            self._missing[card] = self._seldom
            return None
        place, data = found
        self._places[card] = place, name_of(data)
        return data


class OpenUsageFiles:
    """The open usage files of containers."""

    def __init__(self, seldom: int) -> None:
        """`seldom`: reads between two searches for a record that is not there, because the
        container has not used the card yet."""
        self._seldom = seldom
        self._open: dict[ContainerKey, _Open] = {}

    def read(self, key: ContainerKey, files: ContainerFiles, card: str) -> UsageCounters:
        """What the container did so far on the card. Never raises."""
        data = self.record(key, files, card)
        return NOTHING if data is None else read_counters(data)

    def record(self, key: ContainerKey, files: ContainerFiles, card: str) -> bytes | None:
        """The first `SIZE` bytes of the card's record; None where there is none, or the file is not
        the agent's own. Never raises."""
        try:
            one = self._open.get(key)
            if one is None or one.files is not files:
                self._close(key)
                one = self._open[key] = _Open(files, self._seldom)
            return one.record(card)
        except OSError:
            self._close(key)
            return None

    def keep_only(self, keys: Collection[ContainerKey]) -> None:
        """Close the files of other containers."""
        for key in self._open.keys() - set(keys):
            self._close(key)

    def _close(self, key: ContainerKey) -> None:
        one = self._open.pop(key, None)
        if one is not None:
            os.close(one.fd)
