"""What was seen of two gangs that fit one at a time: how many members of each had a node. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from tessera_demo.promises import Promise

_TOGETHER_S: Final = 2.0
"""Members get their nodes within so much: the API server takes one Binding after the other."""


class GangMoment(NamedTuple):
    """One moment."""

    at_s: float
    placed: tuple[int, int]
    """Members of each gang that have a node."""


def gang_promises(seen: Sequence[GangMoment], members: int) -> list[Promise]:
    """Each gang started whole, one after the other, and none of them in part."""
    starts = [_start(seen, gang, members) for gang in (0, 1)]
    times = [start for start in starts if start is not None]
    both = max((min(moment.placed) for moment in seen), default=0)
    spread = max((end - begin for begin, end in times), default=0)
    half = _longest_part(seen, members)
    said = f"{len(times)} of 2 started whole, at most {both} members of the other with a node then"
    return [
        Promise(
            "gangs whole",
            f"two gangs of {members}, of which the cards take one at a time, start whole, one "
            "after the other",
            len(times) == 2 and not both, said,
            brief=f"two gangs of {members} on {members} cards: one, then the other",
        ),
        Promise(
            "gangs in-part",
            f"no gang has some of its members on nodes for longer than {_TOGETHER_S:g} s",
            bool(times) and half < _TOGETHER_S,
            f"all members had their nodes within {spread * 1000:.0f} ms; in part for "
            f"{half * 1000:.0f} ms at most",
        ),
    ]  # fmt: skip


def _start(seen: Sequence[GangMoment], gang: int, members: int) -> tuple[float, float] | None:
    """When its first and its last member had a node; None where it never was whole."""
    end = next((m.at_s for m in seen if m.placed[gang] >= members), None)
    begin = next((m.at_s for m in seen if m.placed[gang]), None)
    return None if begin is None or end is None else (begin, end)


def _longest_part(seen: Sequence[GangMoment], members: int) -> float:
    """The longest time in which a gang had some members on nodes, and had never been whole."""
    longest = 0.0
    for gang in (0, 1):
        whole, part = False, 0.0
        for before, after in pairwise(seen):
            whole = whole or before.placed[gang] >= members
            part = part + after.at_s - before.at_s if before.placed[gang] and not whole else 0.0
            longest = max(longest, part)
    return longest
