"""Explanations as people read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import UNSET

from tessera_schema.endpoints.visibility import (
    CardHolder,
    CardState,
    LimitState,
    NodeState,
    PodExplanation,
    PodExplanationList,
    RequestedCards,
)

_NOBODY_MAY_KNOW: Final = "a pod of another namespace"


def whole(found: PodExplanation) -> Iterator[str]:
    """Everything about one pod, line by line."""
    speaks = f" ({', '.join(found.dialects)})" if found.dialects else ""
    yield f"{found.metadata.namespace}/{found.metadata.name}{speaks}: {found.verdict}"
    yield from (
        f"  {line}" for line in (*_description(found), *_requested(found), *_granted(found))
    )
    for node in found.nodes:
        yield from _node(node, evaluated=found.held is None)
    if found.more_nodes:
        yield f"  and {found.more_nodes} more nodes"


def _description(found: PodExplanation) -> Iterator[str]:
    if found.message:
        yield found.message
    if found.advice:
        yield f"what would help: {found.advice}"
    if found.preemption:
        yield f"preemption: {found.preemption}"
    if found.scheduler:
        yield f"kube-scheduler says: {found.scheduler}"
    for reason in found.reasons:
        if reason.message != found.message:
            yield f"{reason.reason}: {reason.message}"


def _requested(found: PodExplanation) -> Iterator[str]:
    for asked in found.asks:
        yield f"{asked.container} asks for {asked.count} {asked.vendor} card(s): {_each(asked)}"
    for limit in found.limits:
        yield f"quota {limit.source}: {_used(limit)}"


def _granted(found: PodExplanation) -> Iterator[str]:
    if found.held is not None:
        yield f"holds on {found.held.node} ({found.held.phase}):"
        for share in found.held.shares:
            memory = f"{share.memory_mib} MiB" + (" lent" if share.lent is True else "")
            cores = f"{share.cores_percent:g} % of cores"
            amount = f"{memory}, {'best-effort' if share.best_effort else cores}"
            yield f"  card {share.index} {share.card}: {amount}"


def table(found: PodExplanationList, everywhere: bool) -> Iterator[str]:  # noqa: FBT001  (as asked)
    """A line for each pod."""
    if not found.items:
        yield "no pod waits for cards" + ("" if everywhere else " in this namespace (-A: in all)")
        return
    rows = [("NAMESPACE", "NAME", "VERDICT", "ATTEMPTS", "WHY")]
    for one in found.items:
        why = "; ".join(filter(None, (one.message, one.advice)))
        rows.append(
            (one.metadata.namespace, one.metadata.name, one.verdict, str(one.attempts), why)
        )
    yield from _columns([row if everywhere else row[1:] for row in rows])


def _columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "   ".join(cells).rstrip()


def _node(node: NodeState, *, evaluated: bool) -> Iterator[str]:
    """`evaluated` where it is said of each card whether it would do."""
    for reason in node.reasons:
        named = reason.reason in reason.message
        said = reason.message if named else f"{reason.reason}: {reason.message}"
        yield f"  {node.name}: {said}"
    if not node.reasons:
        yield f"  {node.name}:"
    for card in node.cards:
        why = f": {card.reason or 'would do'}" if evaluated else ""
        yield f"    {_card(card)}{why}"
        yield from _price(card)
        for holder in card.holders:
            yield f"      {_holder(holder)}"


def _card(card: CardState) -> str:
    amounts = (
        f"{card.memory_mib_used} of {card.memory_mib} MiB, "
        f"{card.cores_percent_used:g} of {card.cores_percent:g} % of cores, "
        f"{card.slots_used} of {card.slots} slots used"
    )
    return f"card {card.index} {card.model or 'of unknown model'} {card.id}: {amounts}"


def _price(card: CardState) -> Iterator[str]:
    if card.price_percent is not UNSET:
        costs = f"{card.price_percent} % of a card's time" if card.price_percent else "no time"
        yield f"      one more pod like this is expected to take {costs} from those on it"


def _holder(holder: CardHolder) -> str:
    name = f"{holder.namespace}/{holder.name}" if holder.name else _NOBODY_MAY_KNOW
    alone = ", the card to itself" if holder.exclusive else ""
    return f"{name}: {holder.memory_mib} MiB, {holder.cores_percent:g} % of cores{alone}"


def _each(asked: RequestedCards) -> str:
    parts = [f"{asked.memory_percent:g} % of the memory"]
    if asked.memory_mib:
        parts = [f"{asked.memory_mib} MiB"]
    if asked.cores_percent:
        parts.append(f"{asked.cores_percent:g} % of the cores")
    return ", ".join(parts) + " of each" + (", to itself" if asked.exclusive else "")


def _used(limit: LimitState) -> str:
    parts = []
    if limit.memory_mib is not None:
        parts.append(f"{limit.memory_mib_used} of {limit.memory_mib} MiB")
    if limit.cores_percent is not None:
        parts.append(f"{limit.cores_percent_used:g} of {limit.cores_percent:g} % of cores")
    if limit.cards is not None:
        parts.append(f"{limit.cards_used} of {limit.cards} cards")
    return ", ".join(parts) or "by model"
