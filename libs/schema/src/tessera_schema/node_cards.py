"""`cards.tessera.dev/<vendor>` on a Node: the durable inventory of one vendor's cards there.

Written by that vendor's agent alone. Where the annotation is there, it is the only source of the
vendor's cards on the node, also when it is empty or cannot be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from tessera_schema.cards import Card
from tessera_schema.json_codec import decoder

PUBLISHED_VERSION: Final = 1
ALLOCATE: Final = "allocate"
"""See `NodeCardsAnnotation.giving`."""
RUNTIME_DOES_NOT_CALL: Final = "the container runtime does not ask"
"""How `NodeCardsAnnotation.problem` begins where NRI does not reach the agent."""


class NodeCardsAnnotation(Struct, frozen=True, kw_only=True):
    """The annotation's value."""

    version: int = PUBLISHED_VERSION
    cards: tuple[Card, ...] = ()
    giving: str | UnsetType = UNSET
    """How containers get these cards. Unset = the runtime asks the agent about each by name.
    `allocate` = kubelet calls a device plugin, and does not say for which pod: two pods that ask
    for as much must not start on the node at once. What is not known counts as `allocate`."""
    speaks: str | UnsetType = UNSET
    """Public key (Ed25519, base64) by which the agent's messages about these cards are signed.
    Unset = they are not."""

    advertises: Mapping[str, int] | UnsetType = UNSET
    """Extended resources whose amounts in the node's status are the agent's own, and the amounts.
    They say nothing about cards that another system would have published."""
    heartbeat_s: Annotated[float, Meta(gt=0)] | UnsetType = UNSET
    """Seconds for which a renewal of the agent's Lease counts: where it is not renewed within them,
    no pod is placed on these cards. Unset = the agent renews none, and nobody expects it to."""
    renewed_since_s: int | UnsetType = UNSET
    """Unix time since which the Lease was renewed without a gap. Nobody reads it: the node changes
    when an agent is back, and that has kube-scheduler try the pods again that wait."""
    problem: str | UnsetType = UNSET
    """Why containers have not been given these cards for a while, for people: the Lease is not
    renewed then. Unset = they are, or the reason is new."""


_encode = msgspec.json.Encoder().encode
_decode = decoder(NodeCardsAnnotation)


def encode_node_cards(published: NodeCardsAnnotation) -> str:
    """The annotation's value as text."""
    return _encode(published).decode()


def decode_node_cards(text: str) -> NodeCardsAnnotation:
    """Raises msgspec.DecodeError. The caller looks at the version."""
    return _decode(text)
