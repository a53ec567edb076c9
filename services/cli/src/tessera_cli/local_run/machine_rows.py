"""The shares of one machine as the rows of one node: what `tessera top` draws of a cluster it draws
of them. Pure: answers of the daemon in, rows out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from tessera_core.occupancy.lending import with_loans
from tessera_core.occupancy.rows import (
    CardRow,
    CardTotals,
    MeasuredShare,
    NodeRow,
    RequestedPart,
    ShareRow,
    WaitingRow,
    totals_of,
)
from tessera_schema.cards import Card
from tessera_schema.local_shares import LocalCard, LocalShare, LocalWaiting, SharesListed

PROCESS: Final = "process"
RESERVED: Final = "reserved"
"""In the place of a pod's dialect."""
_ALL: Final = 100.0
_NS: Final = 1e9


class MachineRows(Struct, frozen=True, kw_only=True):
    """One moment of a machine. Use of cores is between two answers."""

    node: str
    """What the machine is called."""
    listed: SharesListed
    before: SharesListed
    """An earlier answer, or the same: then no use of cores is known."""

    def rows(self) -> Sequence[NodeRow]:
        """The machine, if it has cards."""
        if not self.listed.cards:
            return []
        earlier = {(one.name, one.card): one for one in self.before.shares}
        shares: dict[str, list[ShareRow]] = {card.id: [] for card in self.listed.cards}
        for one in self.listed.shares:
            row = self._share(one, earlier.get((one.name, one.card)))
            shares.setdefault(one.card, []).append(row)
        cards = tuple(_card(self.node, card, shares[card.id]) for card in self.listed.cards)
        return [NodeRow(name=self.node, cards=cards, measured=True)]

    def totals(self) -> CardTotals:
        """Of all its cards."""
        found = self.rows()
        return totals_of(found[0]) if found else CardTotals()

    def waiting(self) -> Sequence[WaitingRow]:
        """The processes that wait, in the order in which they came."""
        return [_waiting(one) for one in self.listed.queue]

    def _share(self, one: LocalShare, earlier: LocalShare | None) -> ShareRow:
        return ShareRow(
            namespace=one.user, name=holder(one), uid=one.name, node=self.node, card=one.card,
            index=one.index, dialects=(PROCESS if one.pid else RESERVED,),
            memory_bytes=one.memory_bytes, cores_percent=one.cores_percent, slots=1,
            exclusive=False, best_effort=one.best_effort, created=_written(one.since),
            measured=_measured(one, earlier or one, self.listed.at_s - self.before.at_s),
        )  # fmt: skip


def holder(one: LocalShare) -> str:
    """What holds it: a process with its command, as far as that is shown, or its name."""
    return f"{one.pid} {one.command}".rstrip() if one.pid else one.name


def _card(node: str, card: LocalCard, shares: Sequence[ShareRow]) -> CardRow:
    largest = sorted(shares, key=lambda s: (-s.memory_bytes, s.namespace, s.name))
    of_card = with_loans(largest, _ALL)
    uses = [share.measured for share in of_card if share.measured is not None]
    return CardRow(
        node=node,
        card=Card(
            id=card.id, index=card.index, model=card.model, vendor="",
            memory_bytes=card.memory_bytes, cores_percent=_ALL, healthy=card.healthy,
        ),
        shares=of_card, memory_bytes=card.held_bytes, cores_percent=card.held_percent,
        used_bytes=sum(use.memory_bytes for use in uses),
        used_percent=sum(use.cores_percent for use in uses),
        note="" if card.healthy else "unhealthy",
    )  # fmt: skip


def _waiting(one: LocalWaiting) -> WaitingRow:
    wanted = one.wanted
    part = RequestedPart(
        dialect=PROCESS, cards=wanted.count, memory_bytes=wanted.memory_bytes,
        memory_percent=0 if wanted.memory_bytes else _ALL, cores_percent=wanted.cores_percent,
    )  # fmt: skip
    return WaitingRow(
        namespace=one.user, name=wanted.name or f"{one.pid} {wanted.command}".rstrip(),
        uid=str(one.pid), created=_written(one.since), dialects=(PROCESS,), parts=(part,),
        reason=one.why,
    )  # fmt: skip


def _written(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="seconds")


def _measured(one: LocalShare, earlier: LocalShare, passed_s: float) -> MeasuredShare:
    return MeasuredShare(
        memory_bytes=one.used_bytes,
        cores_percent=_percent(one.gpu_ns - earlier.gpu_ns, passed_s),
        throttled_percent=min(_percent(one.throttled_ns - earlier.throttled_ns, passed_s), _ALL),
        limit_percent=one.cores_percent + one.lent_percent,
    )  # fmt: skip


def _percent(grown_ns: int, passed_s: float) -> float:
    """A counter that is smaller than before is a new file's: nothing is known of it yet."""
    return _ALL * max(grown_ns, 0) / _NS / passed_s if passed_s > 0 else 0
