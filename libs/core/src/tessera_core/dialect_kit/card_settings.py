"""What an installation says of one vendor's cards on a node, over what their driver says.

A dialect's options may say it for all nodes (`Dialect.card_settings`);
`tessera_core.inventory.node_settings` reads it for some.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from tessera_core.dialect_kit.readings import Readings
from tessera_schema.cards import MIB, MOST_CORES_PERCENT, MOST_SLOTS, Card

UNSERVED_MODES: Final = ("mps",)
"""Operating modes that only a daemon on the node makes, which Tessera does not start."""
MOST_SCALING: Final = 10.0
"""Of memory. What is granted beyond a card is slow, and takes memory of the host."""
_HUNDRED: Final = 100
_LEAST: Final = 0.01

Names = tuple[Annotated[str, Meta(min_length=1)], ...]


class HiddenCardNames(Struct, frozen=True, forbid_unknown_fields=True):
    """Cards that take no new pods. A card that any of the three names is hidden."""

    ids: Names = ()
    """The vendor's ids (UUIDs), whole."""
    indexes: tuple[Annotated[int, Meta(ge=0)], ...] = ()
    models: Names = ()
    """Parts of the model's name, in any case."""

    def __contains__(self, card: Card) -> bool:
        """Whether the card is one of them."""
        model = card.model.lower()
        return (
            card.id in self.ids or card.index in self.indexes
            or any(part.lower() in model for part in self.models)
        )  # fmt: skip

    def plus(self, other: HiddenCardNames) -> HiddenCardNames:
        """The cards of both."""
        return HiddenCardNames(
            ids=_joined(self.ids, other.ids), indexes=_joined(self.indexes, other.indexes),
            models=_joined(self.models, other.models),
        )  # fmt: skip


class CardSettings(Struct, frozen=True, kw_only=True):
    """Settings of one vendor's cards on a node. None or empty = not said."""

    slots: Annotated[int, Meta(ge=1, le=MOST_SLOTS)] | None = None
    """Containers that may share a card."""
    memory_scaling: Annotated[float, Meta(ge=_LEAST, le=MOST_SCALING)] | None = None
    """Memory that can be granted, as a part of the memory that a card has. Above 1, what is granted
    beyond the card lies in the host's memory, where a hook can see to that."""
    host_memory_mib: Annotated[int, Meta(ge=0)] | None = None
    """MiB of the node's memory that all its cards together may be granted beyond their own."""
    core_scaling: Annotated[float, Meta(ge=_LEAST, le=MOST_CORES_PERCENT / _HUNDRED)] | None = None
    """Cores that can be granted, in cards: 2 = 200 % of each."""
    mode: Annotated[str, Meta(max_length=64)] = ""
    """Operating mode of cards whose driver reports none, for pods that ask for one by name; cards
    in mode `mig` are left alone."""
    log_level: Annotated[int, Meta(ge=1, le=3)] | None = None
    """What the hook logs in containers: 1 errors, 2 warnings too, 3 notes too."""
    charge_contexts: bool | None = None
    """Contexts and code of a container's processes count against its memory."""
    hidden: HiddenCardNames = HiddenCardNames()
    unified_memory_mib: Annotated[int, Meta(ge=1)] | None = None
    """MiB of a card whose driver cannot say how much it has, since it shares its host's."""

    def __post_init__(self) -> None:
        """Raise ValueError for a mode that the cards would not be in."""
        if self.mode in UNSERVED_MODES:
            raise ValueError(f"mode {self.mode}: Tessera does not start its daemon: leave it out")

    def under(self, other: CardSettings) -> CardSettings:
        """These with what the other says laid over them. Hidden cards add up."""
        said = {name: value for name, value in _values(other).items() if value not in (None, "")}
        return replace(self, **said, hidden=self.hidden.plus(other.hidden))

    def applied_to(self, cards: Sequence[Card]) -> tuple[Card, ...]:
        """The cards as they are published."""
        most = self.host_memory_mib
        share = None if most is None else most * MIB // max(len(cards), 1)
        return tuple(self._applied(card, share) for card in cards)

    def on_host(self, memory_bytes: int, *, hooked: bool) -> CardSettings:
        """These on a node with so much memory of its own: half of it at most is granted beyond the
        cards' where nothing else is said, and nothing where no hook could put it there."""
        if not hooked and self.memory_scaling is not None and self.memory_scaling > 1:
            return replace(self, memory_scaling=1.0)
        if self.host_memory_mib is None:
            return replace(self, host_memory_mib=memory_bytes // 2 // MIB)
        return self

    def completed(self, readings: Readings) -> Readings:
        """What a driver said, with the size of cards that have no memory of their own."""
        mib = self.unified_memory_mib
        if mib is None or all(card.memory_bytes for card in readings.cards):
            return readings
        return replace(
            readings,
            cards=tuple(
                card if card.memory_bytes else replace(card, memory_bytes=mib * MIB)
                for card in readings.cards
            ),
        )

    def _applied(self, card: Card, most_beyond: int | None) -> Card:
        physical = card.physical_bytes or card.memory_bytes
        memory = physical
        if self.memory_scaling is not None and self.memory_scaling != 1:
            memory = int(physical * self.memory_scaling) // MIB * MIB
            if most_beyond is not None:
                memory = min(memory, physical // MIB * MIB + most_beyond // MIB * MIB)
        return replace(
            card,
            memory_bytes=memory,
            physical_bytes=physical if memory != physical else 0,
            cores_percent=(
                card.cores_percent if self.core_scaling is None else _HUNDRED * self.core_scaling
            ),
            slots=card.slots if self.slots is None else self.slots,
            mode=card.mode or self.mode,
            hidden=card in self.hidden,
        )


def _values(settings: CardSettings) -> dict[str, object]:
    values = asdict(settings)
    return {field: values[field] for field in CardSettings.__struct_fields__ if field != "hidden"}


def loosest(settings: Sequence[CardSettings], card: Card) -> Card:
    """The card under the first of these, with the largest amounts that it has under any of them:
    containers that were admitted under one are not refused under another."""
    first, *others = (one.applied_to((card,))[0] for one in settings)
    return (
        replace(
            first,
            memory_bytes=max(first.memory_bytes, *(one.memory_bytes for one in others)),
            cores_percent=max(first.cores_percent, *(one.cores_percent for one in others)),
            slots=max(first.slots, *(one.slots for one in others)),
        )
        if others
        else first
    )


def _joined(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys((*one, *other)))
