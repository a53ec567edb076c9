"""What the node's containers use of one vendor's cards: a sample of all usage files and of the
driver's figures of their processes, every few seconds.

It is published as NodeUsage; what hooks get of it, more often, is `limit_correction`'s part.
Nothing that a container writes can make a sample fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tessera_agent.containers.holdings import Holding
from tessera_agent.containers.hook_files import ContainerFiles, ContainerKey
from tessera_agent.containers.mounts import MountChecker
from tessera_agent.usage.busy_time import GpuBusyCounters
from tessera_agent.usage.driver_evidence import DriverEvidence
from tessera_agent.usage.process_owners import Owners
from tessera_agent.usage.quiet_containers import QuietContainers
from tessera_agent.usage.settings import UsageSettings
from tessera_core.dialect_kit.readings import Readings
from tessera_core.hook.records import uuid_key
from tessera_core.hook.usage_file import Gap, Garbled, Spoilt, Unbuilt, UsageFile, UsageFileBounds
from tessera_core.node.usage_rates import (
    DriverSample,
    HoldingContainer,
    Tolerance,
    UsageSample,
    use_between,
)
from tessera_schema.cards import MIB, Card
from tessera_schema.messages.device_reports import CardLoad, ContainerUse, NodeUsage

_SAMPLES_SEEN: Final = 3
"""Samples for which it counts that the driver saw a container work."""
_OWNER_S: Final = 30.0
"""Seconds after which the owner of each process is read again: its number may be reused."""
_RECENT_HOURS: Final = 2
"""The running one, which may just have begun, and the one before."""


class MeasuredContainer(Struct, frozen=True, kw_only=True):
    """A running container that holds shares."""

    held: HoldingContainer
    files: ContainerFiles | None = None
    """None where the vendor's own tools limit it."""
    id: str = ""
    """As the runtime knows it."""
    pid: int = 0
    """Its first process; 0 = not known."""


def measured_container(held: Holding) -> MeasuredContainer:
    """A container of the registry, as samples need it."""
    limits = held.files.limits if held.files is not None else held.limits
    return MeasuredContainer(
        held=HoldingContainer(
            namespace=held.pod.namespace, pod=held.pod.name, uid=held.key.uid,
            container=held.key.container, limits=limits, hooked=held.hooked,
        ),
        files=held.files, id=held.id, pid=held.pid,
    )  # fmt: skip


class Moment(Struct, frozen=True, kw_only=True):
    """When a sample is taken, by both clocks."""

    at_s: float
    """Never jumps."""
    wall_ns: int


