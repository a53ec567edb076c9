"""Keeps the statuses of PodGroups and queues in step with gangs and pods.

Changes are gathered for a second; only what differs is written, and only by the replica that leads.
What differs in the words of a condition alone waits for half a minute, so that gangs that wait for
long cost few writes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from tessera_core.gang_status.enqueue import EnqueueRoom, named_amounts
from tessera_core.gang_status.groups import NO_GANG, GangSituation, StatusGroup
from tessera_core.gang_status.koordinator import koordinator_status
from tessera_core.gang_status.patches import only_words, status_patch
from tessera_core.gang_status.pod_counts import PodCounts, count_pods, requested
from tessera_core.gang_status.volcano import INQUEUE, PENDING, volcano_phase, volcano_status
from tessera_core.gang_status.writers import other_writer
from tessera_core.gangs.gang import GangOrigin
from tessera_runtime.kube.timestamps import format_time, parse_time
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_scheduler.gang_status.objects import StatusGroups, StatusQueues
from tessera_scheduler.gang_status.pods import GroupPods
from tessera_scheduler.gang_status.writes import MANAGER, StatusWrites
from tessera_schema.kube import Node

WORDS_S: Final = 30.0
"""Seconds between two writes that change only words."""
MOST_AGAIN_S: Final = 60
"""Seconds, at most, until a write that failed is tried again."""
_SLICE: Final = 200
"""Groups that are looked through at a time."""

OtherWriter = Callable[[StatusGroup, str], object]
"""Called with a group and who else writes it."""


class _GroupRecord(Struct):
    """What is known of one group."""

    counts: PodCounts = PodCounts()
    requested: Mapping[str, int] = {}
    situation: GangSituation = NO_GANG
    dirty: bool = True
    written: float = float("-inf")
    sent: bytes = b""
    """The last patch that was done. The same again, for the same version, would do nothing: a
    definition without the status' fields drops them."""
    failures: int = 0
    not_before: float = 0.0


class GroupStatusWriter:
    """Writes the statuses of PodGroups."""

    def __init__(
        self,
        *,
        groups: Iterable[StatusGroups],
        queues: StatusQueues,
        pods: GroupPods,
        nodes: Callable[[], Iterable[Node]],
        writes: StatusWrites,
        clock: MonotonicClock,
    ) -> None:
        """`nodes` gives all nodes."""
        self._groups = tuple(groups)
        self._queues = queues
        self._pods = pods
        self._nodes = nodes
        self._writes = writes
        self._clock = clock
        self._records: dict[str, _GroupRecord] = {}
        self._others: set[str] = set()
        """Ids of groups that somebody else writes."""

    @property
    def others(self) -> int:
        """How many groups are not written because somebody else writes them."""
        return len(self._others)

    def allocated(self) -> dict[str, Counter[str]]:
        """Volcano's queue -> what the pods of its groups request that have a node."""
        total: dict[str, Counter[str]] = {}
        for group in self._of(GangOrigin.VOLCANO):
            queue = group.spec.queue or "default"
            total.setdefault(queue, Counter()).update(self._records[group.id].requested)
        return total

    async def write(self, situations: Mapping[str, GangSituation], on_other: OtherWriter) -> None:
        """Write what differs, once. `on_other` is called for each group that somebody else has
        begun to write."""
        await self._refresh(situations)
        patches = [*self._patches(on_other)]
        failed = await self._writes.all(patches, self._put) if patches else set()
        now = self._clock.time()
        for group, _ in patches:
            record = self._records.get(group.id)
            if record is not None and group.id in failed:
                record.failures += 1
                record.sent = b""
                record.dirty, record.not_before = True, now + min(2**record.failures, MOST_AGAIN_S)
            elif record is not None:
                record.failures, record.written = 0, now

    # -- what has changed

    async def _refresh(self, situations: Mapping[str, GangSituation]) -> None:
        self._pods.expire()
        changed = set(self._pods.changed)
        self._pods.changed.clear()
        known: set[str] = set()
        for groups in self._groups:
            known |= groups.known.keys()
            for gang in groups.changed:
                self._records.setdefault(gang, _GroupRecord()).dirty = True
            changed |= groups.changed
            groups.changed.clear()
        for gang in self._records.keys() - known:
            del self._records[gang]
        self._others &= known
        for number, gang in enumerate(sorted(known)):
            record = self._records.setdefault(gang, _GroupRecord())
            situation = situations.get(gang, NO_GANG)
            if gang in changed:
                pods = self._pods.of(gang)
                record.counts, record.requested = count_pods(pods), requested(pods)
            if gang in changed or situation != record.situation:
                record.situation, record.dirty = situation, True
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)

    def _of(self, origin: GangOrigin) -> Iterator[StatusGroup]:
        for groups in self._groups:
            if groups.origin is origin:
                yield from (each for each in groups.known.values() if each.id in self._records)

    def _put(self, group: StatusGroup, raw: bytes) -> None:
        for groups in self._groups:
            if groups.origin is group.origin and group.id in groups.known:
                groups.put(groups.read(raw))

    # -- what is written

    def _patches(self, on_other: OtherWriter) -> Iterator[tuple[StatusGroup, bytes]]:
        now = self._clock.time()
        text = format_time(now)
        yield from self._volcano(now, text, on_other)
        for group in self._of(GangOrigin.KOORDINATOR):
            record = self._records[group.id]
            if record.dirty:
                status = koordinator_status(group, record.counts, text)
                yield from self._patch(group, status, now, on_other)

    def _volcano(
        self, now: float, text: str, on_other: OtherWriter
    ) -> Iterator[tuple[StatusGroup, bytes]]:
        room: EnqueueRoom | None = None
        groups = sorted(
            self._of(GangOrigin.VOLCANO), key=lambda each: each.metadata.creation_timestamp or ""
        )
        for group in groups:
            record = self._records[group.id]
            phase = volcano_phase(
                group, record.counts, unschedulable=record.situation.unschedulable
            )
            may_enter = False
            if phase == PENDING:
                room = room or self._room(groups)
                may_enter = not room.problem(group)
                if may_enter:
                    room.hold(group, record.requested)
            if record.dirty or may_enter:
                status = volcano_status(
                    group, record.counts, record.situation, may_enter=may_enter, now=text
                )
                yield from self._patch(group, status, now, on_other)

    def _room(self, groups: Iterable[StatusGroup]) -> EnqueueRoom:
        total: Counter[str] = Counter()
        for node in self._nodes():
            total.update(named_amounts(node.status.allocatable or node.status.capacity))
        queues = [each.queue for each in self._queues.known.values()]
        room = EnqueueRoom(queues, self.allocated(), total)
        for group in groups:
            if group.phase == INQUEUE:
                room.hold(group, self._records[group.id].requested)
        return room

    def _patch(
        self, group: StatusGroup, status: Mapping[str, Any], now: float, on_other: OtherWriter
    ) -> Iterator[tuple[StatusGroup, bytes]]:
        record = self._records[group.id]
        patch = status_patch(group, status)
        if not patch:
            record.dirty = False
            self._others.discard(group.id)
            return
        words = only_words(group, status) and now - record.written < WORDS_S
        if words or now < record.not_before or patch == record.sent:
            return
        other = other_writer(group, MANAGER, now, parse_time)
        if other:
            if group.id not in self._others:
                self._others.add(group.id)
                on_other(group, other)
            return
        self._others.discard(group.id)
        record.dirty, record.sent = False, patch
        yield group, patch
