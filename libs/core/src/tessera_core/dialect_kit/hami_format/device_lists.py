"""Device lists: which cards each container of a pod was given.

    GPU-a,WORD,3000,50:GPU-b,WORD,3000,50:;;      two cards for container 0, none for container 1

A device is `id,word,MiB,cores` and a colon, a container ends with a semicolon; init containers
come first. `word` is how HAMi names the vendor, cores are in the vendor's own units.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from tessera_core.dialect_kit.amounts import INT32_MAX
from tessera_core.dialect_kit.contract import Placed, RecordedShares
from tessera_core.dialect_kit.hami_format.pod_annotations import annotation_field
from tessera_core.kube.containers import roles
from tessera_schema.cards import MIB, Card
from tessera_schema.grants import Share
from tessera_schema.kube import Pod

_PARTS: Final = 4
_GONE: Final = -1
"""Index of a card that its node does not publish any more."""
_INT32: Final = re.compile(r"[+-]?[0-9]{1,10}")


class BadList(ValueError):
    """The text is no device list; the message says where."""


class DeviceListEntry(NamedTuple):
    """A part of one card."""

    id: str
    word: str
    mib: int
    cores: int
    """In the vendor's units: percent for most."""


def encode_lists(lists: Sequence[Sequence[DeviceListEntry]]) -> str:
    """The text for the containers in their order, those without devices included."""
    return "".join(["".join([_entry(*d) for d in devices]) + ";" for devices in lists])


def _entry(card: str, word: str, mib: int, cores: int) -> str:
    return f"{card},{word},{mib},{cores}:"


def decode_lists(text: str) -> tuple[tuple[DeviceListEntry, ...], ...]:
    """The containers' devices. The end of a whole text reads as one more, empty container.

    Raises BadList for a device of fewer than four parts or with numbers that are none.
    """
    return tuple(
        tuple(_device(piece) for piece in container.split(":") if "," in piece)
        for container in text.split(";")
    )


def list_text(placed: Placed, word: str, *, percent_per_core: float = 1) -> str:
    """The list of a placed pod: one entry per container, whether it has cards or not."""
    lists = [""] * len(placed.pod.all_containers)
    for s in placed.shares:
        cores = round(s.cores_percent / percent_per_core)
        lists[s.position] += _entry(s.card, word, s.memory_mib, cores)
    return ";".join([*lists, ""])


def shares_in_list(
    pod: Pod,
    cards: Sequence[Card],
    *,
    key: str,
    vendor: str,
    dialect: str,
    asking: Collection[int],
    percent_per_core: float = 1,
) -> RecordedShares | None:
    """What the list in annotation `key` says that a bound pod holds; None without the key.

    `asking` are the positions of containers that ask for the vendor's cards: HAMi leaves out the
    empty lists of others for some vendors, and its lists are then matched with these.

    A list that names none of the node's cards cannot be trusted. One that names some is: a card
    that fell off the node leaves the others taken, and is taken itself when it comes back.
    """
    text = pod.metadata.annotations.get(key)
    if text is None:
        return None
    field = annotation_field(key)
    try:
        placed = _positions(decode_lists(text), len(pod.all_containers), sorted(asking))
    except BadList as e:
        return RecordedShares(problem=f"{field}: {e}")
    by_id = {card.id: card for card in cards}
    listed = {d.id for _, devices in placed for d in devices}
    if listed and listed.isdisjoint(by_id):
        known = ", ".join(sorted(by_id)[:4]) or "none"
        return RecordedShares(
            problem=f"{field}: card {min(listed)} is not among the node's cards ({known})"
        )
    containers = roles(pod)
    shares = []
    for position, devices in placed:
        _, container, role = containers[position]
        for d in devices:
            card, cores = by_id.get(d.id), d.cores * percent_per_core
            shares.append(
                Share(
                    container=container.name,
                    position=position,
                    role=role,
                    vendor=vendor,
                    dialect=dialect,
                    card=d.id,
                    index=card.index if card else _GONE,
                    memory_bytes=d.mib * MIB,
                    cores_percent=int(cores) if float(cores).is_integer() else cores,
                    exclusive=cores >= 100 and (card is None or card.cores_percent == 100),
                )
            )
    return RecordedShares(shares=tuple(shares))


def _positions(
    lists: Sequence[tuple[DeviceListEntry, ...]], containers: int, asking: Sequence[int]
) -> list[tuple[int, tuple[DeviceListEntry, ...]]]:
    """Each list that is not empty with the position of its container.

    More lists than containers that ask (the names were configured otherwise then) go to the last
    containers: which of them has a card matters less than that its card is taken.
    """
    if lists and not lists[-1]:
        lists = lists[:-1]
    if len(lists) == containers:
        return [(i, devices) for i, devices in enumerate(lists) if devices]
    given = [devices for devices in lists if devices]
    if len(asking) < len(given) <= containers:
        asking = range(containers - len(given), containers)
    if len(lists) > containers or len(given) != len(asking):
        raise BadList(
            f"it lists {len(lists)} containers, the pod has {containers}, "
            f"of which {len(asking)} ask for cards"
        )
    return list(zip(asking, given, strict=True))


def _device(piece: str) -> DeviceListEntry:
    parts = [part.strip() for part in piece.split(",")]
    if len(parts) < _PARTS:
        raise BadList(f"{piece[:128]!r}: a device has id, type, MiB and cores")
    card, word, mib, cores = parts[:_PARTS]
    return DeviceListEntry(card, word, _int32(mib, piece), _int32(cores, piece))


def _int32(text: str, piece: str) -> int:
    if not _INT32.fullmatch(text) or not 0 <= int(text) <= INT32_MAX:
        raise BadList(f"{piece[:128]!r}: {text[:32]!r} is no whole number from 0 to {INT32_MAX}")
    return int(text)
