"""Recordings as files: opened to go on with one, and read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tessera_cli.errors import CommandError, InputUnreadable
from tessera_core.utilization.history import UseHistory
from tessera_core.utilization.recording import (
    MOST_LINE,
    BadRecording,
    RecordingHeader,
    encode_line,
    read_lines,
)


class RecordingMalformed(CommandError):
    """The file is no recording."""


@contextmanager
def open_recording(path: str, header: RecordingHeader) -> Iterator[BinaryIO]:
    """The file, to write lines at its end. One that exists is gone on with, from its last whole
    line. Raises InputUnreadable, RecordingMalformed."""
    try:
        file = Path(path).open("a+b")  # noqa: SIM115  (closed below)
    except OSError as e:
        raise InputUnreadable(path, e.strerror or str(e), "name a file that you may write") from e
    with file:
        file.seek(0)
        start = file.readline(MOST_LINE)
        if start.endswith(b"\n"):
            _check(path, start)
            _drop_torn_line(file)
        elif start:
            raise RecordingMalformed(path, "no recording: name a new file, or one to go on with")
        else:
            file.write(encode_line(header))
        yield file


def read_recordings(paths: list[str], history: UseHistory, days: float) -> None:
    """Add the last days of recordings to a history. Raises InputUnreadable, RecordingMalformed."""
    last = 0.0
    if days:
        for path in paths:
            ends = UseHistory()
            _read(path, ends, 0)
            last = max(last, ends.ended)
    for path in paths:
        _read(path, history, last - days * 86_400 if days else 0)


def _read(path: str, history: UseHistory, since: float) -> None:
    try:
        with Path(path).open("rb") as file:
            history.add_all(read_lines(_lines(file)), since)
    except OSError as e:
        raise InputUnreadable(path, e.strerror or str(e), "name a file that can be read") from e
    except BadRecording as e:
        raise RecordingMalformed(path, str(e)) from e


def _lines(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(MOST_LINE + 1):
        yield line


def _check(path: str, start: bytes) -> None:
    try:
        next(read_lines([start]))
    except BadRecording as e:
        raise RecordingMalformed(path, str(e)) from e


def _drop_torn_line(file: BinaryIO) -> None:
    """Cut what a process that was killed left of its last line."""
    end = file.seek(0, 2)
    file.seek(max(end - MOST_LINE - 1, 0))
    tail = file.read()
    file.truncate(end - (len(tail) - tail.rfind(b"\n") - 1))
    file.seek(0, 2)
