"""Text of other people's manifests, made safe for a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress


def printable(text: str) -> str:
    """The text with control characters spelt out, so that none reaches the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def print_notice(text: str) -> None:
    """Write what belongs to no answer: a line on standard error. A closed terminal keeps no
    command from its end."""
    with suppress(OSError):
        sys.stderr.write(f"tessera: {printable(text)}\n")


def condensed(warnings: Iterable[str], most: int) -> Iterator[str]:
    """Warnings of the form `subject: text`, those of equal text as one, at most `most` lines."""
    alike: dict[str, list[str]] = {}
    for warning in warnings:
        subject, _, text = warning.partition(": ")
        alike.setdefault(text, []).append(subject)
    for number, (text, subjects) in enumerate(alike.items()):
        if number == most:
            yield f"and {len(alike) - most} more warnings of this kind"
            return
        yield f"{several(subjects)}: {text}" if text else several(subjects)


def several(names: Sequence[str], shown: int = 3) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
