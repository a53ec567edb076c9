"""From two looks at one container's usage file to what it used in between, and whether anything
shows that its limits do not hold.

The file is the container's to write. So rates stay within what the time between the looks allows,
and what the driver says about the container's processes is held against what the file claims: a
difference is reported, never corrected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.hook.limits_file import LEAST_PERMILLE, CardLimit, HookLimits, Mode
from tessera_core.hook.records import uuid_key
from tessera_core.hook.usage_file import (
    CONTEXT,
    HOUR_NS,
    MANAGED,
    SLOTS,
    TIMES,
    CardRecord,
    Gap,
    Garbled,
    SlotUse,
    Unbuilt,
    UsageFile,
)
from tessera_core.node import kernel_times
from tessera_core.node.memory_peaks import HourlyPeaks
from tessera_schema.messages.device_reports import DRIVER, CardUse, ContainerUse

_SECOND: Final = 1_000_000_000
_MOST_BYTES_PER_S: Final = 1 << 53
"""No card is so fast, and JSON carries it exactly."""
_FULL: Final = 1000
"""Permille from which cores are not limited."""
RESTART_NS: Final = 2000 * _SECOND
"""More than can have been measured in one go: a hook that reads it starts again, and holds what
it counted while nobody measured against nothing."""

Suspicion = tuple[str, Gap]
"""Card's key and what looks wrong there."""


class HoldingContainer(Struct, frozen=True, kw_only=True):
    """A container that holds shares of one vendor's cards."""

    namespace: str
    pod: str
    uid: str
    container: str
    limits: HookLimits
    hooked: bool = True
    """False where the vendor's own tools limit it: there is no usage file to look at."""


class DriverSample(Struct, frozen=True, kw_only=True):
    """What the driver says about one container's processes on one card."""

    memory_bytes: int = 0
    busy_ns: int = -1
    """Time that they kept the card busy since the look before; below 0 = it did not say."""
    processes: int = 0


_NOT_DRIVEN: Final = DriverSample()


class UsageSample(Struct, frozen=True, kw_only=True):
    """One look at one container."""

    at_s: float
    """By a clock that never jumps."""
    wall_ns: int
    usage: UsageFile | Unbuilt | Garbled
    driven: Mapping[str, DriverSample] = {}
    """Card's key (`uuid_key`) -> its driver's view."""
    seen: frozenset[Gap] = frozenset()
    """Gaps that neither file nor driver show."""
    suspicions: frozenset[Suspicion] = frozenset()
    """Reported when the next look has them too: file and driver are not read at one moment."""
    peaks: Mapping[str, HourlyPeaks] = {}
    """Card's key -> the most memory that the container had there, this look included."""
    settled: tuple[HoldingContainer, ContainerUse] | None = None
    """Who was looked at, and what it used, where the next look shows the same unless something
    changes by then."""


class Tolerance(Struct, frozen=True, kw_only=True):
    """What is not yet a difference."""

    memory_bytes: int
    """Memory that a process may have beyond what the hook charged and measured."""
    overhead_bytes: int
    """The most that a process is believed to need for contexts and code."""
    context_bytes: int = 0
    """What its first context may take, which the hook measures only where contexts are charged."""
    card_bytes: Mapping[str, int] = {}
    """Card's key -> its memory: who holds all of it has nothing to exceed."""


class _OnCard(NamedTuple):
    """What one look shows of a container on one card."""

    limit: CardLimit
    key: str
    record: CardRecord | None
    slots: tuple[SlotUse, ...]
    """Of processes that live."""
    driven: DriverSample


