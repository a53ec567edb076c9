"""Reads of a container's usage file that cost next to nothing: the file stays open, and one short
read gets what the container did on one card.

The file is the container's to write: a short, missing or replaced one counts as empty.
Reads may block for the file system's sake: call from a thread, one call at a time.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Protocol

from tessera_agent.containers.hook_files import ContainerFiles, ContainerKey
from tessera_core.hook.records import CARDS, uuid_key
from tessera_core.hook.usage_counters import (
    ACTIVITY_AT,
    ACTIVITY_SIZE,
    NOTHING,
    SIZE,
    UsageCounters,
    activity_of,
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


class UsedCard(Protocol):
    """One container on one card."""

    @property
    def key(self) -> ContainerKey:
        """The container."""
        ...

    @property
    def files(self) -> ContainerFiles:
        """Its files."""
        ...

    @property
    def card(self) -> str:
        """The card's id."""
        ...


class _Place:
    """Where a card's record is."""

    __slots__ = ("activity_at", "at", "last", "name")

    def __init__(self, at: int, data: bytes) -> None:
        self.at = at
        self.activity_at = at + ACTIVITY_AT
        self.name = name_of(data)
        """How the card's id stands there."""
        self.last = activity_of(data)
        """As it was when the record was read last."""


class _Open:
    """One container's file."""

    def __init__(self, files: ContainerFiles, seldom: int) -> None:
        self.files = files
        self._seldom = seldom
        self.fd = files.open_usage()
        self.places: dict[str, _Place] = {}
        """Card -> where its record was found."""
        self._missing: dict[str, int] = {}
        """Card -> reads until it is searched for again."""

    def record(self, card: str) -> bytes | None:
        known = self.places.get(card)
        if known is not None:
            data = os.pread(self.fd, SIZE, known.at)
            if len(data) == SIZE and name_of(data) == known.name:
                known.last = activity_of(data)
                return data
            del self.places[card]
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
        self.places[card] = _Place(place, data)
        return data


class OpenUsageFiles:
    """The open usage files of containers."""

    def __init__(self, seldom: int) -> None:
        """`seldom`: reads between two searches for a record that is not there, because the
        container has not used the card yet."""
        self._seldom = seldom
        self._open: dict[ContainerKey, _Open] = {}

    def read(self, one: UsedCard) -> UsageCounters:
        """What the container did so far on the card. Never raises."""
        data = self.record(one.key, one.files, one.card)
        return NOTHING if data is None else read_counters(data)

    def moved(self, one: UsedCard) -> bool:
        """Whether the container may have launched, or been held back, since it was read last: 16
        bytes, a third of the time of `read`. Never raises."""
        opened = self._open.get(one.key)
        place = opened.places.get(one.card) if opened else None
        if opened is None or place is None:
            return self.record(one.key, one.files, one.card) is not None
        try:
            return os.pread(opened.fd, ACTIVITY_SIZE, place.activity_at) != place.last
        except OSError:
            return True

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
