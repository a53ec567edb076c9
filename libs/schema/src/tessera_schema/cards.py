"""A card as the ledger has it, and where that came from."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from msgspec import UNSET, Struct, UnsetType

MIB: Final = 1 << 20
MOST_MEMORY_BYTES: Final = 1 << 50
"""Of one card. A card, or a share, that has more is not credible."""
MOST_CORES_PERCENT: Final = 1_000_000
"""Of one card, likewise."""
MOST_SLOTS: Final = 1_000_000
"""Of one card, likewise."""


class Partition(Struct, frozen=True, kw_only=True):
    """Cards that a machine can join into one fast group."""

    minors: tuple[int, ...]
    score: int = 1
    """Among groups of one size the higher is the better."""
    bandwidth: int = 0
    """Of the ring that joins them, in bytes or bits as its source counts; 0 = not known."""


class Siting(Struct, frozen=True, kw_only=True):
    """What is said on the node, and by a card's own system, of where it stands among others. No
    agent publishes it."""

    labels: dict[str, str] = {}
    partitions: tuple[Partition, ...] = ()
    """Of the whole node."""
    partitioned: bool = False
    """Whole cards are given in groups of `partitions` alone."""
    pool: str = ""
    """Of the node; quotas may name it."""


class Card(Struct, frozen=True, kw_only=True, gc=False):
    """One physical accelerator.

    Memory is in bytes because Koordinator promises halves of cards whose size is no multiple of
    1 MiB (docs/decisions/0001-memory-in-bytes.md). Cores are percent of the card; a vendor
    that counts sixteenths has multiples of 6.25, which binary floats hold exactly.
    """

    id: str
    """Vendor's identity (a UUID where the vendor has one); unique on its node."""
    index: int
    """Position on the node, as the vendor's tools number it."""
    vendor: str
    model: str = ""
    memory_bytes: int
    """What can be granted of it."""
    physical_bytes: int = 0
    """What the card has, where settings of its node let another amount be granted; 0 = the same."""
    cores_percent: float = 100
    slots: int = 100
    """How many containers may share the card."""
    minor: int = -1
    """Number in the device node's name; -1 = same as index."""
    numa: int = 0
    switch: str = ""
    """PCIe switch the card hangs from; cards with an equal, non-empty value are close."""
    links: dict[str, int] = {}
    """Other card's id -> closeness: PCIe class 10 (across sockets) to 60 (same board), plus 100
    for each NVLink. The scale is that of HAMi's card scores."""
    mode: str = ""
    """Operating mode its agent reports (`hami-core`, `mig`, `mps`); empty = plain sharing."""
    healthy: bool = True
    cordoned: bool = False
    """Kept off new pods by an operator."""
    hidden: bool = False
    """Kept off new pods by settings of its node; what pods hold of it they keep."""
    siting: Siting | UnsetType = UNSET
    """Not published; see there."""

    @property
    def memory_mib(self) -> int:
        """Memory in whole MiB, rounded down."""
        return self.memory_bytes // MIB

    @property
    def device_minor(self) -> int:
        """Number in the device node's name."""
        return self.index if self.minor < 0 else self.minor


class Precision(IntEnum):
    """How much a source knows about cards, best first; ties go by dialect name."""

    TESSERA = 0
    """Our own agent's annotation."""
    REGISTERED = 1
    """Card by card, with identities."""
    COUNTED = 2
    """Only totals in the node's capacity: cards are assumed to be equal."""
    LABELLED = 3
    """Only labels of the node, whose device plugin chooses among its cards by itself. Plans count
    them, where nothing better is known; no pod is bound there."""


class Inventory(Struct, frozen=True, kw_only=True):
    """What one source says about one vendor's cards on one node."""

    vendor: str
    source: str
    """Dialect's name, or `tessera`."""
    precision: Precision
    cards: tuple[Card, ...] = ()
    cordoned: tuple[str, ...] = ()
    """Ids that an operator keeps off new pods, whichever source names the cards."""
    giving: str = ""
    """`NodeCardsAnnotation.giving`, where the source is our agent; empty = unset."""
    advertised: frozenset[str] = frozenset()
    """Names in `NodeCardsAnnotation.advertises`, where the source is our agent."""
    warnings: tuple[str, ...] = ()
