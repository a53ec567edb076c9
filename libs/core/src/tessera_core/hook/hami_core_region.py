"""The shared region of HAMi-core (`libvgpu.so`), so that containers it limits are measured too.

The file is written by the container: every number is clamped, and nothing is believed that makes
no sense. Both layouts in use are read, on x86-64: v1 names its version, v0 has none and is known by
its size (HAMi's own monitor distinguishes them in the same way). The file is one byte longer than
the region.
"""

from __future__ import annotations

from operator import add
from struct import Struct as Layout
from struct import unpack_from
from typing import Final

from msgspec import Struct

CACHE_ENV: Final = "CUDA_DEVICE_MEMORY_SHARED_CACHE"
"""The container's variable with the path of its region."""
MAGIC: Final = 19920718
CARDS: Final = 16
SLOTS: Final = 1024
MOST_BYTES: Final = 1 << 50
_UUID_BYTES: Final = 96


class NotARegion(ValueError):
    """The bytes are no region that this release reads; the message says why."""


class RegionCard(Struct, frozen=True, kw_only=True):
    """One card as the container's processes see it."""

    uuid: str
    limit_bytes: int
    """0 = none."""
    cores_limit_percent: int
    """0 or 100 = none."""
    used_bytes: int
    """Sum over living processes."""
    context_bytes: int
    """Of these, contexts."""
    module_bytes: int
    buffer_bytes: int
    cores_percent: int
    """As HAMi-core's own watcher last saw it, at most 100."""


class Region(Struct, frozen=True, kw_only=True):
    """What the region says."""

    version: int
    cards: tuple[RegionCard, ...]
    pids: tuple[int, ...]
    """Of living processes, as the container numbers them."""
    last_kernel: int
    """Unix time in seconds of the latest launch; 0 = unknown (v0 does not record it)."""


class _Shape(Struct, frozen=True, kw_only=True):
    """Where things are in one version of the region."""

    version: int
    size: int
    count_at: int
    uuids_at: int
    limits_at: int
    slots_at: int
    slot: int
    """Bytes of a slot. It begins with pid and host pid; memory by card follows at 8."""
    memory: int
    """Bytes of one card's memory record in a slot: contexts, modules, buffers, offset, total."""
    use: int
    """Bytes of one card's utilisation record in a slot; SM is the third word."""
    status_at: int
    last_kernel_at: int = 0


_V0: Final = _Shape(
    version=0, size=1_197_896, count_at=48, uuids_at=56, limits_at=1592, slots_at=1848, slot=1168,
    memory=40, use=24, status_at=1160,
)  # fmt: skip
_V1: Final = _Shape(
    version=1, size=2_008_952, count_at=56, uuids_at=64, limits_at=1600, slots_at=1856, slot=1960,
    memory=64, use=48, status_at=1928, last_kernel_at=2_008_912,
)  # fmt: skip
_WORDS: Final = Layout(f"<{CARDS}Q")
_KINDS: Final = 5
_MEMORY_WORDS: Final = Layout(f"<{_KINDS}Q")


def read_region(data: bytes) -> Region:
    """What a region says. Raises NotARegion."""
    shape = next((s for s in (_V1, _V0) if len(data) in (s.size, s.size + 1)), None)
    if shape is None:
        raise NotARegion(f"{len(data)} bytes: a region has {_V0.size + 1} or {_V1.size + 1}")
    (magic,) = unpack_from("<i", data)
    if magic != MAGIC:
        raise NotARegion(f"magic {magic}: {MAGIC} is expected; it may not be set up yet")
    if shape.version:
        (major,) = unpack_from("<I", data, 4)
        if major != shape.version:
            raise NotARegion(f"version {major}: this release reads 0 and 1")
    (count,) = unpack_from("<Q", data, shape.count_at)
    memory, busy, pids = _slots(data, shape)
    limits = _WORDS.unpack_from(data, shape.limits_at)
    cores = _WORDS.unpack_from(data, shape.limits_at + _WORDS.size)
    last = unpack_from("<Q", data, shape.last_kernel_at)[0] if shape.last_kernel_at else 0
    return Region(
        version=shape.version,
        cards=tuple(
            RegionCard(
                uuid=_uuid(data, shape, i), limit_bytes=min(limits[i], MOST_BYTES),
                cores_limit_percent=min(cores[i], 100),
                context_bytes=memory[i][0], module_bytes=memory[i][1],
                buffer_bytes=memory[i][2], used_bytes=memory[i][4],
                cores_percent=min(busy[i], 100),
            )
            for i in range(min(count, CARDS))
        ),
        pids=pids,
        last_kernel=last if last < 1 << 40 else 0,
    )  # fmt: skip


def _slots(data: bytes, shape: _Shape) -> tuple[list[list[int]], list[int], tuple[int, ...]]:
    """Words of memory and utilisation by card, over the processes that live, and their pids.

    HAMi-core leaves the figures of a process that has ended in its slot, and moves slots: a slot
    counts while it has a pid and a status.
    """
    memory, busy, pids = [[0] * _KINDS for _ in range(CARDS)], [0] * CARDS, []
    uses_at = 8 + CARDS * shape.memory + CARDS * 8
    for start in range(shape.slots_at, shape.slots_at + SLOTS * shape.slot, shape.slot):
        (pid,) = unpack_from("<i", data, start)
        (status,) = unpack_from("<i", data, start + shape.status_at)
        if pid <= 0 or status <= 0:
            continue
        pids.append(pid)
        for card in range(CARDS):
            words = _MEMORY_WORDS.unpack_from(data, start + 8 + card * shape.memory)
            memory[card] = [min(sum_, MOST_BYTES) for sum_ in map(add, memory[card], words)]
            busy[card] += unpack_from("<Q", data, start + uses_at + card * shape.use + 16)[0]
    return memory, busy, tuple(pids)


def _uuid(data: bytes, shape: _Shape, card: int) -> str:
    start = shape.uuids_at + card * _UUID_BYTES
    text = data[start : start + _UUID_BYTES].partition(b"\0")[0]
    return text.decode("ascii", "replace") if text.isascii() else ""
