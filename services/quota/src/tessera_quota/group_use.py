"""What is held, requested and measured in groups of namespaces, as one round of all quotas sees it.

Pods are read once a round, however many quotas count them: sums are made by namespace, and then by
group. Quotas of one group share them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from tessera_core.quota.allowance import QuotaUsage, Uses
from tessera_core.quota.status import Measured, PendingUse, counts, pending
from tessera_quota.idle_grants import IdlePod
from tessera_quota.pods import QuotaPods
from tessera_quota.usage import UsageListener
from tessera_schema.quotas import Limit

ModelKey = tuple[str, str]
"""Vendor and model."""
_AT_ONCE: Final = 500
"""Pods read before other tasks on the loop run: some milliseconds."""


class GroupUse(Struct, frozen=True, kw_only=True):
    """One namespace, or several together."""

    used: Uses = {}
    assumed: Uses = {}
    """The part of it that has not started."""
    silent: int = 0
    """Running pods of which nothing was measured lately."""
    pending: Mapping[str, PendingUse] = {}
    """See `tessera_core.quota.status.pending`."""
    measured: Mapping[str, Measured] = {}
    """By vendor."""
    gpu_seconds: Mapping[str, float] = {}
    """Vendor -> GPU time since the start."""
    idle: tuple[IdlePod, ...] = ()
    """The pod that is idle longest first."""

    def measured_by(self, vendor: str) -> Measured:
        """What is measured of a vendor's cards; an empty name is all of them."""
        mine = [each for name, each in self.measured.items() if vendor in ("", name)]
        return Measured(sum(m.memory_bytes for m in mine), sum(m.cores_percent for m in mine))

    def gpu_seconds_of(self, vendor: str) -> float:
        """GPU time of a vendor's cards; an empty name is all of them."""
        return sum(each for name, each in self.gpu_seconds.items() if vendor in ("", name))


class RoundUse:
    """The sums of one round."""

    def __init__(
        self, pods: QuotaPods, usage: UsageListener, idle_before: float,
        on_idle: Callable[[IdlePod], None],
    ) -> None:  # fmt: skip
        """A pod is idle that had no GPU time since `idle_before`, Unix time. `on_idle` is called
        with those that a quota counts."""
        self._pods = pods
        self._usage = usage
        self._idle_before = idle_before
        self._on_idle = on_idle
        self._namespaces: dict[str, GroupUse] = {}
        self._groups: dict[tuple[str, ...], GroupUse] = {}
        self._idle: dict[tuple[tuple[str, ...], str], list[IdlePod]] = {}

    async def read(self, group: tuple[str, ...]) -> None:
        """Make the sums of a group's namespaces; other tasks on the loop run in between."""
        count = 0
        for name in group if group not in self._groups else ():
            if name not in self._namespaces:
                self._namespaces[name] = self._of_namespace(name)
                count += len(self._pods.group(name)) + 1
            if count >= _AT_ONCE:
                count = 0
                await asyncio.sleep(0)

    def of(self, group: tuple[str, ...]) -> GroupUse:
        """The sums of a group."""
        found = self._groups.get(group)
        if found is None:
            for name in group:
                if name not in self._namespaces:
                    self._namespaces[name] = self._of_namespace(name)
            each = [self._namespaces[name] for name in group]
            found = self._groups[group] = each[0] if len(each) == 1 else _together(each)
        return found

    def idle(self, limit: Limit) -> Sequence[IdlePod]:
        """The idle pods that the limit counts, the one that is idle longest first."""
        key = limit.group, limit.vendor
        found = self._idle.get(key)
        if found is None:
            every = self.of(limit.group).idle
            found = self._idle[key] = [one for one in every if counts(limit, one.entry.uses)]
            for one in found:
                self._on_idle(one)
        return found

    def _of_namespace(self, name: str) -> GroupUse:
        used: dict[ModelKey, QuotaUsage] = {}
        assumed: dict[ModelKey, QuotaUsage] = {}
        silent, idle = 0, list[IdlePod]()
        for pod, entry in self._pods.holding(name):
            _add(used, entry.uses)
            if not pod.runs:
                _add(assumed, entry.uses)
                continue
            active = self._usage.last_active(pod.uid)
            if active is None:
                silent += 1
            elif pod.started and max(active, pod.started) <= self._idle_before:
                idle.append(IdlePod(pod, max(active, pod.started), entry))
        return GroupUse(
            used=used, assumed=assumed, silent=silent,
            pending=pending(self._pods.waiting(name)),
            measured=self._usage.measured(name),
            gpu_seconds=dict(self._usage.gpu_seconds(name)),
            idle=tuple(sorted(idle, key=_longest)),
        )  # fmt: skip


def _longest(one: IdlePod) -> tuple[float, str]:
    return one.since, one.pod.name


def _add(total: dict[ModelKey, QuotaUsage], uses: Uses) -> None:
    for key, use in uses.items():
        total[key] = total[key].plus(use) if key in total else use


def _together(each: Sequence[GroupUse]) -> GroupUse:
    used: dict[ModelKey, QuotaUsage] = {}
    assumed: dict[ModelKey, QuotaUsage] = {}
    waiting: dict[str, PendingUse] = {}
    measured: dict[str, Measured] = {}
    gpu_seconds: dict[str, float] = {}
    for one in each:
        _add(used, one.used)
        _add(assumed, one.assumed)
        for vendor, (pods, total) in one.pending.items():
            had = waiting.get(vendor, PendingUse())
            waiting[vendor] = PendingUse(had.pods + pods, had.usage.plus(total))
        for vendor, (memory, cores) in one.measured.items():
            before = measured.get(vendor, Measured())
            measured[vendor] = Measured(before.memory_bytes + memory, before.cores_percent + cores)
        for vendor, seconds in one.gpu_seconds.items():
            gpu_seconds[vendor] = gpu_seconds.get(vendor, 0) + seconds
    return GroupUse(
        used=used, assumed=assumed, silent=sum(one.silent for one in each), pending=waiting,
        measured=measured, gpu_seconds=gpu_seconds,
        idle=tuple(sorted((pod for one in each for pod in one.idle), key=_longest)),
    )  # fmt: skip
