"""Volcano's annotation grammars: card indices, device lists, comma lists.

Numbers are read as Go's strconv reads them: an optional sign and ASCII digits, nothing around.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from msgspec import Struct

from tessera_core.dialect_kit import INT32_MAX, MIB, Share

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_DEVICE_FIELDS: Final = 4
_TYPE: Final = "NVIDIA"


def integer(text: str) -> int | None:
    """The number, or None where Go's Atoi would fail."""
    return int(text) if _INTEGER.fullmatch(text) else None


def indices(text: str) -> tuple[int, ...] | None:
    """Read `volcano.sh/gpu-index`: `0,1,3`. None if any part is no number: all or nothing."""
    found: dict[int, None] = {}
    for piece in text.split(","):
        number = integer(piece)
        if number is None:
            return None
        found[number] = None
    return tuple(found)


def index_text(shares: Iterable[Share]) -> str:
    """Write `volcano.sh/gpu-index`: each card once, lowest first."""
    return ",".join(str(i) for i in sorted({s.index for s in shares}))


def comma_list(text: str) -> tuple[str, ...]:
    """Trimmed, non-empty parts, each once."""
    parts = (part.strip() for part in text.split(","))
    return tuple(dict.fromkeys(part for part in parts if part))


class VgpuDevice(Struct, frozen=True):
    """One entry of `volcano.sh/vgpu-ids-new`."""

    card: str
    memory: int
    """In units of `vgpu_memory_factor` MiB."""
    cores: int


class VgpuDevices(Struct, frozen=True):
    """A decoded `volcano.sh/vgpu-ids-new`."""

    containers: tuple[tuple[VgpuDevice, ...], ...]
    """One for each container that asks, in order; containers that ask nothing have none."""
    malformed: tuple[str, ...]
    """Entries that could not be read."""


def devices(text: str) -> VgpuDevices:
    """Read `UUID,NVIDIA,<memory>,<cores>:` lists, one per asking container, joined by `;`.

    Entries with too few fields or with negative or non-numeric amounts are left out, and named
    in `malformed`. An empty list belongs to no container.
    """
    containers = []
    malformed = []
    for segment in filter(None, text.split(";")):
        read = []
        for entry in filter(None, segment.split(":")):
            found = _device(entry)
            if found is None:
                malformed.append(entry)
            else:
                read.append(found)
        containers.append(tuple(read))
    return VgpuDevices(containers=tuple(containers), malformed=tuple(malformed))


def _device(entry: str) -> VgpuDevice | None:
    fields = entry.split(",")
    if len(fields) < _DEVICE_FIELDS or not fields[0]:
        return None
    memory, cores = integer(fields[2]), integer(fields[3])
    if memory is None or cores is None:
        return None
    if not (0 <= memory <= INT32_MAX and 0 <= cores <= INT32_MAX):
        return None
    # a MIG instance is written UUID[<group>-<position>]; what it takes, it takes of its card
    return VgpuDevice(card=fields[0].partition("[")[0], memory=memory, cores=cores)


def devices_text(shares: Sequence[Share], factor: int) -> str:
    """Write `volcano.sh/vgpu-ids-new`; containers without shares get no segment, as upstream."""
    return ";".join(
        "".join(
            f"{s.card},{_TYPE},{s.memory_bytes // (factor * MIB)},{int(s.cores_percent)}:"
            for s in group
        )
        for _, group in groupby(shares, key=lambda s: s.position)
    )
