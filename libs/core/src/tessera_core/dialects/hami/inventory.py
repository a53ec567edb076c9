"""Cards that HAMi's device plugin registered on a node, with the operator's cordon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from tessera_core.dialect_kit import (
    CARDS_PREFIX,
    MOST_CARDS,
    Card,
    Custom,
    Inventory,
    Node,
    Precision,
)
from tessera_core.dialect_kit.hami_format import card_of, plugin_is_gone, words_of
from tessera_core.dialects.hami.codec import read_register, read_scores
from tessera_core.dialects.hami.options import NAME, VENDOR, HamiOptions

REGISTER: Final = "hami.io/node-nvidia-register"
SCORE: Final = "hami.io/node-nvidia-score"
CORDON: Final = "hami.io/device-cordon"
_MIG_ID: Final = "MIG-"
_MIG_MODE: Final = "mig"
_OWN_KEY: Final = f"{CARDS_PREFIX}{VENDOR}"
_FIX: Final = "restart HAMi's device plugin there, it writes the annotation again"


def inventory(
    options: HamiOptions, node: Node, _customs: Sequence[Custom]
) -> tuple[Inventory, ...]:
    """The node's cards; nothing where no plugin registered any. Never raises: what cannot be
    read is a warning, and the rest counts."""
    cordoned = words_of(node.metadata.annotations, CORDON)
    text = node.metadata.annotations.get(REGISTER)
    if text is None:
        return (_published((), cordoned, ()),) if cordoned else ()
    entries, problems = read_register(text)
    warnings = [_say(node, REGISTER, f"{problem}; {_FIX}") for problem in problems]
    if not entries and not problems:
        warnings.append(_say(node, REGISTER, "it lists no cards; see whether the driver sees any"))
    if len(entries) > MOST_CARDS:
        warnings.append(
            _say(node, REGISTER, f"{len(entries)} cards are more than {MOST_CARDS}: none is used")
        )
        entries = []
    if len({e.index for e in entries}) < len({e.id for e in entries}):
        warnings.append(_say(node, REGISTER, f"cards share an index: numbered as listed; {_FIX}"))
        entries = [replace(entry, index=position) for position, entry in enumerate(entries)]
    links = _links(node, warnings)
    cards = []
    for entry in entries:
        try:
            card = card_of(entry, VENDOR)
        except ValueError as e:
            warnings.append(_say(node, REGISTER, f"card {entry.id!r}: {e}; {_FIX}"))
            continue
        cards.append(_completed(card, links.get(card.id, {})))
    return (_published(_served(options, node, cards, warnings), cordoned, warnings),)


def _published(
    cards: Sequence[Card], cordoned: Sequence[str], warnings: Sequence[str]
) -> Inventory:
    return Inventory(
        vendor=VENDOR, source=NAME, precision=Precision.REGISTERED, cards=tuple(cards),
        cordoned=tuple(cordoned), warnings=tuple(warnings),
    )  # fmt: skip


def _served(options: HamiOptions, node: Node, cards: list[Card], warnings: list[str]) -> list[Card]:
    """The cards as they stand with HAMi's plugin, which leaves its register behind when it goes.
    Where our agent publishes the cards, the agent alone reports their health."""
    if not plugin_is_gone(node, options.count) or _OWN_KEY in node.metadata.annotations:
        return cards
    gone = f"{options.count} is 0 in status.allocatable, so its cards take no pods"
    warnings.append(_say(node, REGISTER, f"{gone}: see whether HAMi's device plugin runs"))
    return [replace(card, healthy=False) for card in cards]


def _completed(card: Card, links: dict[str, int]) -> Card:
    """The card with its links. MIG instances that were registered as cards (static strategies)
    are in MIG mode, whatever their entry says."""
    mode = _MIG_MODE if card.id.startswith(_MIG_ID) else card.mode
    return replace(card, links=links, mode=mode)


def _links(node: Node, warnings: list[str]) -> dict[str, dict[str, int]]:
    text = node.metadata.annotations.get(SCORE)
    if text is None:
        return {}
    try:
        return read_scores(text)
    except ValueError as e:
        warnings.append(_say(node, SCORE, f"{e}; cards count as unlinked; {_FIX}"))
        return {}


def _say(node: Node, key: str, what: str) -> str:
    return f"node {node.name}: annotation {key}: {what}"
