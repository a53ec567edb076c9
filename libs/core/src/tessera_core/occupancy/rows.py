"""Rows of a cluster: nodes, their cards, the shares of each, and pods that wait.

Amounts are as they were granted and measured. None = not measured: no report counts at the moment.
"""

from __future__ import annotations

from msgspec import Struct

from tessera_schema.cards import Card


class MeasuredShare(Struct, frozen=True, kw_only=True):
    """What the containers of one pod use of one card, added up."""

    memory_bytes: int = 0
    cores_percent: float = 0
    """GPU time over the last interval, percent of the card."""
    limit_percent: float = 0
    """Cores that its limits allow now, loans included; 0 = not limited."""
    throttled_percent: float = 0
    """Time that launches were held back, percent of the interval."""
    enforced: bool = True


class ShareRow(Struct, frozen=True, kw_only=True):
    """One pod's part of one card."""

    namespace: str
    name: str
    uid: str
    node: str
    card: str
    """The card's id."""
    index: int
    dialects: tuple[str, ...]
    memory_bytes: int
    cores_percent: float
    """0 = none were asked for: it is not limited, or a best-effort one."""
    slots: int
    exclusive: bool
    best_effort: bool = False
    """It has the card's time that others leave."""
    lent: bool = False
    """And memory that they leave: it is not counted in what is granted of the card."""
    created: str = ""
    """Of the pod, as the API server writes it."""
    phase: str = ""
    """Of the pod."""
    measured: MeasuredShare | None = None
    borrows_percent: float = 0
    """Cores that it may use beyond its own."""
    lends_percent: float = 0
    """Cores of its own that others may use now: an estimate (`occupancy.lending`)."""
    partners: tuple[str, ...] = ()
    """From which pods it borrows, or to which it lends, `namespace/name`."""

    @property
    def pod(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


class CardRow(Struct, frozen=True, kw_only=True):
    """One card, and who holds parts of it."""

    node: str
    card: Card
    published: bool = True
    """False = pods hold it, and its node does not publish it: only its id and index are known."""
    shares: tuple[ShareRow, ...] = ()
    """Largest memory first."""
    memory_bytes: int = 0
    """Granted."""
    cores_percent: float = 0
    """Granted."""
    used_bytes: int | None = None
    used_percent: float | None = None
    note: str = ""
    """What keeps pods off it; empty = nothing."""

    @property
    def whole(self) -> bool:
        """One pod has the card to itself."""
        return any(share.exclusive for share in self.shares)

    @property
    def key(self) -> tuple[str, str]:
        """Which card it is."""
        return self.node, self.card.id


class NodeRow(Struct, frozen=True, kw_only=True):
    """One node that has cards, or on which pods hold some."""

    name: str
    cards: tuple[CardRow, ...] = ()
    closed: bool = False
    """Cordoned: kube-scheduler places no pods there."""
    problems: tuple[str, ...] = ()
    """What its agents say is wrong, a sentence each, and what is wrong with what they published."""
    measured: bool = False
    """A usage report of it counts at the moment."""


class RequestedPart(Struct, frozen=True, kw_only=True):
    """What one container of a pod that waits asks for, of each of so many cards."""

    dialect: str
    cards: int
    memory_bytes: int = 0
    memory_percent: float = 0
    cores_percent: float = 0
    exclusive: bool = False


class WaitingRow(Struct, frozen=True, kw_only=True):
    """A pod that asks for cards and has no node."""

    namespace: str
    name: str
    uid: str
    created: str
    dialects: tuple[str, ...]
    parts: tuple[RequestedPart, ...]
    reason: str
    """Why it waits, in one line; empty = nothing was said yet."""
    remedy: str = ""
    """What would help; empty = not known."""

    @property
    def pod(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


class CardTotals(Struct, frozen=True, kw_only=True):
    """All cards that are published, added up. Unhealthy ones count as cards, and not in amounts."""

    nodes: int = 0
    nodes_measured: int = 0
    cards: int = 0
    cards_healthy: int = 0
    memory_bytes: int = 0
    memory_granted_bytes: int = 0
    memory_used_bytes: int = 0
    cores_percent: float = 0
    cores_granted_percent: float = 0
    cores_used_percent: float = 0
    shares: int = 0

    def plus(self, other: CardTotals) -> CardTotals:
        """Both together."""
        return CardTotals(
            nodes=self.nodes + other.nodes,
            nodes_measured=self.nodes_measured + other.nodes_measured,
            cards=self.cards + other.cards,
            cards_healthy=self.cards_healthy + other.cards_healthy,
            memory_bytes=self.memory_bytes + other.memory_bytes,
            memory_granted_bytes=self.memory_granted_bytes + other.memory_granted_bytes,
            memory_used_bytes=self.memory_used_bytes + other.memory_used_bytes,
            cores_percent=self.cores_percent + other.cores_percent,
            cores_granted_percent=self.cores_granted_percent + other.cores_granted_percent,
            cores_used_percent=self.cores_used_percent + other.cores_used_percent,
            shares=self.shares + other.shares,
        )


def totals_of(node: NodeRow) -> CardTotals:
    """The totals of one node."""
    healthy = [row for row in node.cards if row.published and row.card.healthy]
    return CardTotals(
        nodes=1,
        nodes_measured=int(node.measured),
        cards=sum(row.published for row in node.cards),
        cards_healthy=len(healthy),
        memory_bytes=sum(row.card.memory_bytes for row in healthy),
        memory_granted_bytes=sum(row.memory_bytes for row in healthy),
        memory_used_bytes=sum(row.used_bytes or 0 for row in healthy),
        cores_percent=sum(row.card.cores_percent for row in healthy),
        cores_granted_percent=sum(row.cores_percent for row in healthy),
        cores_used_percent=sum(row.used_percent or 0 for row in healthy),
        shares=sum(len(row.shares) for row in node.cards),
    )
