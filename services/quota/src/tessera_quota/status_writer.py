"""Statuses, written on their objects: a new phase at once, the rest in its turn.

Only this service writes them. What could not be written is written with the next turn.
"""

from __future__ import annotations

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
Written = tuple[str, QuotaStatus, float]
"""The object's uid, what was written on it, and when."""


class StatusWriter:
    """Writes."""

    def __init__(
        self,
        kube: Kube,
        judging: QuotaEvaluator,
        settings: StatusSettings,
        now: Callable[[], float],
    ) -> None:
        """`now` is the loop's time."""
        self.failures = 0
        self._kube = kube
        self._judging = judging
        self._settings = settings
        self._now = now
        self._written: dict[str, Written] = {}

    async def run(self) -> None:
        """Write after each judgement, for ever."""
        while True:
            await self._judging.judged.wait()
            self._judging.judged.clear()
            known = self._judging.objects.known
            for key in self._written.keys() - known.keys():
                del self._written[key]
            for key, status in list(self._judging.statuses.items()):
                if key in known and self._due(known[key], status):
                    await self._write(known[key], status)

    def _due(self, sight: AcceleratorQuotaSummary, status: QuotaStatus) -> bool:
        uid, before, at = self._written.get(sight.key, (sight.of.uid, sight.status, -1e9))
        if uid != sight.of.uid or before.phase != status.phase:
            return True
        if before == status:
            return False
        same = _calm(before) == _calm(status)
        return self._now() - at >= (self._settings.calm_s if same else self._settings.write_s)

    async def _write(self, sight: AcceleratorQuotaSummary, status: QuotaStatus) -> None:
        path = paths.in_group(
            GROUP, VERSION, "acceleratorquotas", namespace=sight.of.namespace, name=sight.of.name
        )
        steps = [
            require("/metadata/uid", sight.of.uid),
            add("/status", msgspec.to_builtins(status, str_keys=True)),
        ]
        at = self._now()
        try:
            await json_patch(self._kube, f"{path}/status", steps)
        except ApiNotFound:
            return
        except TesseraError as e:
            self.failures += 1
            _log.warning("status not written", quota=sight.key, why=str(e))
        else:
            self._written[sight.key] = sight.of.uid, status, at


def _calm(status: QuotaStatus) -> QuotaStatus:
    """Without what changes by itself all the time."""
    return replace(status, seen=MeasuredUse(), hours=Hours(), idle=())
