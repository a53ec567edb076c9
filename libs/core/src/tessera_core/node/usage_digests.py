"""From measurements every two seconds to what is published: a digest every ten.

A digest is a NodeUsage over a longer interval: means, sums, the most of each, and the newest of
what is a state (memory, limits, processes). All its measurements have the same containers and
cards, so a container that comes or goes begins another one.

A measurement that says something new is published at once and by itself, once in the time of a
digest: a container that waits, a card that is crowded, much more memory, a gap, another container.
What changes quicker than that is in the digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from tessera_core.node import kernel_times
from tessera_core.usage.crowding import clamped, work_of
from tessera_schema.messages.device_reports import CardLoad, CardUse, ContainerUse, NodeUsage

WAIT_STEP_PERCENT: Final = 25.0
"""So much more of the time that a container waits, or a card is crowded, is published at once."""
MEMORY_STEP_BYTES: Final = 1 << 30
"""And so much more memory of a container on a card."""
_FULL: Final = 100.0

_Places = tuple[set[tuple[str, ...]], set[str]]
"""Containers, each with the cards that it is on, and all cards."""


class NodeUsageDigests:
    """The digests of one agent's measurements."""

    def __init__(self, period_s: float) -> None:
        """A digest covers `period_s` seconds; each measurement is one where these are longer."""
        self._period_s = period_s
        self._parts: list[NodeUsage] = []
        """Measured and not published yet."""
        self._places: _Places = set(), set()
        """Of the last of them: all have the same."""
        self._published: _Published | None = None
        self._early_at = float("-inf")
        """When the last measurement was that was published at once."""

    def add(self, usage: NodeUsage) -> tuple[NodeUsage, ...]:
        """What is to be published after this measurement, the oldest first."""
        due: tuple[NodeUsage, ...] = ()
        places = _places(usage)
        early = self._says_something_new(usage, places)
        if self._parts and (early or places != self._places):
            due = (self._cut(),)
        self._parts.append(usage)
        self._places = places
        covered_s = sum(part.interval_s for part in self._parts)
        if early:
            self._early_at = usage.at
        if early or covered_s + usage.interval_s / 2 >= self._period_s:
            due = (*due, self._cut())
        return due

    def rest(self) -> tuple[NodeUsage, ...]:
        """What was measured and is not published yet, at the end: one digest, or none."""
        return (self._cut(),) if self._parts else ()

    def _cut(self) -> NodeUsage:
        parts, self._parts = self._parts, []
        digest = folded(parts)
        self._published = _Published(digest, self._places)
        return digest

    def _says_something_new(self, usage: NodeUsage, places: _Places) -> bool:
        if self._published is None:
            return True
        if 0 <= usage.at - self._early_at < self._period_s:
            return False
        return self._published.is_less_than(usage, places)


class _Published:
    """A digest, and what measurements are compared with."""

    def __init__(self, digest: NodeUsage, places: _Places) -> None:
        self._places = places
        self._reclaiming = _reclaiming(digest)
        self._work = work_of(digest)
        self._containers = {(use.uid, use.container): use for use in digest.containers}

    def is_less_than(self, usage: NodeUsage, places: _Places) -> bool:
        """Whether the measurement says what those who have the digest are to have at once."""
        if places != self._places or _reclaiming(usage) != self._reclaiming:
            return True
        if any(
            work.crowded_percent >= self._work[card].crowded_percent + WAIT_STEP_PERCENT
            for card, work in work_of(usage).items()
        ):
            return True
        known = self._containers
        return any(_is_more(known[use.uid, use.container], use) for use in usage.containers)


def folded(parts: Sequence[NodeUsage]) -> NodeUsage:
    """One digest of measurements that follow each other, all of the same containers and cards."""
    newest, covered_s = parts[-1], sum(part.interval_s for part in parts)
    weights = [
        part.interval_s / covered_s if covered_s > 0 else 1 / len(parts) for part in parts
    ]  # fmt: skip
    rows = zip(*map(_in_order, parts), strict=True)
    containers = tuple(_container(row, weights) for row in rows)
    loads = [{load.card: load for load in part.cards} for part in parts]
    work = [work_of(part) for part in parts]
    cards = tuple(
        _load(
            [of[load.card] for of in loads],
            _mean((of[load.card].crowded_percent for of in work), weights),
            weights,
        )
        for load in newest.cards
    )
    return replace(newest, interval_s=covered_s, containers=containers, cards=cards)


