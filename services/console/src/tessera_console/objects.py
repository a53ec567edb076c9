"""AcceleratorQuotas and RebalancePlans, cut down to what the page shows of them."""

from __future__ import annotations

from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct

from tessera_runtime.kube.reflector import WatchEventType
from tessera_schema.json_codec import decoder
from tessera_schema.plans import PlanSpec, PlanStatus
from tessera_schema.quotas import QuotaStatus


class _Meta(Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    creation_timestamp: str = ""


class _QuotaSpec(Struct, frozen=True, rename="camel"):
    vendor: str = ""
    hard: dict[str, Any] = {}
    guaranteed: dict[str, Any] = {}
    pool: str = ""
    namespaces: tuple[str, ...] = ()


class QuotaView(Struct, frozen=True):
    """An AcceleratorQuota. Amounts are as they are written: the quota monitor adds them up."""

    spec: _QuotaSpec = _QuotaSpec()
    metadata: _Meta = _Meta()
    status: QuotaStatus = QuotaStatus()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


class PlanView(Struct, frozen=True):
    """A RebalancePlan."""

    spec: PlanSpec
    metadata: _Meta = _Meta()
    status: PlanStatus = PlanStatus()

    @property
    def key(self) -> str:
        """Its name."""
        return self.metadata.name


class _Keyed(Protocol):
    @property
    def key(self) -> str: ...


T = TypeVar("T", bound=_Keyed)

read_quota: Final = decoder(QuotaView)
"""Raises msgspec.DecodeError, as `read_plan`."""
read_plan: Final = decoder(PlanView)


class KnownObjects(Generic[T]):
    """All objects of a kind by their keys; a reflector's handler."""

    def __init__(self) -> None:
        self.known: dict[str, T] = {}

    def on_list(self, items: list[T], started: float, now: float) -> None:
        """See `Handler.on_list`."""
        del started, now
        self.known = {item.key: item for item in items}

    def on_event(self, change: WatchEventType, item: T, now: float) -> None:
        """See `Handler.on_event`."""
        del now
        if change is WatchEventType.DELETED:
            self.known.pop(item.key, None)
        else:
            self.known[item.key] = item
