"""Rows as JSON: every figure that is shown, with its unit in its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tessera_core.occupancy.rows import CardRow, NodeRow, ShareRow, WaitingRow


def node(row: NodeRow) -> dict[str, Any]:
    """A node with its cards."""
    return {
        "name": row.name,
        "closed": row.closed,
        "measured": row.measured,
        "problems": row.problems,
        "cards": [card(each) for each in row.cards],
    }


def card(row: CardRow) -> dict[str, Any]:
    """A card with its shares."""
    facts = row.card
    return {
        "node": row.node,
        "index": facts.index,
        "id": facts.id,
        "vendor": facts.vendor,
        "model": facts.model,
        "mode": facts.mode,
        "numa": facts.numa,
        "published": row.published,
        "healthy": facts.healthy,
        "note": row.note,
        "whole": row.whole,
        "memory_bytes": facts.memory_bytes,
        "memory_granted_bytes": row.memory_bytes,
        "memory_used_bytes": row.used_bytes,
        "cores_percent": facts.cores_percent,
        "cores_granted_percent": row.cores_percent,
        "cores_used_percent": _rounded(row.used_percent),
        "shares": [share(each) for each in row.shares],
    }


def share(row: ShareRow) -> dict[str, Any]:
    """A pod's part of one card."""
    use = row.measured
    return {
        "namespace": row.namespace,
        "pod": row.name,
        "uid": row.uid,
        "dialects": row.dialects,
        "phase": row.phase,
        "whole": row.exclusive,
        "best_effort": row.best_effort,
        "lent": row.lent,
        "slots": row.slots,
        "memory_granted_bytes": row.memory_bytes,
        "memory_used_bytes": None if use is None else use.memory_bytes,
        "cores_granted_percent": row.cores_percent,
        "cores_used_percent": None if use is None else _rounded(use.cores_percent),
        "cores_limit_percent": None if use is None else _rounded(use.limit_percent),
        "throttled_percent": None if use is None else _rounded(use.throttled_percent),
        "enforced": None if use is None else use.enforced,
        "borrows_percent": row.borrows_percent,
        "lends_percent": row.lends_percent,
        "partners": row.partners,
    }


def waiting(row: WaitingRow) -> dict[str, Any]:
    """A pod that waits."""
    return {
        "namespace": row.namespace,
        "pod": row.name,
        "uid": row.uid,
        "created": row.created,
        "dialects": row.dialects,
        "requests": row.parts,
        "reason": row.reason,
        "remedy": row.remedy,
    }


def pod(rows: Sequence[ShareRow]) -> dict[str, Any]:
    """A pod that holds cards, with what it holds of each; `rows` are all its shares."""
    head = rows[0]
    return {
        "namespace": head.namespace,
        "name": head.name,
        "uid": head.uid,
        "node": head.node,
        "phase": head.phase,
        "created": head.created,
        "dialects": tuple(dict.fromkeys(name for row in rows for name in row.dialects)),
        "cards": [{"id": row.card, "index": row.index} | share(row) for row in rows],
    }


def encoded(document: Any) -> list[bytes]:
    """The document as lines of JSON for `forms.put`."""
    return [msgspec.json.encode(document), b"\n"]


def _rounded(amount: float | None) -> float | None:
    return None if amount is None else round(amount, 1)
