"""What quota objects limit, as plans see it.

An object that cannot be read limits what it did before, if it was ever right, as in the scheduler,
which reports it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from tessera_core.dialect_kit.contract import BadLimit
from tessera_core.ledger.ledger import Ledger
from tessera_core.quota.objects import (
    AcceleratorQuota,
    ResourceQuota,
    accelerator_limit,
    resource_limits,
)
from tessera_core.registry.registry import DialectRegistry
from tessera_runtime.informers.installed_kinds import ACCELERATOR_QUOTAS, RESOURCE_QUOTAS
from tessera_runtime.kube.lists import identity
from tessera_runtime.kube.reflector import ListWatch, WatchEventType
from tessera_schema.json_codec import decoder
from tessera_schema.quotas import Limit

Limits = tuple[Limit, ...]
_accelerator_quota: Final = decoder(AcceleratorQuota)
_resource_quota: Final = decoder(ResourceQuota)


class PlanQuotaSummary(Struct, frozen=True):
    """One quota object, of either kind."""

    key: str
    """Namespace and name."""
    limits: Limits | None
    """None = it cannot be read."""


class PlanQuotas:
    """Writes the limits of all kinds to the ledger."""

    def __init__(self, registry: DialectRegistry, ledger: Ledger) -> None:
        self.own = QuotaObjectsOfKind(
            self, lambda raw: (accelerator_limit(_accelerator_quota(raw), registry),)
        )
        """AcceleratorQuotas."""
        self.foreign = QuotaObjectsOfKind(
            self, lambda raw: tuple(resource_limits(_resource_quota(raw), registry, lambda _: None))
        )
        """ResourceQuotas."""
        self._ledger = ledger

    def watched_own(self) -> ListWatch[PlanQuotaSummary]:
        """Where AcceleratorQuotas are."""
        return ListWatch(ACCELERATOR_QUOTAS, self.own.read)

    def watched_foreign(self) -> ListWatch[PlanQuotaSummary]:
        """Where ResourceQuotas are."""
        return ListWatch(RESOURCE_QUOTAS, self.foreign.read)

    def write(self) -> None:
        """Write all limits to the ledger."""
        objects = (*self.own.known.values(), *self.foreign.known.values())
        self._ledger.set_limits(one for limits in objects for one in limits)


class QuotaObjectsOfKind:
    """All objects of one kind; a handler."""

    def __init__(self, quotas: PlanQuotas, limits: Callable[[bytes], Limits]) -> None:
        """`limits` reads an object. Raises BadLimit and msgspec.DecodeError."""
        self.known: dict[str, Limits] = {}
        self._quotas = quotas
        self._limits = limits

    def read(self, raw: bytes) -> PlanQuotaSummary:
        """The summary; an object that cannot be read has one too: it is not gone."""
        of = identity(raw)
        key = f"{of.namespace}/{of.name}"
        try:
            return PlanQuotaSummary(key, self._limits(raw))
        except (BadLimit, msgspec.DecodeError):
            return PlanQuotaSummary(key, None)

    def on_list(self, items: list[PlanQuotaSummary], started: float, now: float) -> None:
        """See `Handler.on_list`."""
        del started, now
        before, self.known = self.known, {}
        for item in items:
            self._put(item, before.get(item.key, ()))
        self._quotas.write()

    def on_event(self, change: WatchEventType, item: PlanQuotaSummary, now: float) -> None:
        """See `Handler.on_event`."""
        del now
        before = self.known.pop(item.key, ())
        if change is not WatchEventType.DELETED:
            self._put(item, before)
        self._quotas.write()

    def _put(self, item: PlanQuotaSummary, before: Limits) -> None:
        self.known[item.key] = before if item.limits is None else item.limits
