"""Grants that rest: running pods that hold cards and have had no GPU time for long.

A pod of which nothing is heard is not idle: nobody knows.
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
Resting = tuple[QuotaPodSummary, float, LedgerEntry]
"""A pod, since when it rests, and its page in the books."""


def resting(
    pods: QuotaPods, limit: Limit, active: Mapping[str, float], before: float
) -> list[Resting]:
    """The pods that the limit counts and that have had no GPU time since `before` (Unix time), the
    longest at rest first."""
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
    """As a status shows it."""
    held = amounts(_ALL, entry.uses)
    return IdleGrant(
        pod=f"{pod.namespace}/{pod.name}",
        since=timestamps.format_time(since),
        memory=held.memory,
        cores=held.cores,
        cards=held.cards,
    )
