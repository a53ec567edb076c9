"""What stands in the columns of nodes, cards and pods; the wide lists have all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from tessera_cli.cluster_state.amounts import UNKNOWN, age, gib, model, percent, requested, state
from tessera_core.occupancy.rows import CardRow, NodeRow, ShareRow, WaitingRow

NODE_HEADS: Final = ("NAME", "STATUS", "CARDS", "MEMORY", "CORES", "PODS")
NODE_HEADS_WIDE: Final = (*NODE_HEADS, "MODELS", "USED-MEMORY", "USED-CORES", "PROBLEMS")
CARD_HEADS: Final = ("NODE", "CARD", "MODEL", "STATUS", "MEMORY", "CORES", "PODS")
CARD_HEADS_WIDE: Final = (*CARD_HEADS, "USED-MEMORY", "USED-CORES", "MODE", "NUMA", "ID", "HOLDERS")
POD_HEADS: Final = ("NAME", "STATUS", "NODE", "CARDS", "MEMORY", "CORES", "DIALECT", "AGE")
POD_HEADS_WIDE: Final = (*POD_HEADS, "USED-MEMORY", "USED-CORES", "THROTTLED", "WHY")


class PodRow(Struct, frozen=True, kw_only=True):
    """A pod with all its shares, or one that waits."""

    namespace: str
    name: str
    shares: tuple[ShareRow, ...] = ()
    waits: WaitingRow | None = None


def pod_rows(nodes: Iterable[NodeRow], waiting: Iterable[WaitingRow]) -> list[PodRow]:
    """Pods by namespace and name."""
    shares: dict[str, list[ShareRow]] = {}
    for row in (share for node in nodes for card in node.cards for share in card.shares):
        shares.setdefault(row.uid, []).append(row)
    found = [
        PodRow(namespace=each[0].namespace, name=each[0].name, shares=tuple(each))
        for each in shares.values()
    ]
    found += [PodRow(namespace=row.namespace, name=row.name, waits=row) for row in waiting]
    return sorted(found, key=lambda row: (row.namespace, row.name))


def node_cells(row: NodeRow, *, wide: bool) -> Sequence[str]:
    """The cells of `NODE_HEADS`, or of `NODE_HEADS_WIDE`."""
    published = [card for card in row.cards if card.published]
    healthy = [card for card in published if card.card.healthy]
    pods = {share.uid for card in row.cards for share in card.shares}
    cells = (
        row.name, "Cordoned" if row.closed else "Ready", f"{len(healthy)}/{len(published)}",
        _of(sum(c.memory_bytes for c in healthy), sum(c.card.memory_bytes for c in healthy)),
        _percent_of(
            sum(c.cores_percent for c in healthy), sum(c.card.cores_percent for c in healthy)
        ),
        f"{len(pods)}",
    )  # fmt: skip
    if not wide:
        return cells
    models = dict.fromkeys(model(card.card) for card in published)
    used = _sum(card.used_bytes for card in published)
    busy = _sum(card.used_percent for card in published)
    return (
        *cells, ",".join(models), _memory(used), _cores(busy), "; ".join(row.problems)
    )  # fmt: skip


def card_cells(row: CardRow, *, wide: bool) -> Sequence[str]:
    """The cells of `CARD_HEADS`, or of `CARD_HEADS_WIDE`."""
    facts = row.card
    cells = (
        row.node, f"{facts.index}", model(facts).replace(" ", "-"), state(row).capitalize(),
        _of(row.memory_bytes, facts.memory_bytes),
        _percent_of(row.cores_percent, facts.cores_percent), f"{len(row.shares)}",
    )  # fmt: skip
    if not wide:
        return cells
    return (
        *cells, _memory(row.used_bytes), _cores(row.used_percent), facts.mode, f"{facts.numa}",
        facts.id, ",".join(share.pod for share in row.shares),
    )  # fmt: skip


def pod_cells(row: PodRow, now_s: float, *, wide: bool) -> Sequence[str]:
    """The cells of `POD_HEADS`, or of `POD_HEADS_WIDE`; the namespace is not among them."""
    if row.waits is not None:
        return _waiting_cells(row.waits, now_s, wide=wide)
    first, shares = row.shares[0], row.shares
    dialects = dict.fromkeys(name for share in shares for name in share.dialects)
    whole = all(share.exclusive for share in shares)
    cells = (
        row.name, first.phase, first.node, ",".join(f"{s.index}" for s in _by_index(shares)),
        _memory(sum(share.memory_bytes for share in shares)),
        "whole" if whole else _cores(sum(share.cores_percent for share in shares)),
        ",".join(dialects), age(first.created, now_s),
    )  # fmt: skip
    if not wide:
        return cells
    uses = [share.measured for share in shares]
    return (
        *cells,
        _memory(_sum(None if use is None else use.memory_bytes for use in uses)),
        _cores(_sum(None if use is None else use.cores_percent for use in uses)),
        _cores(max((use.throttled_percent for use in uses if use is not None), default=None)),
        "",
    )


def _waiting_cells(row: WaitingRow, now_s: float, *, wide: bool) -> Sequence[str]:
    parts = "; ".join(requested(part).replace(" x ", "x").replace(" ", "") for part in row.parts)
    cells = (
        row.name, "Waiting", "", "", parts, "", ",".join(row.dialects), age(row.created, now_s)
    )  # fmt: skip
    why = "; ".join(text for text in (row.reason, row.remedy) if text)
    return (*cells, "", "", "", " ".join(why.split())) if wide else cells


def _by_index(shares: Iterable[ShareRow]) -> list[ShareRow]:
    return sorted(shares, key=lambda share: share.index)


def _sum(amounts: Iterable[int | float | None]) -> float | None:
    """Of what was measured; None where nothing was."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


def _memory(amount: float | None) -> str:
    return UNKNOWN if amount is None else f"{gib(int(amount))}Gi"


def _cores(amount: float | None) -> str:
    return UNKNOWN if amount is None else f"{percent(amount)}%"


def _of(have: int, of: int) -> str:
    return f"{gib(have)}/{gib(of)}Gi"


def _percent_of(have: float, of: float) -> str:
    return f"{percent(have)}/{percent(of)}%"
