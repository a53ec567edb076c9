"""What the annotations say that a bound pod holds.

ACK's allocation is read first, then the extender's number and sum: the order of Koordinator's
`TransformACKDeviceAllocation`. The extender charges the sum in the annotation, whatever the limits
say, and nothing for a number that the node does not have: here that is a problem, and the pod is
counted by its own requests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from tessera_core.dialect_kit import INT32_MAX, Card, Pod, RecordedShares, Role, Share
from tessera_core.dialects.aliyun.amounts import read_leniently
from tessera_core.dialects.aliyun.names import (
    ALLOCATION,
    BY_POD,
    CORE_ALLOCATION,
    DIALECT,
    INDEX,
    VENDOR,
    AliyunOptions,
)

_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_Amounts = dict[str, dict[str, Annotated[int, Meta(ge=0, le=INT32_MAX)]]]
_decode: Final = msgspec.json.Decoder(_Amounts).decode


class _Unreadable(Exception):
    """The message says what cannot be read and why."""


class _Entry(Struct, frozen=True):
    """One container's part of one card."""

    container: int
    """Its number in `spec.containers`."""
    minor: str
    units: int
    percent: int = 0


def recorded_shares(
    pod: Pod, cards: Sequence[Card], options: AliyunOptions
) -> RecordedShares | None:
    """The pod's shares; None where neither release wrote on it."""
    notes = pod.metadata.annotations
    if ALLOCATION not in notes and INDEX not in notes:
        return None
    try:
        key = ALLOCATION if ALLOCATION in notes else INDEX
        entries = _by_ack(notes) if key == ALLOCATION else _by_extender(pod, options)
        by_minor = {str(c.device_minor): c for c in cards if c.vendor == VENDOR}
        shares = tuple(_share(pod, e, by_minor, key, options) for e in entries if e.units)
        if not shares:
            raise _unreadable(key, notes[key], "gives no memory of any card")
    except _Unreadable as e:
        return RecordedShares(problem=str(e))
    return RecordedShares(shares=shares)


def _unreadable(key: str, text: str, what: str) -> _Unreadable:
    return _Unreadable(f"metadata.annotations[{key}]: {text[:80]!r}: {what}")


def _by_ack(notes: Mapping[str, str]) -> list[_Entry]:
    cores = _allocation(notes, CORE_ALLOCATION)
    return [
        _Entry(_container(container), minor, units, cores.get(container, {}).get(minor, 0))
        for container, on in _allocation(notes, ALLOCATION).items()
        for minor, units in on.items()
    ]


def _container(text: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else -1


def _allocation(notes: Mapping[str, str], key: str) -> _Amounts:
    text = notes.get(key)
    if text is None:
        return {}
    try:
        return _decode(text)
    except (msgspec.DecodeError, RecursionError) as e:
        raise _unreadable(key, text, f"{e}") from e


def _by_extender(pod: Pod, options: AliyunOptions) -> list[_Entry]:
    """The sum as the annotation has it: each container what its limit says, as far as that goes,
    and the last one the rest."""
    notes, inits = pod.metadata.annotations, len(pod.spec.init_containers)
    apps = [a for a in read_leniently(pod, options) if a.role is Role.APP]
    text = notes.get(BY_POD, str(sum(a.memory for a in apps)))
    if not _NUMBER.fullmatch(text):
        raise _unreadable(BY_POD, text, f"is no number of {options.memory_unit}")
    left, entries = int(text), []
    for a in apps[:-1]:
        part = min(a.memory, left)
        left -= part
        entries.append(_Entry(a.position - inits, notes[INDEX], part, a.core))
    last = apps[-1] if apps else None
    number = last.position - inits if last else 0
    return [*entries, _Entry(number, notes[INDEX], left, last.core if last else 0)]


def _share(
    pod: Pod, entry: _Entry, cards: Mapping[str, Card], key: str, options: AliyunOptions
) -> Share:
    text = pod.metadata.annotations[key]
    card = cards.get(entry.minor)
    if card is None:
        raise _unreadable(key, text, f"the node has no card {entry.minor[:20]}")
    if not 0 <= entry.container < len(pod.spec.containers):
        raise _unreadable(key, text, f"the pod has no container {entry.container}")
    return Share(
        container=pod.spec.containers[entry.container].name,
        position=len(pod.spec.init_containers) + entry.container, vendor=VENDOR, dialect=DIALECT,
        card=card.id, index=card.index, memory_bytes=entry.units * options.unit_bytes,
        cores_percent=entry.percent,
    )  # fmt: skip
