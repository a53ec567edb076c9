"""Folds usage messages into digests: what a week's report needs of a message every ten seconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from tessera_core.utilization.recording import UseDigest
from tessera_schema.cards import Card
from tessera_schema.grants import Grant, Share
from tessera_schema.messages.device_reports import CardUse, NodeUsage

LONGEST_S: Final = 60.0
"""An interval that claims to be longer counts as one of so many seconds."""
_WHOLE: Final = 100
Key = tuple[str, str, str]
"""Uid, container, card."""


class Holder(Struct, frozen=True, kw_only=True):
    """A grant, and how long it was held."""

    grant: Grant
    since: float
    """Unix time."""
    until: float | None = None
    """None = it is still held."""


class _Sums(Struct):
    measured_s: float = 0
    gpu_s: float = 0
    idle_s: float = 0
    throttled_s: float = 0
    byte_s: float = 0
    peak_bytes: int = 0
    gaps: frozenset[str] = frozenset()


class DigestBuilder:
    """Adds up what agents report, share by share, until the period is cut."""

    def __init__(self, began: float) -> None:
        """The first period begins at `began`, in Unix time."""
        self.began = began
        self._sums: dict[Key, _Sums] = {}

    def add(self, usage: NodeUsage) -> None:
        """A message that counts (`tessera_core.reports.agents`), each once."""
        interval_s = min(usage.interval_s, LONGEST_S)
        for container in usage.containers:
            gaps = frozenset(container.gaps)
            for use in container.cards:
                key = container.uid, container.container, use.card
                _add(self._sums.setdefault(key, _Sums()), use, interval_s, gaps)

    def cut(
        self, until: float, holders: Mapping[str, Holder], cards: Mapping[str, Card]
    ) -> Iterator[UseDigest]:
        """The digests of the period that ends now; the next one begins.

        `holders` are all pods (by uid) that held shares within it, also those of which nothing was
        measured; `cards` are the cluster's, by id.
        """
        began, sums, self.began, self._sums = self.began, self._sums, until, {}
        for uid, holder in holders.items():
            end = until if holder.until is None else min(holder.until, until)
            period_s = max(end - began, 0)
            held_s = max(end - max(holder.since, began), 0)
            for share in holder.grant.shares:
                found = sums.get((uid, share.container, share.card), _Sums())
                measured_s = min(found.measured_s, period_s)
                held = max(held_s, measured_s)
                if held > 0:
                    yield _digest(holder.grant, share, cards.get(share.card), found, UseTimes(
                        until=end, period_s=period_s, held_s=held, measured_s=measured_s
                    ))  # fmt: skip


class UseTimes(Struct, frozen=True, kw_only=True):
    """The times of one digest; see there."""

    until: float
    period_s: float
    held_s: float
    measured_s: float


def part_of(memory_bytes: int, cores_percent: float, card: Card | None) -> float:
    """The part of a card that a share is: the larger of its memory and its cores, as quotas count
    it. By cores alone where the card is not known."""
    memory = memory_bytes / card.memory_bytes if card is not None and card.memory_bytes else 0.0
    whole = card.cores_percent if card is not None and card.cores_percent else _WHOLE
    return min(max(memory, cores_percent / whole), 1.0)


def _add(sums: _Sums, use: CardUse, interval_s: float, gaps: frozenset[str]) -> None:
    sums.measured_s += interval_s
    sums.gpu_s += use.cores_percent / _WHOLE * interval_s
    sums.idle_s += _idle_part(use) * interval_s
    sums.throttled_s += min(use.throttled_percent / _WHOLE, 1) * interval_s
    mean_bytes = use.memory_mean_bytes if use.memory_mean_bytes >= 0 else use.memory_bytes
    sums.byte_s += mean_bytes * interval_s
    sums.peak_bytes = max(sums.peak_bytes, use.memory_bytes, use.memory_peak_bytes)
    sums.gaps |= gaps


def _idle_part(use: CardUse) -> float:
    if use.idle_percent < 0:
        return 0.0 if use.cores_percent > 0 else 1.0
    return min(use.idle_percent / _WHOLE, 1.0)


def _digest(
    grant: Grant, share: Share, card: Card | None, sums: _Sums, times: UseTimes
) -> UseDigest:
    part = 1.0 if share.exclusive else part_of(share.memory_bytes, share.cores_percent, card)
    return UseDigest(
        until=times.until, period_s=times.period_s, namespace=grant.namespace, pod=grant.name,
        container=share.container, card=share.card, model=card.model if card is not None else "",
        part=part, granted_bytes=share.memory_bytes, held_s=times.held_s,
        measured_s=times.measured_s, gpu_s=sums.gpu_s, idle_s=sums.idle_s,
        throttled_s=sums.throttled_s, byte_s=sums.byte_s, peak_bytes=sums.peak_bytes,
        gaps=tuple(sorted(sums.gaps)),
    )  # fmt: skip
