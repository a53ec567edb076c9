"""What quota objects limit, as plans see it.

An object that makes no sense limits what it did before, if it was ever right, as in the scheduler,
which tells of it.
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
_ours: Final = decoder(AcceleratorQuota)
_theirs: Final = decoder(ResourceQuota)


class PlanQuotaSummary(Struct, frozen=True):
    """One quota object."""

    key: str
    """Namespace and name."""
    limits: Limits | None
    """None = it makes no sense."""


class PlanQuotas:
    """The limits of all kinds, in the ledger."""

    def __init__(self, registry: DialectRegistry, ledger: Ledger) -> None:
        """Nothing is limited."""
        self.own = QuotaObjectsOfKind(self, lambda raw: (accelerator_limit(_ours(raw), registry),))
        """AcceleratorQuotas."""
        self.theirs = QuotaObjectsOfKind(
            self, lambda raw: tuple(resource_limits(_theirs(raw), registry, lambda _: None))
        )
        """ResourceQuotas."""
        self._ledger = ledger

    def watched_own(self) -> ListWatch[PlanQuotaSummary]:
        """Where AcceleratorQuotas are."""
        return ListWatch(ACCELERATOR_QUOTAS, self.own.read)

    def watched_theirs(self) -> ListWatch[PlanQuotaSummary]:
        """Where ResourceQuotas are."""
        return ListWatch(RESOURCE_QUOTAS, self.theirs.read)

    def write(self) -> None:
        """Bring everything that limits to the ledger."""
        objects = (*self.own.known.values(), *self.theirs.known.values())
        self._ledger.set_limits(one for limits in objects for one in limits)


class QuotaObjectsOfKind:
    """All objects of one kind; a sink."""

    def __init__(self, book: PlanQuotas, limits: Callable[[bytes], Limits]) -> None:
        """`limits` reads an object. Raises BadLimit and msgspec.DecodeError."""
        self.known: dict[str, Limits] = {}
        self._book = book
        self._limits = limits

    def read(self, raw: bytes) -> PlanQuotaSummary:
        """One that cannot be read is seen all the same: it is not gone."""
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
            self._know(item, before.get(item.key, ()))
        self._book.write()

    def on_event(self, change: WatchEventType, item: PlanQuotaSummary, now: float) -> None:
        """See `Handler.on_event`."""
        del now
        before = self.known.pop(item.key, ())
        if change is not WatchEventType.DELETED:
            self._know(item, before)
        self._book.write()

    def _know(self, item: PlanQuotaSummary, before: Limits) -> None:
        self.known[item.key] = before if item.limits is None else item.limits
