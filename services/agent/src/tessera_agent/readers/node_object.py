"""Cards that only the vendor's own plugin can see: known by what it published on the node.

The dialects already read that (capacities, registers); Tessera's own annotation is left out, or it
would confirm itself. Where a library that speaks NVML is named, it adds use, faults and the
driver's version to the cards with the same number; without it use is unknown.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import UNSET
from msgspec.structs import replace

from tessera_agent.readers import CardReader, DriverSilent, NodeSource, ReaderSettings
from tessera_agent.readers.nvidia import open_reader as open_nvml
from tessera_core.dialect_kit.readings import CardReading, Readings
from tessera_core.inventory.merge import cards_of
from tessera_core.registry.registry import DialectRegistry
from tessera_runtime.clock import Clock
from tessera_schema.annotation_keys import CARDS_PREFIX
from tessera_schema.cards import Card
from tessera_schema.kube import Node


class PublishedReader:
    """Reads the node object, and the library if there is one."""

    def __init__(
        self, vendor: str, node: NodeSource, registry: DialectRegistry, library: CardReader | None
    ) -> None:
        """`library` sees the same cards in the same order."""
        self._vendor = vendor
        self._source = node
        own = {name: d for name, d in registry.readers.items() if d.vendor == vendor}
        self._registry = replace(registry, readers=own)
        self._library = library

    async def poll(self, *, times_only: bool = False) -> Readings | DriverSilent:
        """The cards as the node shows them now."""
        node = self._source.node
        if node is None:
            return DriverSilent(why="the node has not been read yet")
        cards, problems = self._cards(node)
        if not cards:
            what = f"node {node.name} shows no {self._vendor} cards: see whether its plugin runs"
            problems = (*problems, what)
        read = Readings(counted=cards, problems=problems)
        if self._library is None:
            return read
        seen = await self._library.poll(times_only=times_only)
        if isinstance(seen, DriverSilent):
            return replace(read, problems=(*problems, f"use is unknown: {seen.why}"))
        return _with_use(read, seen)

    def _cards(self, node: Node) -> tuple[tuple[Card, ...], tuple[str, ...]]:
        notes = dict(node.metadata.annotations)
        notes.pop(f"{CARDS_PREFIX}{self._vendor}", None)
        bare = replace(node, metadata=replace(node.metadata, annotations=notes))
        cards, warnings = cards_of(self._registry, bare, {})
        own = (card for card in cards if card.vendor == self._vendor)
        return tuple(replace(card, siting=UNSET) for card in own), warnings


def _with_use(read: Readings, seen: Readings) -> Readings:
    """The library's readings under the ids that the plugin gave the cards, number by number."""
    by_index = {card.index: card for card in read.counted}
    cards = tuple(_named(card, by_index) for card in seen.cards if card.index in by_index)
    problems = read.problems
    if len(seen.cards) != len(read.counted):
        problems = (
            *problems,
            f"the driver shows {len(seen.cards)} cards, the node {len(read.counted)}: the node's "
            "counts, and use is known of cards with its numbers alone",
        )
    return replace(
        seen, counted=read.counted, cards=cards, problems=(*seen.problems, *problems)
    )  # fmt: skip


def _named(card: CardReading, by_index: dict[int, Card]) -> CardReading:
    return replace(card, id=by_index[card.index].id)


@asynccontextmanager
async def open_published(
    vendor: str, settings: ReaderSettings, node: NodeSource, registry: DialectRegistry, clock: Clock
) -> AsyncGenerator[PublishedReader]:
    """A reader of the node object, and of the library where `settings` name one."""
    async with AsyncExitStack() as stack:
        library = None
        if settings.library:
            library = await stack.enter_async_context(open_nvml(settings, node, registry, clock))
        yield PublishedReader(vendor, node, registry, library)
