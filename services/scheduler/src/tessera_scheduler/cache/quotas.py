"""Every namespace's limits in the ledger, from the quota objects of the API server.

An object that makes no sense keeps what it limited before, if it was ever right, and is logged: a
typing error must not open a namespace, nor close it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from tessera_core.dialect_kit.contract import BadLimit
from tessera_core.dialects.gpumanager import quota as gpu_quota
from tessera_core.ledger.ledger import Ledger
from tessera_core.quota.objects import (
    AcceleratorQuota,
    ResourceQuota,
    accelerator_limit,
    resource_limits,
)
from tessera_core.registry.registry import DialectRegistry
from tessera_runtime import logs
from tessera_runtime.kube.lists import Identity, identity
from tessera_schema.json_codec import decoder
from tessera_schema.quotas import Limit

GPU_QUOTA = "ConfigMap"
"""Kind of GPU Manager's quota object."""


class _ConfigMap(Struct, frozen=True):
    data: dict[str, str] | None = None


_resource_quota = decoder(ResourceQuota)
_accelerator_quota = decoder(AcceleratorQuota)
_config_map = decoder(_ConfigMap)
_log = logs.named("tessera.scheduler.limits")


class QuotaSummary(Struct, frozen=True, kw_only=True):
    """What one quota object limits."""

    key: str
    """Kind, namespace and name."""
    limits: tuple[Limit, ...] = ()
    problem: str = ""
    """Set when the object makes no sense."""


class QuotaCache:
    """Keeps the ledger's limits in step with the quota objects."""

    def __init__(self, registry: DialectRegistry, ledger: Ledger) -> None:
        self._registry = registry
        self._ledger = ledger
        self._limits: dict[str, tuple[Limit, ...]] = {}
        self._reported: dict[str, str] = {}

    def read_resource_quota(self, raw: bytes | msgspec.Raw) -> QuotaSummary:
        """An object that cannot be read has a problem."""
        ignored: list[str] = []
        key = _key("ResourceQuota", identity(raw))
        try:
            quota = _resource_quota(bytes(raw))
            limits = tuple(resource_limits(quota, self._registry, ignored.append))
        except (BadLimit, msgspec.DecodeError) as e:
            return QuotaSummary(key=key, problem=str(e))
        if ignored:
            self._report(key, "; ".join(ignored))
        return QuotaSummary(key=key, limits=limits)

    def read_accelerator_quota(self, raw: bytes | msgspec.Raw) -> QuotaSummary:
        """An object that cannot be read has a problem."""
        key = _key("AcceleratorQuota", identity(raw))
        try:
            quota = _accelerator_quota(bytes(raw))
            return QuotaSummary(key=key, limits=(accelerator_limit(quota, self._registry),))
        except (BadLimit, msgspec.DecodeError) as e:
            return QuotaSummary(key=key, problem=str(e))

    def read_gpu_quota(self, raw: bytes | msgspec.Raw) -> QuotaSummary:
        """GPU Manager's ConfigMap; one that cannot be read has a problem."""
        meta = identity(raw)
        key = _key(GPU_QUOTA, meta)
        try:
            data = _config_map(bytes(raw)).data or {}
            return QuotaSummary(key=key, limits=gpu_quota.limits(data, f"ConfigMap {meta.name}"))
        except (BadLimit, msgspec.DecodeError) as e:
            return QuotaSummary(key=key, problem=str(e))

    def on_list(self, kind: str, summaries: Iterable[QuotaSummary]) -> bool:
        """A whole list of one kind; True when any limit changed."""
        before = dict(self._limits)
        listed = {summary.key: summary for summary in summaries}
        for key in [k for k in self._limits if k.startswith(f"{kind} ") and k not in listed]:
            del self._limits[key]
        for summary in listed.values():
            self._put(summary)
        return self._apply(before)

    def on_update(self, summary: QuotaSummary) -> bool:
        """A quota object was added or modified; True when any limit changed."""
        before = dict(self._limits)
        self._put(summary)
        return self._apply(before)

    def on_delete(self, summary: QuotaSummary) -> bool:
        """A quota object is gone; True when any limit changed."""
        before = dict(self._limits)
        self._limits.pop(summary.key, None)
        self._reported.pop(summary.key, None)
        return self._apply(before)

    def _put(self, summary: QuotaSummary) -> None:
        if summary.problem:
            self._report(summary.key, f"{summary.problem}: it limits what it did before")
        else:
            self._limits[summary.key] = summary.limits

    def _apply(self, before: dict[str, tuple[Limit, ...]]) -> bool:
        if before == self._limits:
            return False
        self._ledger.set_limits(_all(list(self._limits.values())))
        return True

    def _report(self, key: str, text: str) -> None:
        if self._reported.get(key) != text:
            self._reported[key] = text
            _log.warning("quota object read in part", quota=key, told=text)


def _all(limits: Sequence[tuple[Limit, ...]]) -> list[Limit]:
    return [limit for of_object in limits for limit in of_object]


def _key(kind: str, meta: Identity) -> str:
    return f"{kind} {meta.namespace or 'default'}/{meta.name}"
