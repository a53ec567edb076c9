"""Reads of a container's usage file that cost next to nothing: the file stays open, and one short
read gets what the container did on one card.

The file is the container's to write: a short, missing or replaced one counts as empty.
Reads may block for the file system's sake: call from a thread, one call at a time.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from tessera_agent.containers.hook_files import ContainerFiles, ContainerKey
from tessera_core.hook.records import CARDS, UUID_BYTES, uuid_key
from tessera_core.hook.usage_counters import (
    ACTIVITY,
    ACTIVITY_SIZE,
    NOTHING,
    SIZE,
    UsageCounters,
    is_of,
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


class UsageRecord:
    """One card's record in a container's usage file, which stays open."""

    __slots__ = ("_activity_at", "_at", "_card", "_fd", "_files", "_last", "_name", "_seldom",
                 "_wait")  # fmt: skip

    def __init__(self, files: ContainerFiles, card: str, seldom: int) -> None:
        """`seldom`: reads between two searches for a record that is not there, because the
        container has not used the card yet."""
        self._files = files
        self._card = card
        self._seldom = seldom
        self._wait = 0
        self._fd = -1
        self._at = self._activity_at = 0
        self._name = self._last = b""
        """How the card's id stands there, empty where the record was not found; and the activity
        as it was when the record was read last."""

    def data(self) -> bytes | None:
        """Its first `SIZE` bytes; None where there is none, or the file is not the agent's own.
        Never raises."""
        try:
            if self._name:
                data = os.pread(self._fd, SIZE, self._at)
                if data[:UUID_BYTES] == self._name and len(data) == SIZE:
                    self._last = data[ACTIVITY]
                    return data
            return self._search()
        except OSError:
            self.close()
            return None

    def counters(self) -> UsageCounters:
        """What the container did so far on the card. Never raises."""
        data = self.data()
        return NOTHING if data is None else read_counters(data)

    def moved(self) -> bool:
        """Whether the container may have launched, or been held back, since it was read last: 16
        bytes, a third of the time of `counters`. Never raises."""
        if not self._name:
            return self.data() is not None
        try:
            return os.pread(self._fd, ACTIVITY_SIZE, self._activity_at) != self._last
        except OSError:
            return True

    def is_of(self, files: ContainerFiles) -> bool:
        """Whether it is in this file: a container that is started again has another."""
        return self._files is files

    def close(self) -> None:
        """Close the file; the next read opens it again."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._name = -1, b""

    def _search(self) -> bytes | None:
        self._name = b""
        if self._wait:
            self._wait -= 1
            return None
        if self._fd < 0:
            self._fd = self._files.open_usage()
        found = record_of(self._fd, uuid_key(self._card))
        if found is None:
            self._wait = self._seldom
            return None
        self._at, data = found
        self._activity_at = self._at + ACTIVITY.start
        self._name, self._last = data[:UUID_BYTES], data[ACTIVITY]
        return data


class OpenUsageFiles:
    """The open usage files of containers."""

    def __init__(self, seldom: int) -> None:
        """`seldom`: see `UsageRecord`."""
        self._seldom = seldom
        self._open: dict[ContainerKey, dict[str, UsageRecord]] = {}

    def record(self, key: ContainerKey, files: ContainerFiles, card: str) -> UsageRecord:
        """The container's record of the card; the same object until `keep_only` closes it."""
        records = self._open.setdefault(key, {})
        record = records.get(card)
        if record is None or not record.is_of(files):
            if record is not None:
                record.close()
            record = records[card] = UsageRecord(files, card, self._seldom)
        return record

    def keep_only(self, keys: Collection[ContainerKey]) -> None:
        """Close the files of other containers."""
        for key in self._open.keys() - set(keys):
            for record in self._open.pop(key).values():
                record.close()
