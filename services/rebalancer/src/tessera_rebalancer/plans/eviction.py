"""One pod evicted, through the API server, which keeps disruption budgets.

Evicting twice is harmless: the pod's uid is a precondition. What does not succeed in time is given
up, with the reason. Nothing is deleted past its budget, and no grace is shortened.
"""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec import Struct

from tessera_core.rebalance.movable_pods import move_hint
from tessera_rebalancer.plan_settings import PaceSettings
from tessera_runtime import logs
from tessera_runtime.errors import ApiBusy, ApiConflict, ApiNotFound, ApiRefused, Transient
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.binding import PodKey, read_back
from tessera_runtime.plans.evictions import create_eviction
from tessera_schema.annotation_keys import REBALANCE_KEY

_log: Final = logs.named("tessera.rebalancer.plans.evicting")


class _NotYet(Struct, frozen=True):
    why: str
    wait_s: float


class Evictor:
    """Evicts pods, and waits until they have ended."""

    def __init__(self, kube: Kube, pace: PaceSettings) -> None:
        self._kube = kube
        self._pace = pace

    async def evict(self, pod: PodKey) -> str:
        """Evict a pod and wait until it has ended. Returns why that was given up; empty when it
        has."""
        pace, now = self._pace, asyncio.get_running_loop().time
        began, why = now(), ""
        while now() - began < pace.evict_s:
            outcome = await self._attempt(pod)
            if isinstance(outcome, str):
                return outcome
            why = outcome.why
            _log.info("not evicted yet", pod=f"{pod.namespace}/{pod.name}", why=why)
            await asyncio.sleep(outcome.wait_s)
        return f"given up after {pace.evict_s:g} s: {why}"

    async def _attempt(self, pod: PodKey) -> str | _NotYet:
        """The answer of `evict`, or that it is to be tried again."""
        pace = self._pace
        try:
            found = await read_back(self._kube, pod)
            if found is None or found.terminal:
                return ""
            if not found.metadata.deletion_timestamp:
                if move_hint(found) == "false":
                    return f"its owner does not want it ({REBALANCE_KEY})"
                await create_eviction(self._kube, pod)
            return await self._ended(pod)
        except ApiBusy as e:
            return _NotYet(str(e), max(e.retry_after_s, pace.again_s))
        except (Transient, ApiNotFound, ApiConflict) as e:
            return _NotYet(str(e), pace.look_s)  # if it is gone the next read shows it
        except ApiRefused as e:
            return str(e)

    async def _ended(self, pod: PodKey) -> str:
        """Wait until a pod that is being deleted has ended."""
        pace, now = self._pace, asyncio.get_running_loop().time
        began = now()
        while now() - began < pace.gone_s:
            try:
                found = await read_back(self._kube, pod)
            except Transient as e:
                _log.info("pod not looked at", pod=f"{pod.namespace}/{pod.name}", why=str(e))
            else:
                if found is None or found.terminal:
                    return ""
            await asyncio.sleep(pace.look_s)
        return f"it was evicted and has not ended within {pace.gone_s:g} s"
