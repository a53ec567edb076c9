"""The scheduler among the services that NATS lists (`nats service ls`), with a word on how it is.

    nats request tessera.ask.<cluster>.scheduler.info ''

One of the replicas answers; `instance` says which. Nothing depends on it.
"""

from __future__ import annotations

from msgspec import Struct

from tessera_scheduler.scheduler import Scheduler


class SchedulerInfo(Struct, frozen=True, kw_only=True):
    """The answer to `info`."""

    instance: str
    leads: bool
    problem: str
    """Why it does not answer kube-scheduler; empty when it does."""
    nodes: int
    grants: int
    """Entries of the ledger, reservations included."""
    dialects: tuple[str, ...]
    """Those that new pods may speak."""


def info(scheduler: Scheduler, instance: str) -> SchedulerInfo:
    """How the scheduler is now."""
    problem = scheduler.leadership.problem()
    return SchedulerInfo(
        instance=instance, leads=not problem, problem=problem,
        nodes=len(scheduler.ledger.fleet.rows),
        grants=sum(1 for _ in scheduler.ledger.entries()),
        dialects=tuple(sorted(scheduler.registry.dialects)),
    )  # fmt: skip