class Sampler:
    """Samples all containers, and remembers the sample before."""

    def __init__(
        self, node: str, vendor: str, settings: UsageSettings, owners: Owners, mounts: MountChecker
    ) -> None:
        self._mounts = mounts
        self._node = node
        self._vendor = vendor
        self._settings = settings
        self.owners = owners
        self.evidence = DriverEvidence(settings.interval_s * _SAMPLES_SEEN)
        self._busy = GpuBusyCounters()
        self._whose: dict[int, str] = {}
        """Process -> its container, from one sample to the next: to read it takes long."""
        self._whose_until = float("-inf")
        self._before: dict[ContainerKey, UsageSample] = {}
        self._quiet = QuietContainers()
        self._at_s: float | None = None
        self.spoilt: Counter[Spoilt] = Counter()
        """Reads of usage files that could not be believed, by what was wrong."""

    def sample(
        self,
        watched: Mapping[ContainerKey, MeasuredContainer],
        cards: tuple[Card, ...],
        read: Readings,
        at: Moment,
    ) -> NodeUsage:
        """What was used since the last sample. Blocks for the files' sake: call it from a thread,
        one call at a time. Never raises."""
        driven, pids = self._driven(read, at.at_s)
        timed = {uuid_key(card.id) for card in read.cards if card.sampled_us}
        self.evidence.note(driven, timed, at.at_s)
        interval_s = at.at_s - self._at_s if self._at_s is not None else 0.0
        self._at_s = at.at_s
        tolerance = Tolerance(
            memory_bytes=self._settings.slack_mib * MIB,
            overhead_bytes=self._settings.overhead_mib * MIB,
            context_bytes=self._settings.context_mib * MIB,
            card_bytes={uuid_key(card.id): card.memory_bytes for card in cards},
        )
        samples: dict[ContainerKey, UsageSample] = {}
        uses = []
        self._quiet.begin(watched.keys())
        for number, (key, one) in enumerate(watched.items()):
            does, before = driven.get(one.id, {}) if one.id else {}, self._before.get(key)
            if (
                one.files and before and before.settled
                and self._quiet.go_on(number, key, one.files, before, does, at.wall_ns)
            ):  # fmt: skip
                uses.append(before.settled[1])
                samples[key] = replace(before, at_s=at.at_s, wall_ns=at.wall_ns)
                continue
            sample = UsageSample(
                at_s=at.at_s,
                wall_ns=at.wall_ns,
                usage=self._usage(one, tolerance, at),
                driven=does,
                seen=self._gaps(one, pids.get(one.id, ())),
            )
            held = replace(one.held, limits=one.files.limits) if one.files else one.held
            use, samples[key] = use_between(held, before, sample, tolerance)
            uses.append(use)
        self._before = samples
        return self._node_usage(uses, cards, read, at, interval_s)

    def end(self) -> None:
        """Close what is open, once no sample is taken any more."""
        self._quiet.begin(())

    def recent_peaks(self) -> dict[tuple[str, str, str], int]:
        """Pod's uid, container, card's key -> the most memory of this hour and the one before."""
        return {
            (key.uid, key.container, card): peaks.peak_bytes(_RECENT_HOURS)
            for key, sample in self._before.items()
            for card, peaks in sample.peaks.items()
        }

    def _usage(
        self, one: MeasuredContainer, tolerance: Tolerance, at: Moment
    ) -> UsageFile | Unbuilt | Garbled:
        if one.files is None:
            return Unbuilt()
        memory = dict(tolerance.card_bytes)
        for limit in one.files.limits.cards:
            key = uuid_key(limit.uuid)
            memory[key] = max(memory.get(key, 0), limit.memory_bytes)
        usage = one.files.read(UsageFileBounds(memory_bytes=memory, now_ns=at.wall_ns))
        if isinstance(usage, Garbled):
            self.spoilt[usage.why] += 1
        return usage

    def _gaps(self, one: MeasuredContainer, pids: Sequence[int]) -> frozenset[Gap]:
        if one.files is None:
            return frozenset()
        changed = self._mounts.are_changed(one.id, one.files.limits_path, (one.pid, *pids))
        return frozenset({Gap.MOUNTS}) if changed else frozenset()

    def _driven(
        self, read: Readings, at_s: float
    ) -> tuple[dict[str, dict[str, DriverSample]], dict[str, list[int]]]:
        """Container's id -> card's key -> what its processes do there; and which these are."""
        found: dict[str, dict[str, DriverSample]] = {}
        pids: dict[str, list[int]] = {}
        there = {process.pid for card in read.cards for process in card.processes}
        if at_s >= self._whose_until:
            self._whose, self._whose_until = {}, at_s + _OWNER_S
        self._whose = {p: self._whose.get(p) or self.owners.container_of(p) for p in there}
        for card in read.cards:
            grown = self._busy.since(card)
            for process in card.processes:
                busy_ns = grown.get(process.pid, 0) if grown is not None else -1
                owner = self._whose[process.pid]
                if owner:
                    pids.setdefault(owner, []).append(process.pid)
                    known = found.setdefault(owner, {})
                    known[uuid_key(card.id)] = _more(
                        known.get(uuid_key(card.id), DriverSample()), process.memory_bytes, busy_ns
                    )
        return found, pids

    def _node_usage(
        self,
        uses: list[ContainerUse],
        cards: tuple[Card, ...],
        read: Readings,
        at: Moment,
        interval_s: float,
    ) -> NodeUsage:
        healthy = {card.id: card.healthy for card in cards}
        return NodeUsage(
            node=self._node, vendor=self._vendor, at=at.wall_ns / 1e9, interval_s=interval_s,
            containers=tuple(uses),
            cards=tuple(
                CardLoad(
                    card=card.id, memory_used_bytes=card.memory_used_bytes,
                    cores_percent=max(card.busy_percent, 0),
                    memory_busy_percent=card.memory_busy_percent,
                    healthy=healthy.get(card.id, False),
                )
                for card in read.cards
            ),
        )  # fmt: skip


def _more(known: DriverSample, memory_bytes: int, busy_ns: int) -> DriverSample:
    return DriverSample(
        memory_bytes=known.memory_bytes + memory_bytes,
        busy_ns=max(known.busy_ns, 0) + busy_ns if busy_ns >= 0 else known.busy_ns,
        processes=known.processes + 1,
    )
