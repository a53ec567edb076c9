"""A letter and a colour for each dialect. The letter says it; the colour only repeats it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from msgspec import Struct
from rich.text import Text

from tessera_core.registry.registry import load


class DialectMark(Struct, frozen=True):
    """How a dialect is drawn."""

    letter: str
    style: str


_STYLES: Final = (
    "green", "cyan", "magenta", "dodger_blue2", "deep_pink3", "light_salmon3", "dark_orange",
    "yellow", "turquoise4", "purple",
)  # fmt: skip
_OTHER: Final = DialectMark("?", "white")


@cache
def marks() -> Mapping[str, DialectMark]:
    """Of every dialect: the first letter of its name if it is free, else the small one, else the
    next one of the name. Dialects that are on by default choose first."""
    registry, found = load(), dict[str, DialectMark]()
    taken: set[str] = set()
    for name in sorted(registry.dialects, key=lambda name: (name in registry.opt_in, name)):
        letters = (letter for one in name for letter in (one.upper(), one))
        letter = next((letter for letter in letters if letter not in taken), _OTHER.letter)
        taken.add(letter)
        found[name] = DialectMark(letter, _STYLES[len(found) % len(_STYLES)])
    return found


def mark_of(dialects: Iterable[str]) -> DialectMark:
    """Of the first of the dialects."""
    return marks().get(next(iter(dialects), ""), _OTHER)


def legend(dialects: Iterable[str]) -> list[Text]:
    """Letter and name of each."""
    return [
        Text.assemble((mark.letter, f"bold {mark.style}"), f" {name}")
        for name, mark in ((name, mark_of((name,))) for name in sorted(set(dialects)))
    ]
