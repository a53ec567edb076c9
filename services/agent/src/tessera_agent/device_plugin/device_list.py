"""What kubelet is told that the node has, where a device plugin gives the cards: ids without any
meaning, of every name by which it is asked.

How much is free is in the scheduler's books. So there is twice of what the cards amount to, and it
does not change with what is in use, nor with the health of a single card.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NoReturn

from msgspec import Struct

from tessera_agent.devices.cards import CardsState
from tessera_core.inventory.extended_resources import amounts_of
from tessera_core.registry.registry import DialectRegistry
from tessera_kubelet.device_plugin.device_lists import DeviceLists
from tessera_kubelet.device_plugin.types import PluginDevice
from tessera_runtime import logs
from tessera_schema.cards import Card

_log: Final = logs.named("tessera.agent.offering")
MOST_IDS: Final = 100_000
"""Of one name. Kubelet reads 4 MiB at most, and writes them all down whenever a pod starts."""
_SPARE: Final = 2
"""A pod that is about to end keeps its ids while its successor starts."""
_LOOK_S: Final = 1.0
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


class OfferedCards(Struct, frozen=True, kw_only=True):
    """Whose cards."""

    registry: DialectRegistry
    vendor: str
    names: frozenset[str]
    seen: Callable[[], CardsState]
    left_to_others: Callable[[], bool]
    ready: Callable[[], bool]
    """Whether kubelet could be answered."""


class DeviceListUpdater:
    """Keeps what is offered in line with the cards."""

    def __init__(self, offers: DeviceLists, about: OfferedCards) -> None:
        """Nothing is offered before the cards have been seen."""
        self._offers = offers
        self._about = about
        self._told: dict[str, tuple[int, bool]] = {}

    async def keep(self) -> NoReturn:
        """Without end: look. Only cancellation ends it."""
        while True:
            self.reconcile()
            await asyncio.sleep(_LOOK_S)

    def reconcile(self) -> None:
        """Once. A name is registered by its first offer, so there is none while another plugin
        hands out the cards."""
        about, seen = self._about, self._about.seen()
        left = about.left_to_others()
        if not seen.complete or not seen.cards:
            return
        if not self._offers.resources and (left or not about.ready()):
            return
        healthy = not left and any(card.healthy for card in seen.cards)
        for name, wanted in amounts(about.registry, about.vendor, about.names, seen.cards).items():
            now = wanted, healthy
            if self._told.get(name) == now:
                continue
            self._told[name] = now
            count = min(wanted, MOST_IDS)
            if count < wanted:
                _log.warning("kubelet is told of less than there is", name=name, told=count)
            devices = [PluginDevice(id=_id(number), healthy=healthy) for number in range(count)]
            self._offers.put(name, devices)


def amounts(
    registry: DialectRegistry, vendor: str, names: Iterable[str], cards: Iterable[Card]
) -> Mapping[str, int]:
    """How many ids each name has."""
    amounted = amounts_of(registry, vendor, cards)
    return {name: _SPARE * amounted.get(name, 0) for name in sorted(names)}


def _id(number: int) -> str:
    """Short: kubelet keeps every one of them several times."""
    digits = ""
    while True:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
        if not number:
            return digits
