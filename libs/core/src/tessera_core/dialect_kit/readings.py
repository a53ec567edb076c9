"""What a reader saw of one vendor's cards in one poll: plain facts, before anything is concluded.

Readers fill these in (`tessera_agent.readers`); vendors turn them into cards; health, usage and
metrics are concluded from them elsewhere, without touching a driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from tessera_schema.cards import Card


class Link(StrEnum):
    """How two cards reach each other over PCIe, nearest first; HAMi's words for it."""

    SAME_BOARD = "SameBoard"
    SINGLE_SWITCH = "SingleSwitch"
    MULTI_SWITCH = "MultiSwitch"
    HOST_BRIDGE = "HostBridge"
    SAME_CPU = "SameCPU"
    CROSS_CPU = "CrossCPU"


class Fault(Struct, frozen=True, kw_only=True):
    """Something that a card or its driver reported."""

    code: int = 0
    """The driver's number for it (an XID); 0 = it has none."""
    what: str
    """For people, one clause."""


class ProcessReading(Struct, frozen=True, kw_only=True):
    """One process on one card."""

    pid: int
    """As the node numbers it."""
    memory_bytes: int = 0
    busy_ns: int = -1
    """Time that it has kept the card busy since the driver was opened, as far as samples reach;
    below 0 = the driver does not say."""


class CardReading(Struct, frozen=True, kw_only=True):
    """One card as its driver shows it."""

    id: str
    index: int
    minor: int = -1
    model: str = ""
    memory_bytes: int = 0
    numa: int = 0
    bus: str = ""
    """PCI address, `0000:17:00.0`."""
    paths: Mapping[str, Link] = {}
    """Other card's id -> nearest common point on the way to it."""
    lanes: Mapping[str, int] = {}
    """Other card's id -> direct links of the vendor's own kind (NVLink) to it."""
    mode: str = ""
    """`mig`, or `mps` where a sharing daemon holds the card; empty = plain."""
    faults: tuple[Fault, ...] = ()
    """Reported since the last poll."""
    standing: tuple[Fault, ...] = ()
    """True as long as it is here: a pending reset, a failed row."""
    memory_used_bytes: int = 0
    busy_percent: float = -1
    """Below 0 = the driver did not say."""
    memory_busy_percent: float = -1
    """Of its memory controller; below 0 likewise."""
    processes: tuple[ProcessReading, ...] = ()
    sampled_us: int = 0
    """The driver's stamp of the last sample that `busy_ns` counts; 0 = none yet."""


class Readings(Struct, frozen=True, kw_only=True):
    """One poll: every card that answered."""

    cards: tuple[CardReading, ...] = ()
    driver: str = ""
    """The driver's version; empty = it cannot be read."""
    api: str = ""
    """Version of the interface that containers use of it (CUDA); empty likewise."""
    toolkit: str = ""
    """Version of what gives containers their cards; empty likewise."""
    session: int = 0
    """Times that the driver was opened: a reset card is seen by it."""
    counted: tuple[Card, ...] = ()
    """Where cards are known only from what the vendor's own plugin published on the node: those
    cards, instead of `cards`."""
    problems: tuple[str, ...] = ()
    """A sentence each."""
