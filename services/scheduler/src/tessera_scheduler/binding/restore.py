"""Writes a grant again on a live pod that lost it, or bears another one than it has.

The books never let go of it; this is for the agent, and for the next scheduler, which read the pod.
Whoever overwrites it again and again is answered no more often than every few seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import AllocationPhase
from tessera_core.registry.registry import DialectRegistry
from tessera_runtime import logs
from tessera_runtime.clock import Clock
from tessera_runtime.errors import ApiConflict, ApiNotFound
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.binding import PodKey, read_back
from tessera_runtime.kube.patches import annotate
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_scheduler.binding.grant_annotations import Unwritable, binding_annotations
from tessera_scheduler.cache.pod_reader import PodReader
from tessera_scheduler.keys.signing_keys import SigningKeys
from tessera_scheduler.metrics import SchedulerMetrics
from tessera_schema.annotation_keys import TERM_KEY
from tessera_schema.grants import Grant
from tessera_schema.kube import Pod

REMEMBERED: Final = 10_000

_log = logs.named("tessera.scheduler.restoring")


class RestorerDependencies(Struct, frozen=True, kw_only=True):
    """What restoring works with."""

    kube: Kube
    registry: DialectRegistry
    ledger: Ledger
    reader: PodReader
    keys: SigningKeys
    measures: SchedulerMetrics
    clock: Clock
    steady: MonotonicClock
    holds: Callable[[], bool]
    term: Callable[[], str]
    """Under which a grant is written: `Leadership.term`."""


class GrantRestorer:
    """Restores grants; only the replica that holds the Lease does."""

    def __init__(self, tools: RestorerDependencies, *, every_s: float) -> None:
        """A pod's grant is written at most once in `every_s` seconds."""
        self._tools = tools
        self._every_s = every_s
        self._last: dict[str, float] = {}

    async def restore(self, name: PodKey) -> bool:
        """True when there is nothing left to do. Raises ApiRefused and Passing."""
        tools = self._tools
        now = tools.steady.time()
        if not tools.holds():
            return True  # the one who holds the Lease has seen it too
        if now - self._last.get(name.uid, now - self._every_s) < self._every_s:
            return False
        pod = await read_back(tools.kube, name)
        grant = self._missing(pod)
        if pod is None or grant is None:
            return True
        try:
            written = binding_annotations(
                tools.registry, tools.ledger, tools.keys.signer, pod, grant, tools.clock
            )
        except Unwritable as e:
            _log.warning("grant not restored", pod=f"{name.namespace}/{name.name}", why=str(e))
            return False
        return await self._write(name, {**written, TERM_KEY: tools.term()})

    def _missing(self, pod: Pod | None) -> Grant | None:
        """The grant that the pod should bear and does not."""
        if pod is None or pod.terminal:
            return None
        entry = self._tools.ledger.entry(pod.metadata.uid)
        if entry is None or entry.phase is not AllocationPhase.BOUND:
            return None
        return None if self._tools.reader.sight(pod).grant == entry.grant else entry.grant

    async def _write(self, name: PodKey, written: Mapping[str, str]) -> bool:
        tools = self._tools
        self._last.pop(name.uid, None)
        self._last[name.uid] = tools.steady.time()
        if len(self._last) > REMEMBERED:
            del self._last[next(iter(self._last))]
        try:
            await annotate(tools.kube, paths.pod(name.namespace, name.name), written, uid=name.uid)
        except (ApiConflict, ApiNotFound):
            tools.measures.restored.labels("gone").inc()
            return True
        tools.measures.restored.labels("done").inc()
        _log.info("grant restored", pod=f"{name.namespace}/{name.name}", uid=name.uid)
        return True
