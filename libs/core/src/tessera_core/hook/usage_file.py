"""The usage file: what the hook says one container uses. Written by the container: every number is
clamped here and none is trusted, whatever the bytes are.

Only decoding, of bytes that `tessera_agent.containers.hook_files` has read: it knows how to read a
hostile file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from struct import Struct as Packed
from typing import Any, Final

from msgspec import Struct

from tessera_core.hook.records import CARDS, HEAD, LAYOUT, ORDER, RecordLayout, text_of, uuid_key

MAGIC: Final = int.from_bytes(b"TUSAGES1", "little")
SIZE: Final = 274_432
PATH: Final = "/usr/local/tessera/usage"
"""Where the hook looks for it, in the container."""
SLOTS: Final = 512
ALIVE_AT: Final = 1 << 40
"""A living slot's process holds a lock on the byte at this offset plus the slot's number."""
KINDS: Final = (
    "device", "array", "virtual", "pool", "managed", "graph", "context", "other",
)  # fmt: skip
MANAGED: Final = "managed"
"""The kind of what the driver moves between the card and the host's memory."""
CONTEXT: Final = "context"
"""The kind of what nobody allocates: contexts and modules, where they are charged."""

CARD_AT: Final = 4096
SLOT_AT: Final = 142_336
TIMES: Final = 16
"""Steps by which launches are counted (`tessera_core.node.kernel_times`)."""
_EXPORTS: Final = 448
_BINS: Final = 2048
_LOWEST: Final = 0 if sys.byteorder == "little" else 3
"""Which of the four bytes of a number is its lowest."""
_NEVER: Final = (1 << 63) - 1
_MOST_COUNT: Final = 1 << 53
_SECOND: Final = 1_000_000_000
HOUR_NS: Final = 3600 * _SECOND

CARD: Final = RecordLayout(
    "tessera_card_usage", 8640,
    {
        "uuid": "64s", "lock": "I", "used": "I", "charged_bytes": "Q", "peak_bytes": "Q",
        "limit_bytes": "Q", "denials": "Q", "physical_bytes": "Q", "wanted_bytes": "Q",
        "wanted_at_ns": "Q", "tokens_ns": "q", "refilled_ns": "Q", "failed_for_others": "Q",
        "waited_for_others": "Q", "reserved_bucket": "32s", "raw_ns": "Q", "gpu_ns": "Q",
        "throttled_ns": "Q", "launches": "Q", "last_launch_ns": "Q", "generation": "Q",
        "cores_permille": "I", "gain_permille": "I", "longest_ns": "Q", "gain_at_ns": "Q",
        "gain_measured_ns": "Q", "gain_usage_ns": "Q", "balance_at_ns": "Q",
        "balance_measured_ns": "Q", "balance_gpu_ns": "Q", "reserved": "104s",
        "allocated_bytes": "Q", "hour_peak_bytes": "Q", "peak_hour": "Q",
        "reserved_memory": "16s", "bin": f"{_BINS * 4}s",
    },
)  # fmt: skip
SLOT: Final = RecordLayout(
    "tessera_slot", 256,
    {
        "state": "I", "pid": "i", "started": "Q", "card": "I", "version": "I", "gaps": "I",
        "contexts": "I", "bytes": f"{len(KINDS) * 8}s", "gpu_ns": "Q", "launches": "Q",
        "throttled_ns": "Q", "denials": "Q", "last_launch_ns": "Q", "last_active_ns": "Q",
        "outstanding_ns": "q", "overhead_bytes": "Q", "imported_bytes": "Q", "command": "16s",
        "reserved": "72s",
    },
)  # fmt: skip
FILE: Final = RecordLayout(
    "tessera_usage", SIZE,
    {
        "head": "64s", "version": "I", "slots": "I", "exported": f"{_EXPORTS * 8}s",
        "reaped_ns": "Q", "slots_high": "I", "reserved_slots": "I", "limits_looked_ns": "Q",
        "limits_stamp": "Q", "reserved": "408s", "card": f"{CARDS * 8640}s",
        "slot": f"{SLOTS * 256}s",
        "kernel_times": f"{CARDS * TIMES * 4}s",
    },
)  # fmt: skip


_CARD_FIELDS: Final = CARD.only(
    "uuid", "used", "charged_bytes", "peak_bytes", "limit_bytes", "denials", "failed_for_others",
    "raw_ns", "gpu_ns", "throttled_ns", "launches", "last_launch_ns", "generation",
    "cores_permille", "gain_permille", "longest_ns", "allocated_bytes", "hour_peak_bytes",
    "peak_hour",
)  # fmt: skip
_SLOT_FIELDS: Final = SLOT.only(
    "state", "pid", "started", "card", "version", "gaps", "contexts", "bytes", "gpu_ns",
    "last_active_ns", "overhead_bytes", "imported_bytes", "command",
)  # fmt: skip
_BYTES: Final = Packed(f"{ORDER}{len(KINDS)}Q")
"""Of one slot, by kind."""
KERNEL_TIMES: Final = Packed(f"{ORDER}{TIMES}I")
"""Of one card."""
KERNEL_TIMES_AT: Final = FILE.offsets["kernel_times"]


