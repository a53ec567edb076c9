"""How the agent reads Acme's cards: as their plugin publishes them on the node. This is the file
`tessera_agent/readers/acme.py`."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from tessera_agent.readers import NodeSource, ReaderSettings
from tessera_agent.readers.node_object import PublishedReader, open_published
from tessera_core.registry.registry import DialectRegistry
from tessera_runtime.clock import Clock


def open_reader(
    settings: ReaderSettings, node: NodeSource, registry: DialectRegistry, clock: Clock
) -> AbstractAsyncContextManager[PublishedReader]:
    """A reader of the node object."""
    return open_published("acme", settings, node, registry, clock)
