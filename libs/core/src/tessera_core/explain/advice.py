"""What would help a pod that waits: to ask for less, to ask for something else, or to wait for
others to end. `tessera_core.explain.remedies` works it out.

It is about the ledger as it is, and promises nothing: what is free may be taken by a pod that
comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from tessera_core.kube.quantity import binary_quantity
from tessera_schema.cards import MIB

_GIB: Final = 1024 * MIB


class Barrier(StrEnum):
    """What keeps the pod waiting, from what only another request mends to what may mend itself."""

    NO_CARDS = "no-cards"
    """No node publishes cards of the vendor."""
    NOT_ALLOWED = "not-allowed"
    """No card is one that the pod allows and that can be used at all."""
    TOO_LARGE = "too-large"
    """No card has so much, even when nobody uses it."""
    TOO_MANY = "too-many"
    """No node has so many cards."""
    QUOTA = "quota"
    """A limit of its namespace."""
    HELD = "held"
    """Other pods hold it."""
    RESERVED = "reserved"
    """Cards are reserved for a gang in line."""
    TOGETHER = "together"
    """Each container has room somewhere, all of them on one node have not."""
    NONE = "none"
    """There is room now, as far as cards and quota are concerned."""


class FreePart(Struct, frozen=True, kw_only=True):
    """The largest part of a card that is free for the pod's kind of request: of each card, where it
    asks for several on one node."""

    node: str
    card: str
    index: int
    model: str
    memory_bytes: int
    cores_percent: float


class LargestCard(Struct, frozen=True, kw_only=True):
    """The card with most of what is asked, of those that the pod allows."""

    model: str
    memory_bytes: int
    cores_percent: float


class BlockingPod(Struct, frozen=True, kw_only=True):
    """A pod that holds what is asked."""

    namespace: str
    name: str
    memory_bytes: int
    """Of the cards in question, as the cores."""
    cores_percent: float

    @property
    def called(self) -> str:
        """Of a pod that must not be named both names are empty."""
        return f"{self.namespace}/{self.name}" if self.name else "a pod of another namespace"


class PodMemoryUnit(Struct, frozen=True):
    """How a pod writes memory of cards."""

    name: str = ""
    """Of the resource; empty = MiB are shown."""
    bytes: int = MIB
    """1 = it is a quantity of bytes."""

    def amount(self, size: int) -> str:
        """The most that can be written and is no more than so many bytes."""
        if not self.name:
            return f"{size // MIB} MiB"
        text = binary_quantity(size // MIB * MIB) if self.bytes == 1 else str(size // self.bytes)
        return f"{self.name}: {text}"


MIB_UNIT: Final = PodMemoryUnit()


class Advice(Struct, frozen=True, kw_only=True):
    """What would help one pod."""

    barrier: Barrier
    container: str = ""
    """Whose request is spoken of; several that share a card are one."""
    vendor: str = ""
    count: int = 1
    """Cards of one node that it asks for."""
    memory_bytes: int = 0
    """Asked of each card; of a percentage, what it is on the largest card."""
    memory_percent: float = 0
    """Asked of each card, where it asks so."""
    cores_percent: float = 0
    whole: bool = False
    """It asks for cards that no other pod uses."""
    by_memory: bool = False
    """Memory is missing: asking for less of it would do, and of cores where those are too."""
    by_cores: bool = False
    largest_free: FreePart | None = None
    largest_card: LargestCard | None = None
    most_cards: int = 0
    """Cards of one node that would do if nobody used them, where it asks for more."""
    holders: tuple[BlockingPod, ...] = ()
    """Pods on one node that stand in the way: once they have ended there is room. Empty where that
    takes many."""
    said: str = ""
    """What a limit says, which cards there are, or which gang they are reserved for."""
    unit: PodMemoryUnit = MIB_UNIT

    def sentence(self) -> str:
        """For people; empty where there is nothing to say."""
        return _SENTENCES[self.barrier](self)


def _no_cards(a: Advice) -> str:
    return f"no node publishes {a.vendor} cards"


def _not_allowed(a: Advice) -> str:
    return f"no {a.vendor} card of this cluster would do: {a.said}"


def _too_large(a: Advice) -> str:
    card = a.largest_card
    if card is None:
        return ""
    if a.by_cores:
        most = f"{card.cores_percent:g} %"
        return f"no card of this cluster has that many cores (most: {most}): ask for at most {most}"
    return (
        f"no card of this cluster is that large (largest: {card.memory_bytes // MIB} MiB, "
        f"{card.model or 'of unknown model'}): ask for at most {a.unit.amount(card.memory_bytes)}"
    )


def _too_many(a: Advice) -> str:
    most = f"ask for at most {a.most_cards}"
    return f"no node has {a.count} cards that would do (most: {a.most_cards}): {most}"


def _in_use(a: Advice) -> str:
    names = " and ".join(h.called for h in a.holders)
    wait = f"wait for {names or 'other pods to end'}"
    free = a.largest_free
    less = "" if free is None or a.whole else _less(a, free)
    if free is None or not less:
        what = "is idle" if a.whole else "has anything free"
        few = "no card" if a.count == 1 else f"no node has {a.count} cards of which each"
        return f"{few} {what}: {wait}"
    part = "part is" if a.count == 1 else f"parts of {a.count} cards of one node are"
    sizes = [_gib(free.memory_bytes)] if a.by_memory else []
    sizes += [f"{free.cores_percent:g} % of cores"] if a.by_cores else []
    size = " and ".join(sizes)
    return f"the largest free {part} {size} on {free.node}: ask for at most {less}, or {wait}"


def _less(a: Advice, free: FreePart) -> str:
    """The most that could be asked instead; empty where that is nothing."""
    if a.by_memory and free.memory_bytes < max(a.unit.bytes, MIB):
        return ""
    if a.by_cores and not free.cores_percent:
        return ""
    amounts = [a.unit.amount(free.memory_bytes)] if a.by_memory else []
    amounts += [f"{free.cores_percent:g} % of cores"] if a.by_cores else []
    return " and ".join(amounts)


def _gib(size: int) -> str:
    return f"{size / _GIB:.3g} GiB"


_SENTENCES: Final[Mapping[Barrier, Callable[[Advice], str]]] = {
    Barrier.NO_CARDS: _no_cards,
    Barrier.NOT_ALLOWED: _not_allowed,
    Barrier.TOO_LARGE: _too_large,
    Barrier.TOO_MANY: _too_many,
    Barrier.QUOTA: lambda a: a.said,
    Barrier.HELD: _in_use,
    Barrier.RESERVED: lambda a: a.said,
    Barrier.TOGETHER: lambda _: (
        "each container by itself has room, all of them on one node have not: ask for less, or for "
        "fewer containers in one pod"
    ),
    Barrier.NONE: lambda _: "",
}
