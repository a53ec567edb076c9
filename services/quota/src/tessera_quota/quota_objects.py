"""AcceleratorQuotas as the API server has them: what they limit, and their status at the start.

An object that cannot be read keeps what it limited before, if it was ever right, as in the
scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from tessera_core.dialect_kit.contract import BadLimit
from tessera_core.ledger.ledger import Ledger
from tessera_core.quota.objects import (
    AcceleratorQuota,
    ResourceQuota,
    accelerator_limit,
    resource_limits,
    throttle_of,
)
from tessera_core.registry.registry import DialectRegistry
from tessera_quota.settings import ThrottleSettings
from tessera_runtime import logs
from tessera_runtime.informers.installed_kinds import ACCELERATOR_QUOTAS, RESOURCE_QUOTAS
from tessera_runtime.kube.lists import Identity, identity
from tessera_runtime.kube.reflector import ListWatch, WatchEventType
from tessera_schema.json_codec import decoder
from tessera_schema.quotas import Limit, QuotaStatus

_log: Final = logs.named("tessera.quota.objects")


class _Meta(Struct, frozen=True):
    generation: int = 0


class _Rest(Struct, frozen=True):
    metadata: _Meta = _Meta()
    status: Raw = Raw(b"{}")


_quota = decoder(AcceleratorQuota)
_foreign = decoder(ResourceQuota)
_rest = decoder(_Rest)
_status = decoder(QuotaStatus)


class AcceleratorQuotaSummary(Struct, frozen=True, kw_only=True):
    """One AcceleratorQuota, with what it limits."""

    of: Identity
    generation: int = 0
    limit: Limit | None = None
    """None = the object cannot be read."""
    problem: str = ""
    """Why it cannot be read; empty when it can."""
    after_s: float = 0
    cores_percent: float = 100
    status: QuotaStatus = QuotaStatus()
    """As it was when read; empty where there is none, or it cannot be read."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.of.namespace}/{self.of.name}"


class QuotaReader:
    """Reads AcceleratorQuotas and ResourceQuotas."""

    def __init__(self, registry: DialectRegistry, throttle: ThrottleSettings) -> None:
        """`throttle` holds for objects that do not say."""
        self._registry = registry
        self._throttle = throttle

    def watched(self) -> ListWatch[AcceleratorQuotaSummary]:
        """Where AcceleratorQuotas are."""
        return ListWatch(ACCELERATOR_QUOTAS, self.read)

    def watched_foreign(self) -> ListWatch[tuple[str, tuple[Limit, ...]]]:
        """Where ResourceQuotas are."""
        return ListWatch(RESOURCE_QUOTAS, self.read_foreign)

    def read(self, raw: bytes) -> AcceleratorQuotaSummary:
        """The summary. Raises msgspec.DecodeError for what is no object at all; whatever else
        cannot be read is its `problem`."""
        of, rest = identity(raw), _rest(raw)
        status = _former_status(rest.status)
        summary = AcceleratorQuotaSummary(of=of, generation=rest.metadata.generation, status=status)
        try:
            quota = _quota(raw)
            after_s, percent = throttle_of(
                quota, after_s=self._throttle.after_s, cores_percent=self._throttle.cores_percent
            )
            limit = accelerator_limit(quota, self._registry)
        except (BadLimit, msgspec.DecodeError) as e:
            return replace(summary, problem=str(e))
        return replace(summary, limit=limit, after_s=after_s, cores_percent=percent)

    def read_foreign(self, raw: bytes) -> tuple[str, tuple[Limit, ...]]:
        """Key and limits of a ResourceQuota. Raises msgspec.DecodeError, BadLimit."""
        quota = _foreign(raw)
        limits = tuple(resource_limits(quota, self._registry, lambda _: None))
        return f"{quota.metadata.namespace}/{quota.metadata.name}", limits


def _former_status(status: Raw) -> QuotaStatus:
    try:
        return _status(bytes(status))
    except msgspec.DecodeError:
        return QuotaStatus()


def _as_before(
    item: AcceleratorQuotaSummary, before: AcceleratorQuotaSummary | None
) -> AcceleratorQuotaSummary:
    """What cannot be read limits what it did before."""
    if not item.problem or before is None:
        return item
    return replace(
        item, limit=before.limit, after_s=before.after_s, cores_percent=before.cores_percent
    )


class QuotaObjects:
    """All AcceleratorQuotas; a handler that keeps the ledger's limits."""

    def __init__(
        self, ledger: Ledger, on_delete: Callable[[AcceleratorQuotaSummary], None]
    ) -> None:
        """`on_delete` is called with each object that was deleted."""
        self.known: dict[str, AcceleratorQuotaSummary] = {}
        """By key, each with what it limits now."""
        self.foreign: dict[str, tuple[Limit, ...]] = {}
        """What ResourceQuotas limit, by key."""
        self._ledger = ledger
        self._on_delete = on_delete

    def on_list(self, items: list[AcceleratorQuotaSummary], started: float, now: float) -> None:
        """See `Handler.on_list`."""
        del started, now
        for key in set(self.known).difference(item.key for item in items):
            self._drop(key)
        self._put(items)

    def on_event(self, change: WatchEventType, item: AcceleratorQuotaSummary, now: float) -> None:
        """See `Handler.on_event`."""
        del now
        if change is WatchEventType.DELETED:
            self._drop(item.key)
            self.set_limits()
        else:
            self._put([item])

    def _put(self, items: Iterable[AcceleratorQuotaSummary]) -> None:
        for item in items:
            before = self.known.get(item.key)
            if before is not None and before.of.uid != item.of.uid:
                self._drop(item.key)
                before = None
            if item.problem and (before is None or before.problem != item.problem):
                _log.warning("quota not readable", quota=item.key, why=item.problem)
            self.known[item.key] = _as_before(item, before)
        self.set_limits()

    def _drop(self, key: str) -> None:
        quota = self.known.pop(key, None)
        if quota is not None:
            self._on_delete(quota)

    def set_limits(self) -> None:
        """Write all limits, those of ResourceQuotas included, to the ledger."""
        own = [item.limit for item in self.known.values() if item.limit is not None]
        self._ledger.set_limits([*own, *(one for each in self.foreign.values() for one in each)])


class ForeignQuotas:
    """A handler for ResourceQuotas, which limit too and have no phase."""

    def __init__(self, objects: QuotaObjects) -> None:
        self._objects = objects

    def on_list(
        self, items: list[tuple[str, tuple[Limit, ...]]], started: float, now: float
    ) -> None:
        """See `Handler.on_list`."""
        del started, now
        self._objects.foreign = dict(items)
        self._objects.set_limits()

    def on_event(
        self, change: WatchEventType, item: tuple[str, tuple[Limit, ...]], now: float
    ) -> None:
        """See `Handler.on_event`."""
        del now
        key, limits = item
        self._objects.foreign[key] = limits if change is not WatchEventType.DELETED else ()
        self._objects.set_limits()
