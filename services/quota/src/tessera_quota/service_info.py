"""The quota monitor among the services that NATS lists (`nats service ls`).

    nats request tessera.ask.<cluster>.quota.info ''

Nothing depends on it.
"""

from __future__ import annotations

from msgspec import Struct

from tessera_core.machines.throttle import ThrottlePhase
from tessera_quota.monitor import QuotaMonitor


class QuotaInfo(Struct, frozen=True, kw_only=True):
    """The answer to `info`."""

    instance: str
    problem: str
    """Why nothing is judged; empty when it is."""
    quotas: int
    """AcceleratorQuotas."""
    exceeded: tuple[str, ...]
    """Those that are not within, as `namespace/name`."""


def info(quota: QuotaMonitor, instance: str) -> QuotaInfo:
    """How the monitor is now."""
    statuses = quota.judging.statuses
    exceeded = (key for key, status in statuses.items() if status.phase != ThrottlePhase.WITHIN)
    return QuotaInfo(
        instance=instance, problem=quota.problem(), quotas=len(quota.judging.objects.known),
        exceeded=tuple(sorted(exceeded)),
    )  # fmt: skip
