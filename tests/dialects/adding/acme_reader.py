"""How the agent reads Acme's cards: as their plugin publishes them on the node. This is the file
`tessera_agent/readers/acme.py`."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from tessera_agent.readers import ReaderEnvironment
from tessera_agent.readers.node_object import PublishedReader, open_published
from tessera_agent.settings import ReaderSettings


def open_reader(
    settings: ReaderSettings, world: ReaderEnvironment
) -> AbstractAsyncContextManager[PublishedReader]:
    """A reader of the node object."""
    return open_published("acme", settings, world)
