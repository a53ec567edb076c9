"""What of the machine's devices a container gets with a reserved share: the device nodes of its
cards, those that every container with a card needs, and no other card's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from tessera_agent.delivery.node_files import read_node_files
from tessera_agent.delivery.vendor_devices import vendor_devices_of
from tessera_schema.cards import Card


class CardDevices(Struct, frozen=True, kw_only=True):
    """A container's devices."""

    nodes: Mapping[str, str] = {}
    """Path in the container -> path on the machine."""
    env: Mapping[str, str] = {}
    """Variables for the vendor's runtime."""


def card_devices(vendor: str, root: Path, cards: Sequence[Card]) -> CardDevices:
    """The devices of a container with these cards, on the machine whose root is there. It blocks.

    Nothing where the vendor's own plugin gives its cards, and where a card's node is not known or
    not there: the vendor's own CDI device gives it then.
    """
    facts = vendor_devices_of(vendor, root)
    if facts is None:
        return CardDevices()
    wanted = [pattern for pattern in (facts.card_nodes, *facts.nodes) if pattern]
    files = read_node_files(root, wanted, ())
    own = [facts.node(card) for card in cards] if facts.separate else []
    if not all(node in files.nodes for node in own):
        return CardDevices()
    paths = dict.fromkeys((*own, *files.matching(facts.nodes)))
    # An image may ask the vendor's runtime for all cards; without `machine` that gives the driver's
    # files alone, too.
    env = {} if facts.machine or not paths else {facts.variable: facts.driver}
    return CardDevices(nodes={path: str(root / path.lstrip("/")) for path in paths}, env=env)
