"""The facts by which one vendor's devices get into containers.

The module of a vendor whose containers get their cards from Tessera's agent offers

    def vendor_devices(root: Path) -> VendorDevices

in `tessera_agent.readers`: the facts as they are on the machine whose root is there.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from tessera_agent.delivery.settings import DeviceFeature
from tessera_schema.cards import Card

EVERY: Final = "all"
"""Name of a CDI device that stands for all of its kind."""


class FeatureDevices(Struct, frozen=True, kw_only=True):
    """What one feature is made of."""

    name: str
    """For people."""
    variable: str
    """Set to `enabled`, it has the vendor's runtime add these devices."""
    kind: str
    """CDI's; a specification of it has one device, `all`."""
    nodes: tuple[str, ...]
    """Patterns of device nodes. The feature is there where one of them is."""
    mounts: tuple[str, ...] = ()
    """Files and folders that go with them, as far as they are there."""


class ChannelDevices(Struct, frozen=True, kw_only=True):
    """Numbered channels between the cards of several nodes (IMEX)."""

    variable: str
    """Lists them for the vendor's runtime."""
    kind: str
    """CDI's; a device of it is called by its number."""
    mount: str
    """Folder in which a mount's name is a channel's number."""
    node: str
    """How their device nodes begin; the number follows."""


class VendorDevices(Struct, frozen=True, kw_only=True):
    """One vendor's devices, as a machine has them."""

    kind: str
    """CDI's, such as `vendor.com/class`."""
    variable: str
    """Lists a container's cards for the vendor's runtime."""
    nothing: str
    """Its value by which that gives neither cards nor driver."""
    driver: str
    """Its value by which that gives the driver's files and no card."""
    mount: str
    """Folder in which a mount's name is a card's."""
    node: Callable[[Card], str]
    """The card's device node; empty where it is not known."""
    card_nodes: str = ""
    """Pattern of all cards' device nodes."""
    nodes: Sequence[str] = ()
    """Patterns of device nodes that every container with a card needs, as far as they are
    there."""
    separate: bool = True
    """Whether each card has a device node of its own; else `nodes` are those of all cards."""
    listed_name: str = ""
    """The one name by which the vendor's runtime knows the machine's cards; empty = their ids or
    numbers."""
    cdi_name: str = ""
    """Likewise for CDI."""
    features: Mapping[DeviceFeature, FeatureDevices] = {}
    channels: ChannelDevices | None = None
    license_mounts: Mapping[str, str] = {}
    """Path in a container -> name of a file in the folder of a licensed library."""
    machine: str = ""
    """What kind of machine it is, for messages; empty = an ordinary one."""


def vendor_devices_of(vendor: str, root: Path) -> VendorDevices | None:
    """The facts, for which the machine's files are read: call it from a thread. None = containers
    get the vendor's cards from its own plugin."""
    module = importlib.import_module(f"tessera_agent.readers.{vendor}")
    found: Callable[[Path], VendorDevices] | None = getattr(module, "vendor_devices", None)
    return None if found is None else found(root)
