"""Gives hooks what the driver measured of their containers' GPU time, through the limits files.

A hook measures its launches by events, which include the time slices of others on the card. Until
it gets what its container really had, it grants too much or too little. So hooks whose cores are
limited get every answer of the driver; the others, of which this only makes the figures right, get
it as often as usage is published. A container that was not busy gets nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Final, NoReturn, Protocol

from tessera_agent.containers.holdings import ContainerRegistry, ContainerStage, Holding
from tessera_agent.containers.hook_files import ContainerFiles, ContainerKey
from tessera_agent.devices.monitor import DeviceMonitor
from tessera_agent.usage.busy_time import GpuBusyCounters
from tessera_agent.usage.process_owners import Owners
from tessera_agent.usage.usage_counters import OpenUsageFiles, UsageRecord
from tessera_core.dialect_kit.readings import CardReading, Readings
from tessera_core.hook.limits_file import CardLimit
from tessera_core.hook.records import uuid_key
from tessera_core.hook.usage_counters import read_raw_ns
from tessera_core.node.usage_rates import RESTART_NS, RawCounter, counted_at, is_limited
from tessera_runtime import logs
from tessera_runtime.clock import Clock

_log: Final = logs.named("tessera.agent.correcting")
_MOST: Final = (1 << 63) - 1


class HookedContainer(Protocol):
    """A running container, as its holding or a measurement has it."""

    @property
    def id(self) -> str:
        """As the runtime knows it."""
        ...

    @property
    def files(self) -> ContainerFiles | None:
        """None where the vendor's own tools limit it."""
        ...


class _Part:
    """One container on one card."""

    __slots__ = ("counted", "files", "is_written", "owed_ns", "record", "uuid")

    def __init__(self, files: ContainerFiles, uuid: str, record: UsageRecord) -> None:
        self.files = files
        self.uuid = uuid
        """The card, as its limits spell it."""
        self.record = record
        self.owed_ns = 0
        self.counted: RawCounter | None = None
        """The hook's own figure when it was read last."""
        self.is_written = False
        """It got a measurement of this agent."""

    @property
    def limit(self) -> CardLimit:
        """As it is now."""
        return next(card for card in self.files.limits.cards if card.uuid == self.uuid)


