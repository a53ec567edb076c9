"""The part of a device state that counts.

Its cards may take capacity away and add none (`tessera_scheduler.cache.nodes`). Containers that
outlived their pods hold what they hold of the vendor's cards on that node, and no more than these
have; they count in no namespace's quota, for the report alone says whose they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from tessera_core.fleet.cores import milli, percent
from tessera_core.grants.checks import credible
from tessera_core.reports.doubts import Doubt, Doubts
from tessera_schema.cards import MOST_CORES_PERCENT, MOST_MEMORY_BYTES, MOST_SLOTS, Card
from tessera_schema.grants import Share
from tessera_schema.messages.device_reports import CardHeld, DeviceState, Occupied

MOST_OCCUPIED: Final = 1_024
"""Pods that are gone and whose containers run on, in one report. A node has some hundred pods."""
MOST_HELD: Final = 256
"""Cards of which one report says what is held."""
MOST_NAME: Final = 253
"""Characters of a pod's or container's name or uid, which are the API server's."""


def counting(state: DeviceState, cards: Mapping[str, Card], doubts: Doubts) -> DeviceState:
    """The state with what counts of `occupied` and `held`; `cards` are the vendor's on the node,
    by id."""
    held = None if state.held is None else tuple(_believed_holdings(state.held, doubts))
    return replace(state, occupied=tuple(_occupied(state, cards, doubts)), held=held)


class _Room(Struct):
    """What of a card is not yet taken by this report."""

    memory_bytes: int
    cores_milli: int
    slots: int

    def take(self, share: Share) -> Share | None:
        """The part of the share for which there is room; None without a slot."""
        if self.slots < 1:
            return None
        self.slots -= 1
        memory = min(share.memory_bytes, self.memory_bytes)
        cores = min(milli(share.cores_percent), self.cores_milli)
        self.memory_bytes -= memory
        self.cores_milli -= cores
        resident = share.resident_bytes
        return replace(
            share, memory_bytes=memory, cores_percent=percent(cores),
            resident_bytes=UNSET if resident is UNSET else min(resident, memory),
        )  # fmt: skip


def _occupied(state: DeviceState, cards: Mapping[str, Card], doubts: Doubts) -> Iterator[Occupied]:
    rooms = {
        card.id: _Room(card.memory_bytes, milli(card.cores_percent), card.slots)
        for card in cards.values()
    }
    if len(state.occupied) > MOST_OCCUPIED:
        doubts.add(
            Doubt.EXCESS,
            f"{len(state.occupied)} pods that are gone: {MOST_OCCUPIED} of a report count",
        )
    for left in state.occupied[:MOST_OCCUPIED]:
        if max(len(left.uid), len(left.namespace), len(left.name)) > MOST_NAME:
            doubts.add(Doubt.POD, f"a pod with a name of more than {MOST_NAME} characters")
            continue
        shares = tuple(
            counted
            for share in left.shares
            if (counted := _share(share, state.vendor, rooms, doubts)) is not None
        )
        if shares:
            yield replace(left, shares=shares)


def _share(
    share: Share, vendor: str, rooms: Mapping[str, _Room], doubts: Doubts
) -> Share | None:  # fmt: skip
    room = rooms.get(share.card)
    if share.vendor != vendor or room is None or len(share.container) > MOST_NAME:
        doubts.add(Doubt.CARD, f"a share of card {share.card!r} of {share.vendor!r}")
        return None
    if not credible(share):
        doubts.add(
            Doubt.NUMBERS,
            f"a share of {share.memory_bytes} bytes and {share.cores_percent:g} % of cores",
        )
        return None
    counted = room.take(share)
    if counted is None or counted.memory_bytes < share.memory_bytes:
        doubts.add(Doubt.EXCESS, f"shares beyond what card {share.card!r} has")
    return counted


def _believed_holdings(reported: tuple[CardHeld, ...], doubts: Doubts) -> Iterator[CardHeld]:
    """Of cards that are no longer published too: containers may hold one that was lost. It is
    compared with the ledger, and counts nothing."""
    if len(reported) > MOST_HELD:
        doubts.add(Doubt.EXCESS, f"{len(reported)} cards are held: {MOST_HELD} of a report count")
    for held in reported[:MOST_HELD]:
        if (
            0 <= held.memory_bytes <= MOST_MEMORY_BYTES
            and 0 <= held.cores_percent <= MOST_CORES_PERCENT
            and 0 <= held.containers <= MOST_SLOTS
            and len(held.card) <= MOST_NAME
        ):
            yield held
        else:
            doubts.add(Doubt.NUMBERS, f"what is held of card {held.card!r}")
