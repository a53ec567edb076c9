"""Everything that the scheduler can say about one pod; `endpoints.visibility` is the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from tessera_schema.decisions import DecisionRecord
from tessera_schema.grants import Share

UNASKED: Final = "unasked"
"""Verdict of a pod that kube-scheduler has not asked about since the scheduler started. Its reasons
are those of the ledger as it is now."""
IGNORED: Final = "ignored"
"""Verdict of a pod that asks for no cards."""


class RequestedShare(Struct, frozen=True, kw_only=True):
    """What one container asks for, in canonical units, for each of `count` cards."""

    container: str
    vendor: str
    dialect: str
    count: int
    memory_bytes: int = 0
    memory_percent: float = 0
    cores_percent: float = 0
    exclusive: bool = False


class LimitUse(Struct, frozen=True, kw_only=True):
    """A limit of the namespace and what is used of it. None = not limited in that dimension."""

    source: str
    vendor: str = ""
    memory_bytes: int | None = None
    memory_bytes_used: int = 0
    cores_percent: float | None = None
    cores_percent_used: float = 0
    cards: int | None = None
    cards_used: int = 0
    models: Mapping[str, float] | None = None


class LedgerShares(Struct, frozen=True, kw_only=True):
    """What the pod has in the ledger."""

    node: str
    phase: str
    since: float
    """Unix time in seconds, when it was reserved or first seen."""
    shares: tuple[Share, ...]


class Explanation(Struct, frozen=True, kw_only=True):
    """One pod, as the scheduler sees it."""

    namespace: str
    name: str
    decision: DecisionRecord
    dialects: tuple[str, ...] = ()
    asks: tuple[RequestedShare, ...] = ()
    quota: tuple[LimitUse, ...] = ()
    held: LedgerShares | None = None
