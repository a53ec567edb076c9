"""Whether a container was given other cards than it was granted, by what the runtime shows of it.

Where a vendor's own plugin gives the cards, it may pick the wrong pod or number cards otherwise:
then two pods use one card that the ledger gives to one. Kubelet's PodResources cannot show that, as
the plugin's ids mean nothing; the container's variables and device nodes can.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from tessera_core.dialect_kit.contract import DeviceEvidence
from tessera_schema.cards import Card
from tessera_schema.grants import Share

_NO_LIST: Final = frozenset({"", "all", "none", "void"})
"""Images set such words for machines without a plugin: they name no card."""


def device_mismatch(
    shows: DeviceEvidence,
    shares: Sequence[Share],
    cards: Mapping[str, Card],
    env: Mapping[str, str],
    devices: Iterable[str],
) -> str:
    """In words, what the container was given instead of `shares`; empty where that cannot be seen,
    or is the same. `cards` are the vendor's on the node by id, `devices` paths in the container."""
    granted = {share.card for share in shares}
    for what, found in _found(shows, cards, env, devices):
        if set(found) != granted:
            return (
                f"it was granted {_listed(granted, cards)}, and {what} gives it "
                f"{_listed(set(found), cards)}"
            )
    return ""


def _found(
    shows: DeviceEvidence, cards: Mapping[str, Card], env: Mapping[str, str], devices: Iterable[str]
) -> Iterator[tuple[str, Sequence[str]]]:
    """Each thing that names cards, and their ids; what is no card of the node is left as it is."""
    by_index = {str(card.index): card.id for card in cards.values()}
    for name in shows.variables:
        text = env.get(name, "").strip()
        if text.lower() not in _NO_LIST:
            words = (word.strip() for word in text.split(","))
            yield f"{name}={text}", [by_index.get(word, word) for word in words if word]
    minors = _minors(shows.device, devices)
    if minors:
        by_minor = {card.device_minor: card.id for card in cards.values()}
        paths = [f"{shows.device}{minor}" for minor in minors]
        ids = [by_minor.get(minor, f"{shows.device}{minor}") for minor in minors]
        yield ", ".join(paths), ids


def _minors(prefix: str, devices: Iterable[str]) -> list[int]:
    if not prefix:
        return []
    ends = (path.removeprefix(prefix) for path in devices if path.startswith(prefix))
    return sorted({int(end) for end in ends if end.isascii() and end.isdecimal()})


def _listed(ids: set[str], cards: Mapping[str, Card]) -> str:
    if not ids:
        return "no card"
    return " and ".join(
        f"card {cards[name].index} ({name})" if name in cards else name for name in sorted(ids)
    )