def use_between(
    held: HoldingContainer, before: UsageSample | None, after: UsageSample, tolerance: Tolerance
) -> tuple[ContainerUse, UsageSample]:
    """What the container used from `before` to `after`, and the look to compare the next with."""
    same = before is not None and _shows_the_same(before, after)
    if before is not None and same and before.settled and before.settled[0] == held:
        use = before.settled[1]
        return use, replace(after, peaks=before.peaks, settled=before.settled)
    peaks: dict[str, HourlyPeaks] = {}
    cards = []
    seen = [_on_card(limit, after) for limit in held.limits.cards]
    for one in seen:
        on_card = _card_use(held, one, before, after)
        peaks[one.key] = _peaks(before, after, one, on_card)
        cards.append(replace(on_card, memory_day_peak_bytes=peaks[one.key].peak_bytes()))
    suspicions = _suspicions(held, seen, tolerance)
    lasting = suspicions & before.suspicions if before else frozenset()
    gaps = {gap for card in _records(after) for slot in _living(after, card) for gap in slot.gaps}
    gaps |= {gap for _, gap in lasting} | after.seen
    if held.hooked and isinstance(after.usage, Garbled):
        gaps.add(Gap.FILE)
    container = ContainerUse(
        namespace=held.namespace, pod=held.pod, uid=held.uid, container=held.container,
        cards=tuple(cards), enforced=not gaps, gaps=tuple(sorted(gaps)),
    )  # fmt: skip
    lends = any(limit.lent_permille for limit in held.limits.cards)
    settled = (held, container) if same and not suspicions and not lends else None
    return container, replace(after, suspicions=suspicions, peaks=peaks, settled=settled)


def _shows_the_same(before: UsageSample, after: UsageSample) -> bool:
    """Whether the container did nothing between the looks, in the same hour."""
    return (
        after.usage is before.usage
        and after.seen == before.seen
        and _is_idle(before, after.driven, after.wall_ns)
    )


def is_settled(
    before: UsageSample, limits: HookLimits, driven: Mapping[str, DriverSample], wall_ns: int
) -> bool:
    """Whether a look with these limits, for which the driver shows this, can show another use than
    the one before only by what it reads of the container itself."""
    known = before.settled is not None and before.settled[0].limits is limits
    return known and _is_idle(before, driven, wall_ns)


def _is_idle(before: UsageSample, driven: Mapping[str, DriverSample], wall_ns: int) -> bool:
    """Whether the driver shows that the container does nothing, as before, in the same hour."""
    return (
        driven == before.driven
        and all(one.busy_ns <= 0 for one in driven.values())
        and wall_ns // HOUR_NS == before.wall_ns // HOUR_NS
        and not before.suspicions
    )


def _on_card(limit: CardLimit, look: UsageSample) -> _OnCard:
    key = uuid_key(limit.uuid)
    record = _record(look, key)
    return _OnCard(
        limit, key, record, _living(look, record) if record else (),
        look.driven.get(key, _NOT_DRIVEN),
    )  # fmt: skip


def _card_use(
    held: HoldingContainer, one: _OnCard, before: UsageSample | None, after: UsageSample
) -> CardUse:
    limit, record, slots, driven = one.limit, one.record, one.slots, one.driven
    cores_limit_percent = _cores_limit(limit, after.wall_ns)
    if record is None:
        known = CardUse(
            card=limit.uuid, memory_limit_bytes=limit.memory_bytes,
            cores_limit_percent=cores_limit_percent,
        )  # fmt: skip
        if not driven.processes and held.hooked:
            return known
        return replace(
            known, memory_bytes=driven.memory_bytes, cores_percent=_busy(before, after, driven),
            processes=driven.processes, measured_by=DRIVER,
        )  # fmt: skip
    charged = sum([_charge(slot) for slot in slots])
    contexts = sum([_context(slot) for slot in slots])
    moments = [record.last_launch_ns, *[slot.last_active_ns for slot in slots]]
    return CardUse(
        card=limit.uuid,
        memory_limit_bytes=limit.memory_bytes,
        cores_limit_percent=cores_limit_percent,
        memory_bytes=charged,
        context_bytes=contexts + sum([slot.overhead_bytes for slot in slots]),
        managed_bytes=sum([slot.bytes.get(MANAGED, 0) for slot in slots]),
        buffer_bytes=charged - contexts,
        processes=len({slot.pid for slot in slots}),
        last_active=max(moments) / _SECOND,
        memory_peak_bytes=_peak_between(before, after, record),
        **_rates(before, after, record),
    )


