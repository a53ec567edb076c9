"""Objects of the group `visibility.tessera.dev`: what the scheduler answers about pods through the
API server. They are computed when they are asked for and kept nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from tessera_schema.json_codec import decoder

GROUP: Final = "visibility.tessera.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
ROOT: Final = f"/apis/{API_VERSION}"
PLURAL: Final = "podexplanations"
KIND: Final = "PodExplanation"


class Meta(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Identity of the pod, and when it was created."""

    name: str
    namespace: str
    uid: str = ""
    creation_timestamp: str | None = None


class ExplanationListMeta(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Where a list goes on."""

    continue_: str = msgspec.field(name="continue", default="")
    """To be given with the next call; empty = it is at its end."""


class RequestedCards(Struct, frozen=True, kw_only=True, rename="camel"):
    """What one container asks for, of each of `count` cards."""

    container: str
    vendor: str
    dialect: str
    count: int
    memory_mib: int = 0
    memory_percent: float = 0
    cores_percent: float = 0
    exclusive: bool = False


class GrantedShareView(Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of a card."""

    container: str
    card: str
    index: int
    memory_mib: int
    cores_percent: float
    best_effort: bool | UnsetType = UNSET
    """True = it has the card's time that others leave."""
    lent: bool | UnsetType = UNSET
    """True = its memory is what others were granted and leave."""


class GrantView(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the pod has in the ledger."""

    node: str
    phase: str
    since: str
    shares: tuple[GrantedShareView, ...]


class LimitState(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A limit of the namespace and what is used of it; what is not there is not limited."""

    source: str
    vendor: str = ""
    memory_mib: int | None = None
    memory_mib_used: int = 0
    cores_percent: float | None = None
    cores_percent_used: float = 0
    cards: int | None = None
    cards_used: int = 0


class ReasonText(Struct, frozen=True, kw_only=True):
    """Why not, in a word and in numbers."""

    reason: str
    message: str


class CardHolder(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A pod that holds a part of a card. It has no name where who asks may not see it."""

    namespace: str = ""
    name: str = ""
    memory_mib: int = 0
    cores_percent: float = 0
    exclusive: bool = False


class CardState(Struct, frozen=True, kw_only=True, rename="camel"):
    """One card of a node, and why the pod cannot have a part of it."""

    index: int
    id: str
    model: str
    memory_mib: int
    memory_mib_used: int
    cores_percent: float
    cores_percent_used: float
    slots: int
    slots_used: int
    reason: str = ""
    """Empty = this card would do."""
    holders: tuple[CardHolder, ...] = ()
    price_percent: int | UnsetType = UNSET
    """GPU time, percent of a card, that one more pod like this is expected to take from those on
    it; unset = no hint says it, or the pod takes whole cards."""


class NodeState(Struct, frozen=True, kw_only=True, rename="camel"):
    """One node, and why the pod cannot go there."""

    name: str
    reasons: tuple[ReasonText, ...] = ()
    """None = it has room."""
    cards: tuple[CardState, ...] = ()
    """Where they were asked for."""


class PodExplanation(Struct, frozen=True, kw_only=True, rename="camel"):
    """Why a pod waits, or what it holds."""

    kind: str = KIND
    api_version: str = API_VERSION
    metadata: Meta
    verdict: str
    """placed, waiting, rejected, ignored, or unasked: kube-scheduler has not asked about it."""
    message: str = ""
    """One line."""
    advice: str = ""
    """What would help a pod that waits; empty = nothing is known."""
    preemption: str = ""
    """Who would have to go for a pod that waits; empty = nobody worked it out."""
    node: str = ""
    attempts: int = 0
    decided_at: str = ""
    """RFC 3339; empty = it was evaluated just now."""
    scheduler: str = ""
    """What kube-scheduler wrote on the pod that it could not place."""
    dialects: tuple[str, ...] = ()
    asks: tuple[RequestedCards, ...] = ()
    limits: tuple[LimitState, ...] = ()
    held: GrantView | None = None
    reasons: tuple[ReasonText, ...] = ()
    """Of the pod as a whole."""
    nodes: tuple[NodeState, ...] = ()
    more_nodes: int = 0
    """Nodes that were left out of `nodes`; `message` counts all."""

    def each_reason(self) -> Iterator[tuple[str, ReasonText]]:
        """Every reason with its node, which is empty for those of the pod as a whole."""
        yield from (("", reason) for reason in self.reasons)
        for node in self.nodes:
            yield from ((node.name, reason) for reason in node.reasons)


class PodExplanationList(Struct, frozen=True, kw_only=True, rename="camel"):
    """Pods that ask for cards and have no node yet, without their nodes' reasons."""

    kind: str = f"{KIND}List"
    api_version: str = API_VERSION
    metadata: ExplanationListMeta = ExplanationListMeta()
    items: tuple[PodExplanation, ...] = ()


decode_pod_explanation = decoder(PodExplanation)
decode_pod_explanation_list = decoder(PodExplanationList)
