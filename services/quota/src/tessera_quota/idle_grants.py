"""Idle grants: running pods that hold cards and have had no GPU time for long.

A pod of which nothing was measured lately is not called idle: its use is unknown.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tessera_core.ledger.entries import LedgerEntry
from tessera_core.quota.status import amounts
from tessera_quota.pods import QuotaPodSummary
from tessera_runtime.kube import timestamps
from tessera_schema.quotas import IdleGrant, Limit

_ALL: Final = Limit(namespace="", source="every card")


class IdlePod(NamedTuple):
    """A pod whose cards do nothing."""

    pod: QuotaPodSummary
    since: float
    """Unix time."""
    entry: LedgerEntry


def idle_grant(idle: IdlePod) -> IdleGrant:
    """An idle pod as a status shows it."""
    pod, since, entry = idle
    total = amounts(_ALL, entry.uses)
    return IdleGrant(
        pod=f"{pod.namespace}/{pod.name}",
        since=timestamps.format_time(since),
        memory=total.memory,
        cores=total.cores,
        cards=total.cards,
    )