def _peak_between(before: UsageSample | None, after: UsageSample, record: CardRecord) -> int:
    """The most that the hook has seen between the looks; 0 where it was no more than in the same
    hour before, and where nothing is known."""
    old = _record(before, uuid_key(record.uuid)) if before else None
    if before is None:
        return 0
    if old is None or _built(before) != _built(after) or record.peak_bytes > old.peak_bytes:
        return record.peak_bytes
    grew = (record.peak_hour, record.hour_peak_bytes) > (old.peak_hour, old.hour_peak_bytes)
    return record.hour_peak_bytes if grew else 0


def _peaks(
    before: UsageSample | None, after: UsageSample, one: _OnCard, use: CardUse
) -> HourlyPeaks:
    """With what a look shows. Of the time before the first one the hook remembers its last hour and
    the most of all, which counts as of now: it may be a day until that is forgotten."""
    hour, record = after.wall_ns // HOUR_NS, one.record
    known = before.peaks.get(one.key) if before else None
    peaks = (known or HourlyPeaks()).moved_to(hour)
    peaks = peaks.noted(hour, max(use.memory_bytes, use.memory_peak_bytes))
    if record is None:
        return peaks
    if known is None:
        peaks = peaks.noted(hour, record.peak_bytes)
    return peaks.noted(record.peak_hour, record.hour_peak_bytes)


def _busy(before: UsageSample | None, after: UsageSample, driven: DriverSample) -> float:
    interval_ns = (after.at_s - before.at_s) * _SECOND if before else 0
    return min(max(driven.busy_ns, 0) / interval_ns, 1) * 100 if interval_ns > 0 else 0


def _rates(before: UsageSample | None, after: UsageSample, record: CardRecord) -> dict[str, Any]:
    interval_ns = (after.at_s - before.at_s) * _SECOND if before else 0
    if before is None or interval_ns <= 0:
        return {}
    old = _record(before, uuid_key(record.uuid))
    same = old is not None and _built(before) == _built(after)

    def grown(field: str) -> int:
        start = getattr(old, field) if same else 0
        end: int = getattr(record, field)
        return end - start if end >= start else 0

    times = kernel_times.grown(
        old.kernel_times if old is not None and same else (0,) * TIMES, record.kernel_times
    )
    p50, p99 = kernel_times.quantiles_us(times, record.longest_ns / 1000)
    allocated = grown("allocated_bytes") * _SECOND / interval_ns
    return {
        "allocated_bytes_per_s": round(min(allocated, _MOST_BYTES_PER_S)),
        "kernel_times": times,
        "kernel_p50_us": p50,
        "kernel_p99_us": p99,
        "cores_percent": min(grown("gpu_ns") / interval_ns, 1) * 100,
        "throttled_percent": min(grown("throttled_ns") / interval_ns, SLOTS) * 100,
        "launches": grown("launches"),
        "denials": grown("denials"),
        "failed_for_others": grown("failed_for_others"),
    }


def _suspicions(
    held: HoldingContainer, look: Sequence[_OnCard], tolerance: Tolerance
) -> frozenset[Suspicion]:
    if not held.hooked:
        return frozenset()
    found = set()
    for limit, key, _, slots, driven in look:
        if not driven.processes or _unlimited(limit, tolerance):
            continue
        if not slots:
            found.add((key, Gap.NO_HOOK))
            continue
        spare = _spare(slots, driven.processes, tolerance)
        if driven.memory_bytes > _explained(limit, slots, tolerance) + spare:
            found.add((key, Gap.UNCHARGED))
    return frozenset(found)


def _spare(slots: tuple[SlotUse, ...], processes: int, tolerance: Tolerance) -> int:
    """Memory that processes have without its being measured."""
    contexts = min(sum(slot.contexts > 0 for slot in slots), processes)
    return tolerance.memory_bytes * processes + tolerance.context_bytes * contexts