class Gap(StrEnum):
    """Why limits may not hold, or why nothing is known; the words of `ContainerUse.gaps`."""

    SYMBOL = "unhooked-symbol"
    """The driver offered a function that the hook does not know."""
    LIMITS = "limits-not-valid"
    ALONE = "counts-alone"
    """A process found no usage file it could use."""
    EVENTS = "time-predicted"
    """GPU time could not be measured there, only predicted."""
    OVER = "above-limit"
    """More is charged than is allowed."""
    NO_HOOK = "no-hook"
    """A process uses the card and shows no slot."""
    UNCHARGED = "use-above-charge"
    """The driver sees more memory than the hook charges and measured."""
    FILE = "usage-file-bad"
    """The usage file cannot be read or makes no sense."""
    MOUNTS = "mounts-changed"
    """A process does not see the limits, the hook or its loader's file as they were mounted."""


_SLOT_GAPS: Final = (Gap.SYMBOL, Gap.LIMITS, Gap.ALONE, Gap.EVENTS, Gap.OVER)
"""By bit of `tessera_slot.gaps`."""


class UsageFileBounds(Struct, frozen=True, kw_only=True):
    """What no honest number exceeds."""

    memory_bytes: Mapping[str, int]
    """Card's id, as `uuid_key` spells it -> its memory, or the container's limit where greater."""
    now_ns: int
    """Wall clock."""


class SlotUse(Struct, frozen=True, kw_only=True):
    """One process on one card."""

    number: int
    locked: bool
    """Whether a process holds the slot's lock; one that closed all its files lives without."""
    pid: int
    """As the container numbers it."""
    started: int
    """Field 22 of /proc/<pid>/stat; 0 = unknown."""
    card: int
    """Position of the card's record."""
    version: tuple[int, int, int]
    """Of the library."""
    gaps: tuple[Gap, ...]
    contexts: int
    bytes: Mapping[str, int]
    """Kind of memory -> charge."""
    overhead_bytes: int
    """Contexts and code: measured, not charged."""
    imported_bytes: int
    gpu_ns: int
    last_active_ns: int
    command: str


class CardRecord(Struct, frozen=True, kw_only=True):
    """One card, all processes of the container together, those that ended included."""

    uuid: str
    position: int
    charged_bytes: int
    peak_bytes: int
    hour_peak_bytes: int
    """The most that was charged in the hour `peak_hour`."""
    peak_hour: int
    """Since 1970, in which the charge changed last; 0 = an older hook, which does not say."""
    allocated_bytes: int
    """Charged in all, whatever was given back since; 0 where an older hook does not say."""
    limit_bytes: int
    """In force; 0 = none."""
    denials: int
    failed_for_others: int
    """Allocations that the driver refused although the limit had room: others had the memory."""
    raw_ns: int
    """GPU time as measured and predicted."""
    gpu_ns: int
    """The same, corrected by what the agent measured."""
    throttled_ns: int
    launches: int
    last_launch_ns: int
    generation: int
    """Of the limits in force."""
    cores_permille: int
    """In force, loans included; 1000 = no limit."""
    gain_permille: int
    longest_ns: int
    """The longest launch of late."""
    kernel_times: tuple[int, ...]
    """Launches by their time; each count wraps at 2^32."""


class UsageFile(Struct, frozen=True, kw_only=True):
    """What the file says, within bounds."""

    built: int
    """Times that the file was built: counters of different builds do not compare."""
    built_ns: int
    cards: tuple[CardRecord, ...] = ()
    slots: tuple[SlotUse, ...] = ()


class Unbuilt(Struct, frozen=True):
    """Nobody has written to the file yet: no process of the container has used a card."""


class Spoilt(StrEnum):
    """What is wrong with a usage file."""

    MISSING = "missing"
    NOT_A_FILE = "not-a-file"
    """A link, a directory, a FIFO, a device, a socket."""
    SIZE = "wrong-size"
    GROWN = "grown"
    """Larger than it was made: the container wrote beyond its end."""
    REPLACED = "replaced"
    """Not the file that the agent made."""
    UNREADABLE = "unreadable"
    LAYOUT = "no-known-layout"


class Garbled(Struct, frozen=True):
    """A file that no hook of this layout has written, or none at all."""

    why: Spoilt


Locked = Callable[[Sequence[int]], Collection[int]]
"""Of these slots, by number and in ascending order, those whose lock somebody holds."""


def all_locked(numbers: Sequence[int]) -> Sequence[int]:
    """Where locks cannot be asked for, every slot's word counts."""
    return numbers


