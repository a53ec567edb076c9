"""Iluvatar's cards: as their plugin publishes them on the node.

The driver's libixml offers functions of NVML's names: where its path is set, use and faults are
read through it. That is untried on a real card.
"""

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
    return open_published("iluvatar", settings, node, registry, clock)
