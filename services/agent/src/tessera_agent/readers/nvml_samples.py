"""NVML's samples of processes, as nanoseconds that never add up to more than the card's own.

A sample of a process says that it had a kernel on the card, not that the kernel ran: where cards
take a waiting kernel for a running one, two processes that take turns are busy for the same moment
twice. The card's own samples do not have that error. So every container's time has one measure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

SAMPLE_US: Final = 1_000_000 // 6
"""Time between samples of a busy card, as NVML's documentation has it for most of them."""
PAUSE_US: Final = 3_000_000
"""Samples further apart than this have idle time between them: polls are one second apart."""


class ProcessSample(NamedTuple):
    """One process in the time up to a moment."""

    stamp_us: int
    pid: int
    percent: int


class SampledTime(NamedTuple):
    """What one poll's samples say."""

    busy_ns: dict[int, int]
    """By process."""
    newest_us: int
    """Stamp of the newest sample; 0 = there is none."""
    window_ns: int
    """How long the time is that the samples stand for."""


def sampled_time(samples: Iterable[ProcessSample], since_us: int) -> SampledTime:
    """Nanoseconds by process since the stamp `since_us`.

    A sample stands for the time since the one before; after a pause, when nothing ran, for as long
    as samples are apart.
    """
    busy: dict[int, int] = {}
    stood: dict[int, int] = {}
    newest, window_us = since_us, 0
    for stamp, pid, percent in sorted(samples):
        covers_us = _covered(stood.get(pid, since_us), stamp)
        window_us += _covered(newest, stamp)
        newest = max(newest, stamp)
        if covers_us:
            busy[pid] = busy.get(pid, 0) + min(percent, 100) * covers_us * 10
            stood[pid] = stamp
    return SampledTime(busy, newest if stood else 0, window_us * 1000)


def _covered(before_us: int, stamp_us: int) -> int:
    apart_us = max(stamp_us - before_us, 0)
    return apart_us if apart_us <= PAUSE_US else SAMPLE_US


class CardTimeLimit:
    """Keeps the time of a card's processes within the card's own, in the long run.

    The two are sampled at different moments. What the processes had less than the card is left to
    them, as much as one sample stands for, so that no such difference is taken for an error.
    """

    def __init__(self) -> None:
        self._spare_ns = 0

    def within(self, busy_ns: Mapping[int, int], card_ns: int) -> dict[int, int]:
        """The same, all made smaller in proportion if they are more than `card_ns` together."""
        allowed, total = card_ns + self._spare_ns, sum(busy_ns.values())
        self._spare_ns = min(max(allowed - total, 0), SAMPLE_US * 1000)
        if total <= allowed:
            return dict(busy_ns)
        return {pid: ns * allowed // total for pid, ns in busy_ns.items()}
