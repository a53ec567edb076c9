"""Plays a command in a terminal of its own and records what it writes, as asciicast v2
(docs.asciinema.org/manual/asciicast/v2): a header, then a JSON list a line."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import struct
import subprocess
import termios
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

FRAME: Final = "\x1b[H"
"""With it a full-screen picture begins: whole, whatever was on the screen."""

LEFT: Final = "\x1b[?1049l"
"""Ends full-screen pictures."""


class Output(NamedTuple):
    """What was written at once."""

    at_s: float
    """Since the beginning."""
    text: str


def played(
    argv: Sequence[str], size: tuple[int, int], environ: Mapping[str, str]
) -> tuple[int, list[Output]]:
    """The exit status of the command, and its output on a terminal of so many columns and lines."""
    shown, terminal = pty.openpty()
    columns, lines = size
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    began, found = time.monotonic(), list[Output]()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with subprocess.Popen(
        argv, stdin=terminal, stdout=terminal, stderr=terminal, env=environ, start_new_session=True
    ) as command:
        os.close(terminal)
        while data := _read(shown):
            text = decoder.decode(data)
            if text:
                found.append(Output(time.monotonic() - began, text))
        os.close(shown)
        return command.wait(), found


def thinned(written: Iterable[Output], every_s: float) -> list[Output]:
    """Without pictures that another one follows so soon."""
    found: list[Output] = []
    for one in _frames(written):
        last = found[-1] if found else None
        whole = last is not None and last.text.startswith(FRAME) and one.text.startswith(FRAME)
        if whole and last is not None and one.at_s - last.at_s < every_s:
            found[-1] = Output(last.at_s, one.text)
        else:
            found.append(one)
    return found


def asciicast(written: Iterable[Output], size: tuple[int, int], title: str) -> bytes:
    """The recording as a file. It names no machine, and no time of the day."""
    columns, lines = size
    header = {"version": 2, "width": columns, "height": lines, "title": title}
    rows: list[object] = [header, *([round(one.at_s, 2), "o", one.text] for one in written)]
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


def _frames(written: Iterable[Output]) -> Iterator[Output]:
    """The same text; a picture and what follows it is one piece, until the screen is left."""
    whole, left = Output(0, ""), False
    for one in written:
        first, *others = one.text.split(FRAME)
        if first and not whole.text:
            yield Output(one.at_s, first)
        elif first:
            whole = Output(whole.at_s, whole.text + first)
        for text in others:
            if whole.text:
                yield whole
            whole = Output(one.at_s, FRAME + text)
        if not left and LEFT in whole.text:
            yield whole
            whole, left = Output(0, ""), True
    if whole.text:
        yield whole


def _read(terminal: int) -> bytes:
    """Empty when the other end was closed."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        return b""