def _explained(limit: CardLimit, slots: tuple[SlotUse, ...], tolerance: Tolerance) -> int:
    """Memory that the file accounts for; claims beyond the limit explain nothing."""
    charged = sum(_charge(slot) for slot in slots)
    believed = min(charged, limit.memory_bytes or charged)
    return believed + sum(min(slot.overhead_bytes, tolerance.overhead_bytes) for slot in slots)


def _unlimited(limit: CardLimit, tolerance: Tolerance) -> bool:
    whole = tolerance.card_bytes.get(uuid_key(limit.uuid), 1 << 62)
    memory = limit.memory_bytes == 0 or limit.memory_bytes >= whole
    return memory and not is_limited(limit)


def _cores_limit(limit: CardLimit, wall_ns: int) -> float:
    if not is_limited(limit):
        return 0
    lent = limit.mode is Mode.ELASTIC and wall_ns < limit.lent_until_ns
    permille = limit.cores_permille + (limit.lent_permille if lent else 0)
    return min(max(permille, LEAST_PERMILLE), _FULL) / 10


def _records(look: UsageSample) -> tuple[CardRecord, ...]:
    return look.usage.cards if isinstance(look.usage, UsageFile) else ()


def _record(look: UsageSample, key: str) -> CardRecord | None:
    for card in _records(look):
        if uuid_key(card.uuid) == key:
            return card
    return None


def _living(look: UsageSample, record: CardRecord) -> tuple[SlotUse, ...]:
    """Slots of processes that live: those that hold their locks, and the others as well where the
    driver sees more processes than hold one."""
    slots = look.usage.slots if isinstance(look.usage, UsageFile) else ()
    here = tuple([slot for slot in slots if slot.card == record.position])
    locked = tuple([slot for slot in here if slot.locked])
    driven = look.driven.get(uuid_key(record.uuid), _NOT_DRIVEN)
    return here if driven.processes > len(locked) else locked


def _built(look: UsageSample) -> tuple[int, int]:
    usage = look.usage
    return (usage.built, usage.built_ns) if isinstance(usage, UsageFile) else (0, 0)


def _charge(slot: SlotUse) -> int:
    return sum(slot.bytes.values())


def _context(slot: SlotUse) -> int:
    return slot.bytes.get(CONTEXT, 0)


def is_limited(limit: CardLimit) -> bool:
    """Whether the container may have only a part of the card's time, loans aside."""
    return limit.mode is not Mode.OFF and (0 < limit.cores_permille < _FULL or limit.is_rest)


def measured(limit: CardLimit, busy_ns: int, counted_ns: int, wall_ns: int) -> CardLimit:
    """The limit with `busy_ns` more of the container's GPU time, as the driver measured it up to a
    moment at which the hook's `raw_ns` was `counted_ns`.

    The hook trims its own event times by the two, which include other tenants' time slices.
    """
    return replace(
        limit,
        measured_ns=limit.measured_ns + busy_ns,
        measured_at_ns=wall_ns,
        measured_usage_ns=counted_ns,
    )


class RawCounter(NamedTuple):
    """The hook's `raw_ns` at one moment of the wall clock."""

    at_ns: int
    raw_ns: int


def counted_at(at_ns: int, before: RawCounter, now: RawCounter) -> int:
    """What the figure was at a moment between two looks, had it grown evenly; outside of them that
    of the nearer, and that of the later where the figure started again.

    The driver's samples end some time before they are read: counting what came since would take
    busy time for time slices of others whenever the container has just begun to work.
    """
    if before.raw_ns > now.raw_ns or at_ns >= now.at_ns:
        return now.raw_ns
    if at_ns <= before.at_ns:
        return before.raw_ns
    grown, passed = now.raw_ns - before.raw_ns, now.at_ns - before.at_ns
    return before.raw_ns + grown * (at_ns - before.at_ns) // passed
