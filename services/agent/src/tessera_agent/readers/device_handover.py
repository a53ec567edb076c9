"""How a vendor's cards are handed to a container where nobody but kubelet asks.

The module of a vendor whose cards can be given so offers `HANDING: DeviceHandover`. A variable
that the pod sets itself stands whatever a device plugin answers, so cards come by name (CDI) or as
device nodes; by the vendor's variable they come only where neither will do.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tessera_agent.settings import AgentSettings, CardDelivery, HandoverMethod
from tessera_runtime.errors import BadSettings
from tessera_schema.cards import Card
from tessera_schema.injections import Injection


class DeviceHandover(Struct, frozen=True, kw_only=True):
    """One vendor's way."""

    kind: str
    """CDI's, such as `vendor.com/class`; a device of it is called by the card's id."""
    nothing: Mapping[str, str]
    """Variables with which the vendor's runtime gives neither cards nor driver."""
    driver: Mapping[str, str]
    """Variables with which it gives the driver's files and no card."""
    node: Callable[[Card], str]
    """The card's device node; empty where it is not known."""
    nodes: Sequence[str]
    """Device nodes that every container with a card needs, as far as they are there."""


class HandedOverDevices(Struct, frozen=True, kw_only=True):
    """Cards, as kubelet is told."""

    injection: Injection
    cdi: tuple[str, ...] = ()


class NoDeviceNode(Exception):
    """A card's device node is not known."""


def device_handover_of(vendor: str) -> DeviceHandover | None:
    """The vendor's; None where somebody else gives its cards."""
    module = importlib.import_module(f"tessera_agent.readers.{vendor}")
    return getattr(module, "HANDING", None)


def device_handover_by(settings: AgentSettings) -> DeviceHandover | None:
    """How kubelet hands the cards over; None where the runtime gives them. Raises BadSettings where
    they cannot be given so."""
    if settings.giving is CardDelivery.RUNTIME:
        return None
    found = device_handover_of(settings.vendor)
    if found is None:
        raise BadSettings(
            f"giving: {settings.giving}: the device plugin of {settings.vendor} gives its cards: "
            f"write {CardDelivery.RUNTIME}"
        )
    return found


def hand_over(
    handing: DeviceHandover, by: HandoverMethod, injection: Injection, cards: Sequence[Card]
) -> HandedOverDevices:
    """What a container is given that holds shares of these cards. It looks for device nodes: call
    it from a thread. Raises NoNode."""
    match by:
        case HandoverMethod.ENV:
            return HandedOverDevices(injection=injection)
        case HandoverMethod.CDI:
            return HandedOverDevices(
                injection=replace(injection, env={**injection.env, **handing.nothing}),
                cdi=tuple(f"{handing.kind}={card.id}" for card in cards),
            )
        case HandoverMethod.NODES:
            own = tuple(handing.node(card) for card in cards)
            if not all(own):
                unknown = ", ".join(card.id for card in cards if not handing.node(card))
                raise NoDeviceNode(f"the device node of card {unknown} is not known")
            shared = tuple(path for path in handing.nodes if Path(path).exists())
            return HandedOverDevices(
                injection=replace(
                    injection,
                    env={**injection.env, **handing.driver},
                    devices=(*injection.devices, *own, *shared),
                )
            )
