"""The file that outlives the process: one JSON line for each write, appended before any watch has
it.

A line reaches the kernel before the answer goes out, so a killed process loses nothing that it
acknowledged; a machine that loses power may (there is no fsync). A torn last line is a write that
no answer was sent for: it is cut off. The file is rewritten without history when it is opened and
has grown far beyond what is in it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from tessera_embedded.apiserver.objects.object_store import ObjectStore, StoredChange
from tessera_embedded.apiserver.objects.resources import Shelf

_MANY: Final = 20_000
"""Lines of history over the objects themselves that make a rewrite worth its while."""


_FORGOTTEN: Final[Shelf] = ("", "")
"""Marks a version before which there is no history."""


class JournalBroken(Exception):
    """A line in the middle of the journal cannot be read: the file is not the store's, or
    damaged."""


class _Line(Struct, frozen=True):
    v: int
    """The version of the write."""
    s: Shelf
    o: dict[str, Any]
    """The object, without kind and apiVersion."""
    d: bool = False
    """True where it was removed."""


class Journal:
    """An append-only file of changes; `read` it into objects once, then `append` for each write."""

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, -1

    def read(self, objects: ObjectStore) -> None:
        """Replay the file, cut a torn end off, and open it for appending. Raises JournalBroken."""
        lines = 0
        for line in self._lines():
            if line.s == _FORGOTTEN:
                objects.compact(line.v)
            else:
                objects.replay(line.s, line.v, line.o, gone=line.d)
            lines += 1
        live = sum(len(objects.kind_store(shelf).records) for shelf in objects.shelves())
        if lines - live > _MANY:
            self._rewrite(objects)
        # Regular files never block; the flag lets blocking-call detectors know.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK
        self._file = os.open(self._path, flags, 0o600)

    def append(self, shelf: Shelf, change: StoredChange) -> None:
        """Write one change down whole. Raises OSError where that cannot be done."""
        line = _encoded(shelf, change.version, change.record.body, gone=change.gone)
        end = os.fstat(self._file).st_size
        try:
            written = os.write(self._file, line)
        except OSError:
            os.ftruncate(self._file, end)
            raise
        if written < len(line):
            os.ftruncate(self._file, end)
            raise OSError(errno.ENOSPC, "the journal took only a part of a line", str(self._path))

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _lines(self) -> Iterator[_Line]:
        if not self._path.exists():
            return
        content = self._path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(self._path, whole)
        decoder = msgspec.json.Decoder(_Line)
        for number, text in enumerate(content[:whole].splitlines(), 1):
            try:
                yield decoder.decode(text)
            except msgspec.MsgspecError as e:
                raise JournalBroken(f"{self._path}, line {number}: {e}; move it away") from e

    def _rewrite(self, objects: ObjectStore) -> None:
        fresh = self._path.with_suffix(".new")
        with fresh.open("wb") as file:
            live = [
                (record.version, shelf, record.body)
                for shelf in objects.shelves()
                for record in objects.records(shelf)
            ]
            for version, where, body in sorted(live):
                file.write(_encoded(where, version, body, gone=False))
            file.write(_encoded(_FORGOTTEN, objects.version, b"{}", gone=False))
        fresh.replace(self._path)
        objects.compact()


def _encoded(shelf: Shelf, version: int, body: bytes, *, gone: bool) -> bytes:
    end = b',"d":true}\n' if gone else b"}\n"
    return b'{"v":%d,"s":%s,"o":%s%s' % (version, msgspec.json.encode(shelf), body, end)
