"""Pods reduced to what quotas need: what they hold, what they wait for, whether they have started.

A pod that cannot be read keeps what it was last seen to hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from tessera_core.admission.admit import Admission, admit
from tessera_core.admission.allowances import EVERYTHING
from tessera_core.fleet.charges import init_is_over
from tessera_core.ledger.entries import Entry, Seen
from tessera_core.ledger.ledger import Ledger
from tessera_core.quota.allowance import Uses, least_use
from tessera_core.registry.registry import Registry
from tessera_core.trust.grants import Verifier
from tessera_runtime.informers.grants import LIVING, Granted
from tessera_runtime.kube import paths, timestamps
from tessera_runtime.kube.reflector import Change, Watched
from tessera_schema.grants import Grant
from tessera_schema.json_codec import decoder
from tessera_schema.kube import Pod

RUNNING: Final = "Running"


class _Status(Struct, frozen=True, rename="camel"):
    start_time: str = ""


class _Started(Struct, frozen=True):
    status: _Status = _Status()


class PodSight(Struct, frozen=True, kw_only=True):
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
    def seen(self) -> Seen:
        """For the ledger."""
        return Seen(uid=self.uid, grant=self.grant, ended=self.ended, init_over=self.init_over)


class PodReader:
    """Reads pods."""

    def __init__(
        self, registry: Registry, ledger: Ledger, verifier: Callable[[], Verifier], *,
        migration: bool,
    ) -> None:  # fmt: skip
        """With `migration` what other systems wrote on pods counts too."""
        self._registry = registry
        self._granted = Granted(registry, ledger.fleet, verifier, migration=migration)

    def watched(self) -> Watched[PodSight]:
        """Where they are."""
        return Watched(paths.PODS, self.read, LIVING)

    def read(self, raw: bytes) -> PodSight:
        """Raises msgspec.DecodeError."""
        pod = _pod(raw)
        meta = pod.metadata
        namespace = meta.namespace or "default"
        if pod.terminal or not pod.spec.node_name:
            return PodSight(
                uid=meta.uid, namespace=namespace, name=meta.name, ended=pod.terminal,
                asks=None if pod.terminal else self._asks(pod),
            )  # fmt: skip
        grant = self._granted.of(pod)
        return PodSight(
            uid=meta.uid, namespace=namespace, name=meta.name,
            grant=None if grant is None else msgspec.structs.replace(grant, given={}),
            init_over=init_is_over(pod), runs=pod.status.phase == RUNNING,
            started=0 if grant is None else timestamps.read(_started(raw).status.start_time) or 0,
        )  # fmt: skip

    def _asks(self, pod: Pod) -> Uses | None:
        admission = admit(self._registry, pod, allowed=EVERYTHING)
        if not isinstance(admission, Admission) or not admission.request.containers:
            return None
        return least_use(admission.request)


_pod = decoder(Pod)
_started = decoder(_Started)


class Pods:
    """All pods that hold or ask for cards, by namespace; a sink that keeps the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        """`ledger` is written to by this alone, nodes and limits apart."""
        self._ledger = ledger
        self._of: dict[str, dict[str, PodSight]] = {}
        self._where: dict[str, str] = {}

    def relisted(self, items: list[PodSight], started: float, now: float) -> None:
        """See `Sink.relisted`."""
        self._of, self._where = {}, {}
        self._ledger.relist([item.seen for item in items], started, now)
        for item in items:
            self._know(item)

    def changed(self, change: Change, item: PodSight, now: float) -> None:
        """See `Sink.changed`."""
        self._forget(item.uid)
        if change is Change.DELETED or item.ended:
            self._ledger.ended(item.uid)
        else:
            self._ledger.observe(item.seen, now)
            self._know(item)

    def waiting(self, namespace: str) -> Iterator[Uses]:
        """What each pod that has no node asks."""
        for pod in self._of.get(namespace, {}).values():
            if pod.asks is not None:
                yield pod.asks

    def holding(self, namespace: str) -> Iterator[tuple[PodSight, Entry]]:
        """Pods with cards, and their pages in the books."""
        for pod in self._of.get(namespace, {}).values():
            entry = self._ledger.entry(pod.uid)
            if entry is not None:
                yield pod, entry

    def _know(self, pod: PodSight) -> None:
        self._ledger.ask(pod.uid, pod.namespace, pod.asks or {})
        if pod.asks is not None or pod.grant is not None:
            self._of.setdefault(pod.namespace, {})[pod.uid] = pod
            self._where[pod.uid] = pod.namespace

    def _forget(self, uid: str) -> None:
        namespace = self._where.pop(uid, None)
        if namespace is not None:
            self._of[namespace].pop(uid)
            if not self._of[namespace]:
                del self._of[namespace]
