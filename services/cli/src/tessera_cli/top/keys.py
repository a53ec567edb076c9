"""Keys of a terminal, one by one, as they are pressed."""

from __future__ import annotations

import asyncio
import os
import termios
import tty
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_ESCAPE: Final = "\x1b"
_NAMES: Final = {
    "\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down", "\x1b[5~": "page-up",
    "\x1b[6~": "page-down", "\x1b[H": "home", "\x1b[F": "end", "\x1bOH": "home", "\x1bOF": "end",
    "\x1b[1~": "home", "\x1b[4~": "end", "\r": "enter", "\n": "enter", "\x7f": "backspace",
    "\x08": "backspace", "\x03": "ctrl-c", "\x04": "ctrl-c", _ESCAPE: "escape", " ": " ",
}  # fmt: skip
_LONGEST: Final = 8
_AT_ONCE: Final = 1024


def keys_in(text: str) -> list[str]:
    """The keys of what was read at once: a terminal sends each sequence whole."""
    found = []
    while text:
        key = _sequence(text)
        text = text[len(key) :]
        if key in _NAMES:
            found.append(_NAMES[key])
        elif not key.startswith(_ESCAPE) and key.isprintable():
            found.append(key)
    return found


def _sequence(text: str) -> str:
    if not text.startswith((f"{_ESCAPE}[", f"{_ESCAPE}O")):
        return text[0]
    for end in range(2, min(len(text), _LONGEST)):
        if text[end].isalpha() or text[end] == "~":
            return text[: end + 1]
    return text[:_LONGEST]


@contextmanager
def pressed(file: int) -> Generator[asyncio.Queue[str]]:
    """Keys of the terminal behind a file descriptor, while the body runs; then it is as before."""
    keys: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        data = os.read(file, _AT_ONCE)
        for key in keys_in(data.decode(errors="ignore")) if data else ["ctrl-c"]:
            keys.put_nowait(key)

    before = termios.tcgetattr(file)
    tty.setcbreak(file)
    loop.add_reader(file, read)
    try:
        yield keys
    finally:
        loop.remove_reader(file)
        termios.tcsetattr(file, termios.TCSADRAIN, before)
