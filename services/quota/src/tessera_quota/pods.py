"""Pods as quotas see them: what they hold, what they wait for, whether they have started."""

from __future__ import annotations

from collections.abc import Iterator
from sys import intern
from typing import Final

from msgspec import Struct

from tessera_core.ledger.entries import LedgerEntry
from tessera_core.ledger.ledger import Ledger
from tessera_core.quota.allowance import Uses, minimum_usage
from tessera_runtime.informers.pods import DecodedPod, LedgerPods, without_injections
from tessera_schema.grants import Grant

RUNNING: Final = "Running"


class QuotaPodSummary(Struct, frozen=True, kw_only=True, gc=False):
    """One pod; what it holds or waits for."""

    uid: str
    namespace: str
    name: str
    ended: bool = False
    grant: Grant | None = None
    init_over: bool = False
    requests: Uses | None = None
    """Set while it waits: what it requests at least."""
    runs: bool = False
    started: float = 0
    """Unix time at which its node took it; 0 without a grant."""


def summary(decoded: DecodedPod) -> QuotaPodSummary:
    """What quotas need of a pod."""
    pod, meta = decoded.pod, decoded.pod.metadata
    namespace = meta.namespace or "default"
    if pod.terminal or not decoded.node:
        request = None if pod.terminal else decoded.request
        return QuotaPodSummary(
            uid=meta.uid,
            namespace=namespace,
            name=meta.name,
            ended=pod.terminal,
            requests=None if request is None else minimum_usage(request),
        )
    grant = without_injections(decoded.grant)
    return QuotaPodSummary(
        uid=meta.uid if grant is None else grant.uid,
        namespace=intern(namespace),
        name=meta.name if grant is None else grant.name,
        grant=grant,
        init_over=decoded.init_over,
        runs=pod.status.phase == RUNNING,
        started=0 if grant is None else decoded.started,
    )


class QuotaPods(LedgerPods[QuotaPodSummary]):
    """All pods that hold or request cards, by namespace."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger, _namespace_of)

    def waiting(self, namespace: str) -> Iterator[Uses]:
        """What each pod that has no node requests."""
        for pod in self.group(namespace):
            if pod.requests is not None:
                yield pod.requests

    def holding(self, namespace: str) -> Iterator[tuple[QuotaPodSummary, LedgerEntry]]:
        """Pods with cards, and their entries in the ledger."""
        for pod in self.group(namespace):
            entry = self._ledger.entry(pod.uid)
            if entry is not None:
                yield pod, entry

    def _put(self, item: QuotaPodSummary) -> None:
        self._ledger.set_pending_request(item.uid, item.namespace, item.requests or {})
        super()._put(item)


def _namespace_of(pod: QuotaPodSummary) -> str | None:
    return None if pod.requests is None and pod.grant is None else pod.namespace
