"""What the driver measured of containers' GPU time, told to their hooks through the limits files.

A hook measures its launches by events, which include the time slices of others on the card. Until
it hears what its container really had, it gives it too much or too little. So containers whose
cores are limited hear of every answer of the driver; the others, of which this only makes the
figures right, as often as usage is told. Who was not busy hears nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

from tessera_agent.containers.hook_files import ContainerFiles, ContainerKey
from tessera_agent.usage.busy_time import GpuBusyCounters
from tessera_agent.usage.process_owners import Owners
from tessera_agent.usage.sampler import MeasuredContainer
from tessera_agent.usage.usage_counters import record_of
from tessera_core.dialect_kit.readings import CardReading, Readings
from tessera_core.hook.limits_file import CardLimit
from tessera_core.hook.records import uuid_key
from tessera_core.hook.usage_file import CARD
from tessera_core.node.usage_rates import ANEW_NS, RawCounter, counted_at, is_limited, measured
from tessera_runtime import logs
from tessera_runtime.clock import Clock

_log: Final = logs.named("tessera.agent.correcting")
_RAW: Final = slice(CARD.offsets["raw_ns"], CARD.offsets["raw_ns"] + CARD.field_size("raw_ns"))
_MOST: Final = (1 << 63) - 1


class _Part(NamedTuple):
    """One container on one card."""

    key: ContainerKey
    card: str
    """As `uuid_key` spells it."""


class LimitCorrections:
    """Remembers what was measured and not told yet, and tells it."""

    def __init__(self, owners: Owners, clock: Clock) -> None:
        """Nothing has been measured."""
        self._owners = owners
        self._clock = clock
        self._busy = GpuBusyCounters()
        self._whose: dict[int, str] = {}
        """Process -> its container: one that has ended is asked for in vain."""
        self._owed: dict[_Part, int] = {}
        """Nanoseconds."""
        self._counted: dict[_Part, RawCounter] = {}
        """The hook's own figure when it was looked at last."""
        self._told: set[_Part] = set()
        """Those that have heard of this agent's measurements."""
        self.failed = 0
        """Measurements that could not be written; they are told with the next."""

    def write(
        self, watched: Mapping[ContainerKey, MeasuredContainer], read: Readings, *, everyone: bool
    ) -> None:
        """Take in one answer of the driver, and tell the hooks of containers whose cores are
        limited, or of `everyone`, what is owed to them. Answers must come in their order. Blocks
        for the files' sake: call it from a thread, one call at a time. Never raises."""
        pids = {process.pid for card in read.cards for process in card.processes}
        self._whose = {p: self._whose.get(p) or self._owners.container_of(p) for p in pids}
        by_id = {one.id: (key, one.files) for key, one in watched.items() if one.id and one.files}
        self._owed = {part: ns for part, ns in self._owed.items() if part.key in watched}
        self._counted = {part: at for part, at in self._counted.items() if part.key in watched}
        self._told = {part for part in self._told if part.key in watched}
        for card in read.cards:
            for id_, busy_ns in self._fresh(card).items():
                if id_ in by_id:
                    key, files = by_id[id_]
                    part = _Part(key, uuid_key(card.id))
                    self._owed[part] = self._owed.get(part, 0) + busy_ns
                    limit = _limit(files, part.card)
                    if limit is not None and (everyone or is_limited(limit)):
                        self._settle(part, files, limit, card.sampled_us)

    def _fresh(self, card: CardReading) -> dict[str, int]:
        """Container's id -> nanoseconds since the answer before, of those with a process there."""
        found: dict[str, int] = {}
        for pid, busy_ns in (self._busy.since(card) or {}).items():
            owner = self._whose[pid]
            found[owner] = found.get(owner, 0) + busy_ns
        return found

    def _settle(
        self, part: _Part, files: ContainerFiles, limit: CardLimit, sampled_us: int
    ) -> None:
        """Tell what is owed. An idle one's figure is looked at all the same: it may begin to work
        before the next answer."""
        raw_ns = _raw_ns(files, part.card)
        if raw_ns is None:
            return  # nothing to hold it against
        before, now = self._counted.get(part), RawCounter(self._clock.time_ns(), raw_ns)
        self._counted[part] = now
        if not self._owed[part]:
            return
        # Of what an agent before this one told last, nobody knows what came after it.
        leap_ns = ANEW_NS if limit.measured_at_ns and part not in self._told else 0
        told = partial(
            measured, busy_ns=self._owed[part] + leap_ns, wall_ns=now.at_ns,
            counted_ns=counted_at(sampled_us * 1000, before, now),
        )  # fmt: skip
        try:
            files.change_card(limit.uuid, told)
        except (OSError, ValueError) as e:
            self.failed += 1
            _log.warning(
                "measurement not written", why=str(e), container=files.limits.container
            )  # fmt: skip
        else:
            del self._owed[part]
            self._told.add(part)


def _limit(files: ContainerFiles, card: str) -> CardLimit | None:
    return next((limit for limit in files.limits.cards if uuid_key(limit.uuid) == card), None)


def _raw_ns(files: ContainerFiles, card: str) -> int | None:
    """What the hook has counted on the card; None where it has not, or the file is not its own."""
    try:
        fd = files.open_usage()
        try:
            found = record_of(fd, card)
        finally:
            os.close(fd)
    except OSError:
        return None
    return None if found is None else min(int.from_bytes(found[1][_RAW], sys.byteorder), _MOST)
