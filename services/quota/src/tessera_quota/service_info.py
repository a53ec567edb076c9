"""What the quota monitor answers on NATS, where it is listed (`nats service ls`).

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
    """Why quotas are not evaluated; empty when they are."""
    quotas: int
    """AcceleratorQuotas."""
    exceeded: tuple[str, ...]
    """Those in another phase than within, as `namespace/name`."""


def info(quota: QuotaMonitor, instance: str) -> QuotaInfo:
    """How the monitor is now."""
    statuses = quota.evaluator.statuses
    exceeded = (key for key, status in statuses.items() if status.phase != ThrottlePhase.WITHIN)
    return QuotaInfo(
        instance=instance, problem=quota.problem(), quotas=len(quota.evaluator.objects.known),
        exceeded=tuple(sorted(exceeded)),
    )  # fmt: skip
