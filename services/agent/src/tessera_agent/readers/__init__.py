"""How one vendor's cards are read.

There is a module for each vendor, named like it, that offers

    def open_reader(
        settings: ReaderSettings, node: NodeSource, registry: DialectRegistry, clock: Clock
    ) -> AbstractAsyncContextManager[CardReader]

Only this folder imports a vendor's library.
"""

from __future__ import annotations

import importlib
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from tessera_core.dialect_kit.readings import Readings
from tessera_core.registry.registry import DialectRegistry
from tessera_runtime.clock import Clock
from tessera_runtime.kube.settings import Seconds
from tessera_schema.kube import Node


class ReaderSettings(Struct, frozen=True, kw_only=True):
    """How the vendor's cards are read."""

    library: str = ""
    """Path of the vendor's management library; empty = the one that the loader finds. Where a
    vendor's cards are known from the node alone, naming one that speaks NVML adds use and health.
    """
    call_s: Seconds = 5.0
    """Seconds that a poll may take before the driver counts as hanging: a loaded driver may take
    two to answer for eight cards."""
    system_folder: str = "/sys"
    """Where sysfs is mounted."""
    driver: str = ""
    """The driver's version, where it cannot be read; checked against what sharing needs."""
    toolkit: str = ""
    """Version of the vendor's container toolkit, which cannot be read; checked likewise."""
    root: Path = Path("/")
    """Where the node's root is mounted: device nodes next to the cards, and files that describe a
    machine whose driver has no management library, are looked for below it."""
    card_uuid: str = ""
    """UUID of the one card of such a machine, by which limits know it; files do not say it."""


class DriverSilent(Struct, frozen=True, kw_only=True):
    """A poll that the driver did not answer."""

    why: str
    """A clause for messages."""
    hanging: bool = False
    """True: an earlier call has not come back, and no other is made until it does."""
    missing: bool = False
    """True: there is no driver here to ask."""


class CardReader(Protocol):
    """Reads one vendor's cards."""

    async def poll(self, *, times_only: bool = False) -> Readings | DriverSilent:
        """The cards as they are now, within the reader's deadline. Never raises but for
        cancellation: a driver that fails is an answer too. One call at a time.

        With `times_only` no more than faults and the times of processes need be new, which
        spares the driver most of its calls; all else may be that of the poll before."""
        ...


class NodeSource(Protocol):
    """Has the node object."""

    @property
    def node(self) -> Node | None:
        """The node as it was read last; None before the first read."""
        ...


def open_reader(
    vendor: str, settings: ReaderSettings, node: NodeSource, registry: DialectRegistry, clock: Clock
) -> AbstractAsyncContextManager[CardReader]:
    """The vendor's reader. Raises ModuleNotFoundError for an unknown vendor."""
    module = importlib.import_module(f"{__name__}.{vendor}")
    opened: AbstractAsyncContextManager[CardReader] = module.open_reader(
        settings, node, registry, clock
    )
    return opened
