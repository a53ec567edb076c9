"""Which names make sense together, and what they come to per card.

Koordinator checks a pod twice: its webhook rewrites each container (`completed`), its scheduler
accepts ten combinations of names and checks units (`check`). A container is held to the
scheduler's rules both as written and as rewritten, so nothing passes that only one of the two
would make sense of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from tessera_core.dialect_kit import LEAST_CARD_BYTES, MemoryUnit, invalid_field
from tessera_core.dialects.koordinator.amounts import Ask, WrittenAmount
from tessera_core.dialects.koordinator.names import ResourceKind

_SHARED, _CORE, _MEMORY, _RATIO = (
    ResourceKind.SHARED,
    ResourceKind.CORE,
    ResourceKind.MEMORY,
    ResourceKind.RATIO,
)
VALID: Final = frozenset(
    frozenset(kinds)
    for kinds in (
        (ResourceKind.WHOLE,),
        (ResourceKind.GPU,),
        (_MEMORY,),
        (_RATIO,),
        (_CORE, _MEMORY),
        (_CORE, _RATIO),
        (_SHARED, _MEMORY),
        (_SHARED, _RATIO),
        (_SHARED, _CORE, _MEMORY),
        (_SHARED, _CORE, _RATIO),
    )
)
_BYTES: Final = MemoryUnit(1)
PERCENTS: Final = (ResourceKind.GPU, ResourceKind.CORE, ResourceKind.RATIO)


class PerCard(Struct, frozen=True):
    """What a container asks of each of `count` cards. Either bytes or percent of memory."""

    count: int
    cores_percent: int = 0
    memory_bytes: int = 0
    memory_percent: int = 0

    @property
    def exclusive(self) -> bool:
        """All of a card's memory in percent: Koordinator does not share such a card. Cores do
        not matter, and an amount in bytes is always a share."""
        return self.memory_percent == 100


def check(ask: Ask) -> None:
    """Raise InvalidField unless the names go together and their units are right."""
    if frozenset(ask) not in VALID:
        _refuse_names(ask)
    shared = ask.get(ResourceKind.SHARED)
    for kind in PERCENTS:
        if kind in ask:
            _check_percent(kind, ask[kind], shared)
    if shared is not None and ResourceKind.MEMORY in ask:
        _check_memory(ask[ResourceKind.MEMORY], shared.amount)


def completed(ask: Ask, names: Mapping[ResourceKind, str]) -> Ask:
    """A checked ask as Koordinator's webhook leaves it: `gpu` becomes cores and ratio, deprecated
    names today's, and `gpu.shared` is added. Whole cards stay as they are."""
    if ResourceKind.WHOLE in ask:
        return ask
    after = {kind: w for kind, w in ask.items() if kind is not ResourceKind.GPU}
    if ResourceKind.GPU in ask:
        after[ResourceKind.CORE] = after[ResourceKind.RATIO] = ask[ResourceKind.GPU]
    if ResourceKind.SHARED not in after:
        lead = (
            after.get(ResourceKind.RATIO)
            or after.get(ResourceKind.CORE)
            or after[ResourceKind.MEMORY]
        )
        count = 1 if lead is after.get(ResourceKind.MEMORY) else max(1, lead.amount // 100)
        after[ResourceKind.SHARED] = WrittenAmount(count, "", lead.field, str(count))
    return {
        kind: WrittenAmount(
            w.amount, names[kind], w.field, w.text if kind is ResourceKind.MEMORY else str(w.amount)
        )
        for kind, w in after.items()
    }


def per_card(ask: Ask) -> PerCard:
    """A checked and completed ask, spread evenly over its cards; what is left over is dropped."""
    if ResourceKind.WHOLE in ask:
        return PerCard(ask[ResourceKind.WHOLE].amount, cores_percent=100, memory_percent=100)
    count = ask[ResourceKind.SHARED].amount
    cores, memory, ratio = (
        ask[kind].amount // count if kind in ask else 0
        for kind in (ResourceKind.CORE, ResourceKind.MEMORY, ResourceKind.RATIO)
    )
    return PerCard(count, cores, memory, ratio)


def _check_memory(memory: WrittenAmount, cards: int) -> None:
    """Bytes, of all cards together."""
    if memory.amount < cards * LEAST_CARD_BYTES:
        remedy = _BYTES.too_little(memory.text, memory.amount, cards)
        raise invalid_field(memory.field, memory.text, remedy)
    if memory.amount > cards * _BYTES.most:
        raise invalid_field(
            memory.field, memory.text, _BYTES.too_much(memory.text, memory.amount, cards)
        )


def _parts_of_cards(kind: ResourceKind) -> str:
    if kind is ResourceKind.GPU:
        return "write gpu-core and gpu-memory-ratio instead and spread them with gpu.shared"
    return "spread it over cards with gpu.shared"


def _check_percent(
    kind: ResourceKind, written: WrittenAmount, shared: WrittenAmount | None
) -> None:
    amount = written.amount
    if shared is None:
        if amount > 100 and amount % 100:
            raise invalid_field(
                written.field,
                written.text,
                "more than 100 must be a multiple of 100: whole cards. "
                f"Write {-(-amount // 100) * 100}, or {_parts_of_cards(kind)}.",
            )
        return
    cards = shared.amount
    if amount % cards:
        remedy = (
            f"must be a multiple of the number of cards ({cards}), "
            f"such as {-(-amount // cards) * cards}."
        )
        raise invalid_field(written.field, written.text, remedy)
    if amount // cards > 100:
        remedy = (
            f"is more than {cards} x 100 percent, 100 of each card: "
            f"write at most {cards * 100}, or ask for more cards with gpu.shared."
        )
        raise invalid_field(written.field, written.text, remedy)


def _refuse_names(ask: Ask) -> None:
    names = ", ".join(sorted(w.name for w in ask.values()))
    for kind, remedy in (
        (ResourceKind.WHOLE, "whole cards go with no other name of a card"),
        (ResourceKind.GPU, "already means cores and memory; write it alone, or gpu-core and "
                   "gpu-memory-ratio instead of it"),
    ):  # fmt: skip
        if kind in ask:
            raise invalid_field(ask[kind].field, ask[kind].text, f"{remedy} (here: {names}).")
    if ResourceKind.MEMORY in ask and ResourceKind.RATIO in ask:
        remedy = f"memory is asked in bytes and in percent; keep one of them (here: {names})."
        raise invalid_field(ask[ResourceKind.RATIO].field, ask[ResourceKind.RATIO].text, remedy)
    lead = next(iter(ask.values()))
    remedy = f"no memory is asked; add gpu-memory-ratio (percent) or gpu-memory (here: {names})."
    raise invalid_field(lead.field, lead.text, remedy)
