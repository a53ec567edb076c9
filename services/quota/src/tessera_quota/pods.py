"""Pods reduced to what quotas need: what they hold, what they wait for, whether they have started.

A pod that cannot be read keeps what it was last seen to hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from tessera_core.admission.admit import AdmittedPod, admit
from tessera_core.admission.allowances import EVERYTHING
from tessera_core.fleet.charges import init_is_over
from tessera_core.ledger.entries import LedgerEntry, ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_core.quota.allowance import Uses, minimum_usage
from tessera_core.registry.registry import DialectRegistry
from tessera_core.trust.grants import Verifier
from tessera_runtime.informers.grants import LIVING, GrantReader
from tessera_runtime.kube import paths, timestamps
from tessera_runtime.kube.reflector import ListWatch, WatchEventType
from tessera_schema.grants import Grant
from tessera_schema.json_codec import decoder
from tessera_schema.kube import Pod

RUNNING: Final = "Running"


class _Status(Struct, frozen=True, rename="camel"):
    start_time: str = ""


class _Started(Struct, frozen=True):
    status: _Status = _Status()


class QuotaPodSummary(Struct, frozen=True, kw_only=True):
    """What the API server shows of one pod."""

    uid: str
    namespace: str
    name: str
    ended: bool = False
    grant: Grant | None = None
    init_over: bool = False
    asks: Uses | None = None
    """Set while it waits: what it asks at least."""
    runs: bool = False
    started: float = 0
    """Unix time at which its node took it."""

    @property
    def seen(self) -> ObservedPod:
        """For the ledger."""
        return ObservedPod(
            uid=self.uid, grant=self.grant, ended=self.ended, init_over=self.init_over
        )


class QuotaPodReader:
    """Reads pods."""

    def __init__(
        self,
        registry: DialectRegistry,
        ledger: Ledger,
        verifier: Callable[[], Verifier],
        *,
        migration: bool,
    ) -> None:
        """With `migration` what other systems wrote on pods counts too."""
        self._registry = registry
        self._granted = GrantReader(registry, ledger.fleet, verifier, migration=migration)

    def watched(self) -> ListWatch[QuotaPodSummary]:
        """Where they are."""
        return ListWatch(paths.PODS, self.read, LIVING)

    def read(self, raw: bytes) -> QuotaPodSummary:
        """Raises msgspec.DecodeError."""
        pod = _pod(raw)
        meta = pod.metadata
        namespace = meta.namespace or "default"
        if pod.terminal or not pod.spec.node_name:
            return QuotaPodSummary(
                uid=meta.uid, namespace=namespace, name=meta.name, ended=pod.terminal,
                asks=None if pod.terminal else self._asks(pod),
            )  # fmt: skip
        grant = self._granted.of(pod)
        return QuotaPodSummary(
            uid=meta.uid,
            namespace=namespace,
            name=meta.name,
            grant=None if grant is None else msgspec.structs.replace(grant, given={}),
            init_over=init_is_over(pod),
            runs=pod.status.phase == RUNNING,
            started=0
            if grant is None
            else timestamps.parse_time(_started(raw).status.start_time) or 0,
        )

    def _asks(self, pod: Pod) -> Uses | None:
        admission = admit(self._registry, pod, allowed=EVERYTHING)
        if not isinstance(admission, AdmittedPod) or not admission.request.containers:
            return None
        return minimum_usage(admission.request)


_pod = decoder(Pod)
_started = decoder(_Started)


class QuotaPods:
    """All pods that hold or ask for cards, by namespace; a sink that keeps the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        """`ledger` is written to by this alone, nodes and limits apart."""
        self._ledger = ledger
        self._of: dict[str, dict[str, QuotaPodSummary]] = {}
        self._where: dict[str, str] = {}

    def on_list(self, items: list[QuotaPodSummary], started: float, now: float) -> None:
        """See `Handler.on_list`."""
        self._of, self._where = {}, {}
        self._ledger.relist([item.seen for item in items], started, now)
        for item in items:
            self._know(item)

    def on_event(self, change: WatchEventType, item: QuotaPodSummary, now: float) -> None:
        """See `Handler.on_event`."""
        self._forget(item.uid)
        if change is WatchEventType.DELETED or item.ended:
            self._ledger.ended(item.uid)
        else:
            self._ledger.observe(item.seen, now)
            self._know(item)

    def waiting(self, namespace: str) -> Iterator[Uses]:
        """What each pod that has no node asks."""
        for pod in self._of.get(namespace, {}).values():
            if pod.asks is not None:
                yield pod.asks

    def holding(self, namespace: str) -> Iterator[tuple[QuotaPodSummary, LedgerEntry]]:
        """Pods with cards, and their pages in the books."""
        for pod in self._of.get(namespace, {}).values():
            entry = self._ledger.entry(pod.uid)
            if entry is not None:
                yield pod, entry

    def _know(self, pod: QuotaPodSummary) -> None:
        self._ledger.set_pending_request(pod.uid, pod.namespace, pod.asks or {})
        if pod.asks is not None or pod.grant is not None:
            self._of.setdefault(pod.namespace, {})[pod.uid] = pod
            self._where[pod.uid] = pod.namespace

    def _forget(self, uid: str) -> None:
        namespace = self._where.pop(uid, None)
        if namespace is not None:
            self._of[namespace].pop(uid)
            if not self._of[namespace]:
                del self._of[namespace]
