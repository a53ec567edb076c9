"""How one vendor's cards are read.

There is a module for each vendor, named like it, that offers

    def open_reader(settings: ReaderSettings, world: World) -> AbstractAsyncContextManager[Reader]

Nothing outside this folder knows a vendor's library.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from tessera_agent.settings import ReaderSettings
from tessera_core.dialect_kit.readings import Readings
from tessera_core.registry.registry import DialectRegistry
from tessera_runtime.clock import Clock
from tessera_schema.kube import Node


class DriverSilent(Struct, frozen=True, kw_only=True):
    """A poll that the driver did not answer."""

    why: str
    """A clause for people."""
    hanging: bool = False
    """True: an earlier call has not come back, and no other is made until it does."""


class CardReader(Protocol):
    """Reads one vendor's cards."""

    async def poll(self) -> Readings | DriverSilent:
        """The cards as they are now, within the reader's deadline. Never raises but for
        cancellation: a driver that fails is an answer too. One call at a time."""
        ...


class ReaderEnvironment(Struct, frozen=True, kw_only=True):
    """What a reader may need besides its library."""

    node: Callable[[], Node | None]
    """The node as last seen; None before the first look."""
    registry: DialectRegistry
    clock: Clock


def open_reader(
    vendor: str, settings: ReaderSettings, world: ReaderEnvironment
) -> AbstractAsyncContextManager[CardReader]:
    """The vendor's reader. Raises ModuleNotFoundError for a vendor that nobody knows."""
    module = importlib.import_module(f"{__name__}.{vendor}")
    opened: AbstractAsyncContextManager[CardReader] = module.open_reader(settings, world)
    return opened
