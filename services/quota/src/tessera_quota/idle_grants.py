"""Idle grants: running pods that hold cards and have had no GPU time for long.

A pod of which nothing was measured lately is not called idle: its use is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tessera_core.ledger.entries import LedgerEntry
from tessera_core.quota.status import amounts, counts
from tessera_quota.pods import QuotaPods, QuotaPodSummary
from tessera_runtime.kube import timestamps
from tessera_schema.quotas import IdleGrant, Limit

_ALL: Final = Limit(namespace="", source="every card")
IdlePod = tuple[QuotaPodSummary, float, LedgerEntry]
"""A pod, the Unix time since which it is idle, and its entry in the ledger."""


def idle_pods(
    pods: QuotaPods, limit: Limit, active: Mapping[str, float], before: float
) -> list[IdlePod]:
    """The pods that the limit counts and that have had no GPU time since `before` (Unix time), the
    one that is idle longest first. `active` has the Unix time of each pod's last GPU time."""
    found = []
    for namespace in limit.group:
        for pod, entry in pods.holding(namespace):
            if not pod.runs or not pod.started or pod.uid not in active:
                continue
            since = max(active[pod.uid], pod.started)
            if since <= before and counts(limit, entry.uses):
                found.append((pod, since, entry))
    return sorted(found, key=lambda each: (each[1], each[0].name))


def idle_grant(pod: QuotaPodSummary, since: float, entry: LedgerEntry) -> IdleGrant:
    """An idle pod as a status shows it."""
    total = amounts(_ALL, entry.uses)
    return IdleGrant(
        pod=f"{pod.namespace}/{pod.name}",
        since=timestamps.format_time(since),
        memory=total.memory,
        cores=total.cores,
        cards=total.cards,
    )
