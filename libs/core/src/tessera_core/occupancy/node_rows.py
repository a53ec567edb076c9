"""The row of one node: its cards, the pods on it, and what its agents report, put together."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.fleet.charges import charges
from tessera_core.occupancy.lending import with_loans
from tessera_core.occupancy.rows import CardRow, MeasuredShare, NodeRow, ShareRow
from tessera_core.occupancy.summaries import CardNode, HoldingPod
from tessera_schema.cards import Card
from tessera_schema.messages.device_reports import CardUse, DeviceState, NodeUsage

NOT_PUBLISHED: Final = "not published by its node"


class NodeParts(Struct, frozen=True, kw_only=True):
    """What is known of one node."""

    name: str
    facts: CardNode | None
    """None = the API server has no such node."""
    pods: Collection[HoldingPod] = ()
    usage: Collection[NodeUsage] = ()
    """The newest report of each vendor."""
    states: Collection[DeviceState] = ()
    """Likewise."""


def node_row(node: NodeParts) -> NodeRow:
    """The row; without cards where the node has none and no pod holds any there."""
    facts = node.facts
    published = {} if facts is None else {card.id: card for card in facts.cards}
    uses = _uses(node)
    shares: dict[str, list[ShareRow]] = {card: [] for card in published}
    lost: dict[str, Card] = {}
    for pod in node.pods:
        for share in _shares(pod, uses):
            shares.setdefault(share.card, []).append(share)
            if share.card not in published:
                lost[share.card] = _unpublished(share)
    loads = {
        load.card: load for usage in node.usage for load in usage.cards
    }  # fmt: skip
    unhealthy = {c.id for s in node.states for c in s.cards if not c.healthy}
    rows = []
    for card in [*published.values(), *lost.values()]:
        of_card = _sorted(with_loans(shares[card.id], card.cores_percent))
        row = _card_row(node.name, card, of_card, measured=bool(node.usage))
        load = loads.get(card.id)
        if load is not None:
            row = replace(row, used_bytes=load.memory_used_bytes, used_percent=load.cores_percent)
        if card.id in lost:
            row = replace(row, published=False, note=NOT_PUBLISHED)
        elif card.id in unhealthy and card.healthy:
            row = replace(row, card=replace(card, healthy=False), note="unhealthy")
        rows.append(row)
    return NodeRow(
        name=node.name,
        cards=tuple(rows),
        closed=facts is not None and facts.closed,
        problems=tuple(dict.fromkeys(_problems(node))),
        measured=bool(node.usage),
    )


def _problems(node: NodeParts) -> Iterator[str]:
    for state in node.states:
        yield from state.problems
        for left in state.occupied:
            yield f"containers of {left.namespace}/{left.name} run on although their pod is gone"
    if node.facts is not None:
        yield from node.facts.problems


def _card_row(name: str, card: Card, shares: tuple[ShareRow, ...], *, measured: bool) -> CardRow:
    uses = [share.measured for share in shares if share.measured is not None]
    whole = any(share.exclusive for share in shares)
    granted_bytes = sum(share.memory_bytes for share in shares if not share.lent)
    return CardRow(
        node=name, card=card, shares=shares,
        memory_bytes=card.memory_bytes if whole else granted_bytes,
        cores_percent=card.cores_percent if whole else sum(s.cores_percent for s in shares),
        used_bytes=sum(use.memory_bytes for use in uses) if measured else None,
        used_percent=sum(use.cores_percent for use in uses) if measured else None,
        note=_note(card),
    )  # fmt: skip


def _note(card: Card) -> str:
    states = (
        (not card.healthy, "unhealthy"), (card.cordoned, "cordoned"), (card.hidden, "hidden")
    )  # fmt: skip
    return ", ".join(word for said, word in states if said)


def _unpublished(share: ShareRow) -> Card:
    return Card(id=share.card, index=share.index, vendor="", memory_bytes=0)


def _uses(node: NodeParts) -> dict[tuple[str, str], MeasuredShare]:
    """(pod's uid, card) -> what all its containers use of it."""
    found: dict[tuple[str, str], MeasuredShare] = {}
    for usage in node.usage:
        for container in usage.containers:
            for use in container.cards:
                key = container.uid, use.card
                found[key] = _plus(found.get(key), use, enforced=container.enforced)
    return found


def _plus(before: MeasuredShare | None, use: CardUse, *, enforced: bool) -> MeasuredShare:
    if before is None:
        return MeasuredShare(
            memory_bytes=use.memory_bytes, cores_percent=use.cores_percent,
            limit_percent=use.cores_limit_percent, throttled_percent=use.throttled_percent,
            enforced=enforced,
        )  # fmt: skip
    limited = before.limit_percent and use.cores_limit_percent
    return MeasuredShare(
        memory_bytes=before.memory_bytes + use.memory_bytes,
        cores_percent=before.cores_percent + use.cores_percent,
        limit_percent=before.limit_percent + use.cores_limit_percent if limited else 0,
        throttled_percent=max(before.throttled_percent, use.throttled_percent),
        enforced=before.enforced and enforced,
    )


def _shares(
    pod: HoldingPod, uses: Mapping[tuple[str, str], MeasuredShare]
) -> list[ShareRow]:  # fmt: skip
    grant = pod.grant
    held = charges(grant.shares, init_over=pod.init_over)
    first = {share.card: share for share in reversed(grant.shares)}
    return [
        ShareRow(
            namespace=grant.namespace, name=grant.name, uid=pod.uid, node=grant.node, card=card,
            index=first[card].index,
            dialects=tuple(dict.fromkeys(s.dialect for s in grant.shares if s.card == card)),
            memory_bytes=charge.memory_bytes + charge.lent_bytes,
            cores_percent=charge.cores_percent, slots=charge.slots + charge.lent_slots,
            exclusive=bool(charge.exclusive), best_effort=bool(charge.best_effort),
            lent=bool(charge.lent_slots), created=pod.created,
            phase="Terminating" if pod.ending else pod.phase,
            measured=uses.get((pod.uid, card)),
        )
        for card, charge in held.items()
    ]  # fmt: skip


def _sorted(shares: tuple[ShareRow, ...]) -> tuple[ShareRow, ...]:
    return tuple(sorted(shares, key=lambda s: (-s.memory_bytes, s.namespace, s.name)))
