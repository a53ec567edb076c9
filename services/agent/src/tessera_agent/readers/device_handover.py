"""How a vendor's cards are handed to a container where kubelet gives them, through a device plugin.

The module of a vendor whose cards can be given so offers `HANDOVER: DeviceHandover`. A variable
that the pod sets itself stands whatever a device plugin answers, so cards come by name (CDI) or as
device nodes; by the vendor's variable they come only where neither will do.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tessera_runtime.errors import BadSettings
from tessera_schema.cards import Card
from tessera_schema.injections import Injection


class CardDelivery(StrEnum):
    """How containers get the vendor's cards."""

    RUNTIME = "runtime"
    """The container runtime asks about each container by name (NRI)."""
    ALLOCATE = "allocate"
    """Kubelet asks, through a device plugin, where the runtime has no NRI. It does not name the
    container, so the scheduler lets no two pods that ask for as much start on the node at once."""


class HandoverMethod(StrEnum):
    """How a device plugin hands a card to a container."""

    CDI = "cdi"
    """By its name, which the runtime looks up in the specifications that the vendor's toolkit
    wrote, with UUIDs for names."""
    NODES = "nodes"
    """As device nodes; the vendor's runtime adds the driver's files."""
    ENV = "env"
    """By the variable that the vendor's runtime reads. One that the pod has from a ConfigMap stands
    in its place."""


class DeviceHandover(Struct, frozen=True, kw_only=True):
    """The facts by which one vendor's cards are handed over."""

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
    """Cards, as kubelet gets them."""

    injection: Injection
    cdi: tuple[str, ...] = ()


class NoDeviceNode(Exception):
    """A card's device node is not known."""


def device_handover_of(vendor: str) -> DeviceHandover | None:
    """The vendor's handover; None where its own plugin gives its cards."""
    module = importlib.import_module(f"tessera_agent.readers.{vendor}")
    return getattr(module, "HANDOVER", None)


def device_handover_by(delivery: CardDelivery, vendor: str) -> DeviceHandover | None:
    """How kubelet hands the cards over; None where the runtime gives them. Raises BadSettings where
    they cannot be given so."""
    if delivery is CardDelivery.RUNTIME:
        return None
    found = device_handover_of(vendor)
    if found is None:
        raise BadSettings(
            f"giving: {delivery}: the device plugin of {vendor} gives its cards: "
            f"write {CardDelivery.RUNTIME}"
        )
    return found


def hand_over(
    handover: DeviceHandover, by: HandoverMethod, injection: Injection, cards: Sequence[Card]
) -> HandedOverDevices:
    """The devices of a container that holds shares of these cards. It checks for device nodes: call
    it from a thread. Raises NoDeviceNode."""
    match by:
        case HandoverMethod.ENV:
            return HandedOverDevices(injection=injection)
        case HandoverMethod.CDI:
            return HandedOverDevices(
                injection=replace(injection, env={**injection.env, **handover.nothing}),
                cdi=tuple(f"{handover.kind}={card.id}" for card in cards),
            )
        case HandoverMethod.NODES:
            own = tuple(handover.node(card) for card in cards)
            if not all(own):
                unknown = ", ".join(card.id for card in cards if not handover.node(card))
                raise NoDeviceNode(f"the device node of card {unknown} is not known")
            shared = tuple(path for path in handover.nodes if Path(path).exists())
            return HandedOverDevices(
                injection=replace(
                    injection,
                    env={**injection.env, **handover.driver},
                    devices=(*injection.devices, *own, *shared),
                )
            )