def _in_order(usage: NodeUsage) -> list[ContainerUse]:
    return sorted(usage.containers, key=lambda each: (each.uid, each.container))


def _places(usage: NodeUsage) -> _Places:
    """Which containers on which cards, and which cards there are."""
    containers = {(c.uid, c.container, *(use.card for use in c.cards)) for c in usage.containers}
    return containers, {load.card for load in usage.cards}


def _reclaiming(usage: NodeUsage) -> set[str]:
    return {load.card for load in usage.cards if load.reclaims}


def _is_more(published: ContainerUse, now: ContainerUse) -> bool:
    if now.gaps and not set(now.gaps) <= set(published.gaps):
        return True
    return any(
        clamped(new.throttled_percent) >= clamped(old.throttled_percent) + WAIT_STEP_PERCENT
        or new.memory_bytes >= old.memory_bytes + MEMORY_STEP_BYTES
        for old, new in zip(published.cards, now.cards, strict=True)
    )


def _container(uses: Sequence[ContainerUse], weights: Sequence[float]) -> ContainerUse:
    gaps = tuple(sorted({gap for use in uses for gap in use.gaps}))
    cards = tuple(_card_use(row, weights) for row in zip(*(u.cards for u in uses), strict=True))
    return replace(uses[-1], cards=cards, gaps=gaps, enforced=all(use.enforced for use in uses))


def _card_use(uses: Sequence[CardUse], weights: Sequence[float]) -> CardUse:
    if _is_idle(uses[0]) and all(use == uses[0] for use in uses):
        uses, weights = uses[:1], (1.0,)
    times = kernel_times.added(use.kernel_times for use in uses)
    p50, p99 = kernel_times.quantiles_us(times, max(use.kernel_p99_us for use in uses))
    return replace(
        uses[-1],
        cores_percent=_mean([use.cores_percent for use in uses], weights),
        cores_peak_percent=max(use.cores_percent for use in uses),
        idle_percent=_mean([0.0 if use.cores_percent > 0 else _FULL for use in uses], weights),
        throttled_percent=_mean([clamped(use.throttled_percent) for use in uses], weights),
        memory_mean_bytes=round(_mean([use.memory_bytes for use in uses], weights)),
        memory_peak_bytes=max(max(use.memory_bytes, use.memory_peak_bytes) for use in uses),
        allocated_bytes_per_s=round(_mean([use.allocated_bytes_per_s for use in uses], weights)),
        launches=sum(use.launches for use in uses),
        kernel_times=times,
        kernel_p50_us=p50,
        kernel_p99_us=p99,
        denials=sum(use.denials for use in uses),
        failed_for_others=sum(use.failed_for_others for use in uses),
    )


def _is_idle(use: CardUse) -> bool:
    """Whether nothing in it is a sum: so are most containers of a node."""
    return not (use.launches or use.denials or use.failed_for_others or use.kernel_times)


def _load(loads: Sequence[CardLoad], crowded: float, weights: Sequence[float]) -> CardLoad:
    said = [(load, weight) for load, weight in zip(loads, weights, strict=True)
            if load.memory_busy_percent >= 0]  # fmt: skip
    total = sum(weight for _, weight in said)
    busy = sum(load.memory_busy_percent * weight for load, weight in said)
    return replace(
        loads[-1],
        cores_percent=_mean((load.cores_percent for load in loads), weights),
        memory_busy_percent=busy / total if total > 0 else -1.0,
        crowded_percent=crowded,
    )


def _mean(values: Iterable[float], weights: Sequence[float]) -> float:
    return sum([value * weight for value, weight in zip(values, weights, strict=True)])
