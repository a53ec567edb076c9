"""Statuses, written on their objects: a new phase at once, the rest in its turn.

Only this service writes them. What could not be written is written with the next turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec.structs import replace

from tessera_core.quota.objects import VERSION
from tessera_quota.evaluation import QuotaEvaluator
from tessera_quota.quota_objects import AcceleratorQuotaSummary
from tessera_quota.settings import StatusSettings
from tessera_runtime import logs
from tessera_runtime.errors import ApiNotFound, TesseraError
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.patches import add, json_patch, require
from tessera_schema.annotation_keys import GROUP
from tessera_schema.quotas import Hours, MeasuredUse, QuotaStatus

_log: Final = logs.named("tessera.quota.status")
_AT_ONCE: Final = 200
"""Statuses compared before other tasks on the loop run: some milliseconds."""
Written = tuple[str, QuotaStatus, float]
"""The object's uid, what was written on it, and when."""


class StatusWriter:
    """Writes statuses that are new, or due."""

    def __init__(
        self,
        kube: Kube,
        evaluator: QuotaEvaluator,
        settings: StatusSettings,
        now: Callable[[], float],
    ) -> None:
        """`now` is the loop's time."""
        self.failures = 0
        """Statuses that could not be written; each is written with the next turn."""
        self._kube = kube
        self._evaluator = evaluator
        self._settings = settings
        self._now = now
        self._written: dict[str, Written] = {}

    async def run(self) -> None:
        """Write after each evaluation, for ever."""
        while True:
            await self._evaluator.evaluated.wait()
            self._evaluator.evaluated.clear()
            known = self._evaluator.objects.known
            for key in self._written.keys() - known.keys():
                del self._written[key]
            for number, (key, status) in enumerate(list(self._evaluator.statuses.items()), 1):
                if key in known and self._due(known[key], status):
                    await self._write(known[key], status)
                if not number % _AT_ONCE:
                    await asyncio.sleep(0)

    def _due(self, quota: AcceleratorQuotaSummary, status: QuotaStatus) -> bool:
        uid, before, at = self._written.get(quota.key, (quota.of.uid, quota.status, -1e9))
        if uid != quota.of.uid or before.phase != status.phase:
            return True
        if before == status:
            return False
        same = _calm(before) == _calm(status)
        return self._now() - at >= (self._settings.calm_s if same else self._settings.write_s)

    async def _write(self, quota: AcceleratorQuotaSummary, status: QuotaStatus) -> None:
        path = paths.in_group(
            GROUP, VERSION, "acceleratorquotas", namespace=quota.of.namespace, name=quota.of.name
        )
        steps = [
            require("/metadata/uid", quota.of.uid),
            add("/status", msgspec.to_builtins(status, str_keys=True)),
        ]
        at = self._now()
        try:
            await json_patch(self._kube, f"{path}/status", steps)
        except ApiNotFound:
            return
        except TesseraError as e:
            self.failures += 1
            _log.warning("status not written", quota=quota.key, why=str(e))
        else:
            self._written[quota.key] = quota.of.uid, status, at


def _calm(status: QuotaStatus) -> QuotaStatus:
    """Without what changes by itself all the time."""
    return replace(status, seen=MeasuredUse(), hours=Hours(), idle=())