def decode_usage(
    data: bytes | bytearray, bounds: UsageFileBounds, locked: Locked = all_locked
) -> UsageFile | Unbuilt | Garbled:
    """What the bytes of a whole file say. Never raises."""
    if len(data) != SIZE:
        return Garbled(Spoilt.SIZE)
    head = HEAD.read(data)
    if not head["magic"]:
        return Unbuilt()
    if head["magic"] != MAGIC or head["layout"] != LAYOUT or head["size"] != SIZE:
        return Garbled(Spoilt.LAYOUT)
    cards = _cards(data, bounds)
    known = {card.position: bounds.memory_bytes[uuid_key(card.uuid)] for card in cards}
    return UsageFile(
        built=head["sequence"], built_ns=_until(head["written_ns"], bounds.now_ns), cards=cards,
        slots=_slots(data, known, bounds, locked),
    )  # fmt: skip


def _cards(data: bytes | bytearray, bounds: UsageFileBounds) -> tuple[CardRecord, ...]:
    """Each card once, whatever the file repeats."""
    found: dict[str, CardRecord] = {}
    for position in _ones(data, CARD_AT + CARD.offsets["used"], CARDS, CARD.size):
        record = _card(data, position, bounds)
        if record is not None:
            found.setdefault(uuid_key(record.uuid), record)
    return tuple(found.values())


def _card(data: bytes | bytearray, position: int, bounds: UsageFileBounds) -> CardRecord | None:
    (
        id_, used, charged, peak, limit, denials, failed, raw_ns, gpu_ns, throttled_ns, launches,
        last_launch_ns, generation, cores, gain, longest_ns, allocated, hour_peak, hour,
    ) = _CARD_FIELDS.unpack_from(data, CARD_AT + position * CARD.size)  # fmt: skip
    if used != 1:
        return None
    uuid = _uuid(id_)
    most = bounds.memory_bytes.get(uuid_key(uuid))
    if most is None:
        return None
    if hour > bounds.now_ns // HOUR_NS:
        hour = 0
    return CardRecord(
        uuid=uuid, position=position,
        charged_bytes=min(charged, most), peak_bytes=min(peak, most),
        hour_peak_bytes=min(hour_peak, most) if hour else 0, peak_hour=hour,
        allocated_bytes=min(allocated, _NEVER), limit_bytes=min(limit, most),
        denials=min(denials, _MOST_COUNT), failed_for_others=min(failed, _MOST_COUNT),
        raw_ns=min(raw_ns, _NEVER), gpu_ns=min(gpu_ns, _NEVER),
        throttled_ns=min(throttled_ns, _NEVER), launches=min(launches, _MOST_COUNT),
        last_launch_ns=_until(last_launch_ns, bounds.now_ns),
        generation=generation, cores_permille=min(cores, 1000),
        gain_permille=min(max(gain, 125), 8000), longest_ns=min(longest_ns, _NEVER),
        kernel_times=KERNEL_TIMES.unpack_from(
            data, KERNEL_TIMES_AT + position * KERNEL_TIMES.size
        ),
    )  # fmt: skip


@lru_cache(1024)
def _uuid(field: bytes) -> str:
    """A card's id: there are few, and they are read again and again."""
    return text_of(field)


def _slots(
    data: bytes | bytearray, known: Mapping[int, int], bounds: UsageFileBounds, locked: Locked
) -> tuple[SlotUse, ...]:
    found = []
    for number in _ones(data, SLOT_AT, SLOTS, SLOT.size):
        values = _SLOT_FIELDS.unpack_from(data, SLOT_AT + number * SLOT.size)
        if values[0] == 1 and values[3] in known:
            found.append((number, values))
    held = frozenset(locked([number for number, _ in found])) if found else frozenset()
    return tuple([
        _slot(number, values, known[values[3]], bounds, locked=number in held)
        for number, values in found
    ])  # fmt: skip


def _ones(data: bytes | bytearray, at: int, records: int, size: int) -> Iterator[int]:
    """The records whose word at `at` may be 1, by its lowest byte."""
    lowest = data[at + _LOWEST : at + records * size : size]
    number = lowest.find(1)
    while number >= 0:
        yield number
        number = lowest.find(1, number + 1)


def _slot(
    number: int, values: tuple[Any, ...], most: int, bounds: UsageFileBounds, *, locked: bool
) -> SlotUse:
    (
        _, pid, started, card, version, gaps, contexts, kinds, gpu_ns, last_active_ns, overhead,
        imported, command,
    ) = values  # fmt: skip
    return SlotUse(
        number=number, locked=locked, pid=max(pid, 0), started=started, card=card,
        version=(version >> 16 & 0xFFFF, version >> 8 & 0xFF, version & 0xFF),
        gaps=tuple([gap for bit, gap in enumerate(_SLOT_GAPS) if gaps >> bit & 1]) if gaps else (),
        contexts=min(contexts, 1 << 16),
        bytes={
            kind: min(size, most)
            for kind, size in zip(KINDS, _BYTES.unpack(kinds), strict=True) if size
        },
        overhead_bytes=min(overhead, most), imported_bytes=min(imported, most),
        gpu_ns=min(gpu_ns, _NEVER), last_active_ns=_until(last_active_ns, bounds.now_ns),
        command=text_of(command),
    )  # fmt: skip


def _until(ns: int, now_ns: int) -> int:
    return ns if ns <= now_ns + _SECOND else 0