class LimitCorrections:
    """Writes measurements into limits files, and remembers those that are not written yet."""

    def __init__(self, owners: Owners, clock: Clock) -> None:
        self._owners = owners
        self._clock = clock
        self._busy = GpuBusyCounters()
        self._whose: dict[int, str] = {}
        """Process -> its container, which cannot be found any more once the process has ended."""
        self._watched: Mapping[ContainerKey, HookedContainer] = {}
        """As given last."""
        self._parts: dict[str, dict[str, _Part]] = {}
        """Card, as `uuid_key` spells it -> container's id -> its part of the card."""
        self._usage_files = OpenUsageFiles(0)
        self._working = threading.Lock()
        self.failed = 0
        """Measurements that could not be written; they are written with the next."""

    def write(
        self, watched: Mapping[ContainerKey, HookedContainer], read: Readings, *, everyone: bool
    ) -> None:
        """Take one answer of the driver, and write what is owed to the hooks of containers whose
        cores are limited, or of `everyone`. Answers must come in their order. Blocks for the
        files' sake: call it from a thread, one call at a time. Never raises."""
        with self._working:
            self._write(watched, read, everyone=everyone)

    def _write(
        self, watched: Mapping[ContainerKey, HookedContainer], read: Readings, *, everyone: bool
    ) -> None:
        pids = {process.pid for card in read.cards for process in card.processes}
        self._whose = {p: self._whose.get(p) or self._owners.container_of(p) for p in pids}
        if watched is not self._watched:
            self._watch(watched)
        for card in read.cards:
            fresh, parts = self._busy.since(card), self._parts.get(uuid_key(card.id), {})
            for id_, busy_ns in self._by_container(card, fresh or {}).items():
                part = parts.get(id_)
                if part is None:
                    continue
                part.owed_ns += busy_ns
                limit = part.limit
                due = fresh is not None and (everyone or is_limited(limit))
                if due or part.counted is None:
                    self._settle(part, limit, card.sampled_us)

    def _watch(self, watched: Mapping[ContainerKey, HookedContainer]) -> None:
        """From now on; what is known of those that stay is remembered."""
        self._watched = watched
        self._usage_files.keep_only(watched.keys())
        before, self._parts = self._parts, {}
        for key, one in watched.items():
            files = one.files
            if files is None or not one.id:
                continue
            for limit in files.limits.cards:
                card = uuid_key(limit.uuid)
                part = before.get(card, {}).get(one.id)
                if part is None or part.files is not files:
                    record = self._usage_files.record(key, files, limit.uuid)
                    part = _Part(files, limit.uuid, record)
                self._parts.setdefault(card, {})[one.id] = part

    def end(self) -> None:
        """Close what is open, once nothing is written any more."""
        with self._working:
            self._usage_files.keep_only(())

    def _by_container(self, card: CardReading, busy: Mapping[int, int]) -> dict[str, int]:
        """Container's id -> nanoseconds, of those with a process there."""
        found: dict[str, int] = {}
        for process in card.processes:
            owner = self._whose[process.pid]
            found[owner] = found.get(owner, 0) + busy.get(process.pid, 0)
        return found

    def _settle(self, part: _Part, limit: CardLimit, sampled_us: int) -> None:
        """Write what is owed. The figure of an idle container is read all the same: it may begin to
        work before the next answer. At first it is only read: without a figure before it, what was
        counted when the sample ended is unknown, and a first window that is wrong by a part of the
        sample's age has the hook grant too little, then too much, for half a minute."""
        data = part.record.data()
        if data is None:
            return  # the hook has no figure to compare with
        before = part.counted
        part.counted = now = RawCounter(self._clock.time_ns(), min(read_raw_ns(data), _MOST))
        if before is None or not part.owed_ns:
            return
        # It is unknown what the hook counted after the last measurement of an earlier agent.
        leap_ns = RESTART_NS if limit.measured_at_ns and not part.is_written else 0
        counted_ns = counted_at(sampled_us * 1000, before, now)
        try:
            part.files.measure(part.uuid, part.owed_ns + leap_ns, counted_ns, now.at_ns)
        except (OSError, ValueError) as e:
            self.failed += 1
            _log.warning(
                "measurement not written", why=str(e), container=part.files.limits.container
            )  # fmt: skip
        else:
            part.owed_ns, part.is_written = 0, True


class CorrectionLoop:
    """Has each answer of the driver written into the limits files that need it."""

    def __init__(
        self, holdings: ContainerRegistry, devices: DeviceMonitor, corrections: LimitCorrections,
        *, interval_s: float,
    ) -> None:  # fmt: skip
        """`interval_s`: seconds after which all hooks get a measurement, limited or not."""
        self._holdings = holdings
        self._devices = devices
        self._corrections = corrections
        self._interval_s = interval_s
        self._everyone_at = float("-inf")
        self._changes = -1
        """`ContainerRegistry.changes` when those that run were read last."""
        self._hooked: dict[ContainerKey, Holding] = {}

    async def run(self) -> NoReturn:
        """Correct at each answer of the driver, for ever."""
        try:
            while True:
                await self._devices.answered.wait()
                self._devices.answered.clear()
                await self.correct()
        finally:
            self._corrections.end()

    def _running(self) -> dict[ContainerKey, Holding]:
        """The same object as before where nothing changed."""
        if self._changes != self._holdings.changes:
            self._changes = self._holdings.changes
            self._hooked = {
                h.key: h
                for h in self._holdings
                if h.stage is ContainerStage.RUNNING and h.files is not None
            }
        return self._hooked

    async def correct(self) -> None:
        """Write what the driver's last answer says of the containers."""
        now, read = asyncio.get_running_loop().time(), self._devices.readings
        hooked = self._running()
        timed = {uuid_key(card.id) for card in read.cards if card.sampled_us}
        self._devices.closely = any(
            is_limited(limit) and uuid_key(limit.uuid) in timed
            for one in hooked.values() if one.files is not None
            for limit in one.files.limits.cards
        )  # fmt: skip
        everyone = now >= self._everyone_at
        if not hooked or not timed or not (everyone or self._devices.closely):
            return
        if everyone:
            self._everyone_at = now + self._interval_s
        await asyncio.to_thread(self._corrections.write, hooked, read, everyone=everyone)
