"""Quota objects as limits in the units of the books.

`ResourceQuota` entries `limits.<resource>` count in the unit of the dialect that owns the name.
All objects of a namespace hold; HAMi lets the last one win.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct

from tessera_cli.errors import Malformed
from tessera_cli.manifests import named
from tessera_cli.reading import convert
from tessera_core.dialect import Dimension
from tessera_core.quantity import BadQuantity, milli, value, whole
from tessera_core.registry import Registry
from tessera_schema.kube import ObjectMeta, Quantity
from tessera_schema.quotas import Limit

T = TypeVar("T", int, float)

VERSION: Final = "v1alpha1"
_LIMITS: Final = "limits."
_REQUESTS: Final = "requests."


class _ResourceQuotaSpec(Struct, frozen=True, rename="camel"):
    hard: dict[str, Any] = {}
    scopes: list[str] = []
    scope_selector: dict[str, Any] | None = None


class _ResourceQuota(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _ResourceQuotaSpec = _ResourceQuotaSpec()


class Hard(Struct, frozen=True, forbid_unknown_fields=True):
    """`spec.hard` of an AcceleratorQuota; what is left out is not limited, 0 blocks."""

    memory: Quantity | None = None
    """Such as 64Gi."""
    cores: Quantity | None = None
    """Percent of a card: 250 is two cards and a half."""
    cards: Quantity | None = None
    models: dict[str, Quantity] | None = None
    """Part of a model's name -> cards; models that match no entry are denied."""


class _AcceleratorQuotaSpec(Struct, frozen=True, forbid_unknown_fields=True):
    vendor: str = ""
    hard: Hard = Hard()


class _AcceleratorQuota(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _AcceleratorQuotaSpec = _AcceleratorQuotaSpec()


def resource_quota(
    raw: Mapping[str, Any], registry: Registry, where: str, tell: Callable[[str], None]
) -> Iterator[Limit]:
    """A limit for each entry that a dialect owns; the others are not ours. Raises Malformed."""
    quota = convert(raw, _ResourceQuota, where)
    if quota.spec.scopes or quota.spec.scope_selector:
        tell(f"{where}: spec.scopes: quotas for some pods only are not read: it limits nothing")
        return
    units = {
        name: (dialect.vendor, unit)
        for dialect in registry.dialects.values()
        for name, unit in dialect.quota.items()
    }
    for entry, quantity in quota.spec.hard.items():
        if entry.startswith(_REQUESTS) and entry.removeprefix(_REQUESTS) in registry.resources:
            tell(
                f"{where}: spec.hard[{entry}]: requests are counted by the API server, not here: "
                f"write {_LIMITS}{entry.removeprefix(_REQUESTS)} to have it planned"
            )
        name = entry.removeprefix(_LIMITS)
        if name == entry or name not in units:
            if name != entry and name in registry.resources:
                tell(
                    f"{where}: spec.hard[{entry}]: {name} has no amount that could be added up "
                    "over cards: it limits nothing; limit memory, cores or cards instead"
                )
            continue
        vendor, unit = units[name]
        field = f"spec.hard[{entry}]"
        amount = _amount(where, field, quantity, _number) * unit.unit
        yield Limit(
            namespace=quota.metadata.namespace or "default",
            source=f"ResourceQuota {quota.metadata.name} ({entry})",
            vendor=vendor,
            memory_bytes=int(amount) if unit.dimension is Dimension.MEMORY else None,
            cores_percent=amount if unit.dimension is Dimension.CORES else None,
            cards=int(amount) if unit.dimension is Dimension.CARDS else None,
        )


def accelerator_quota(
    raw: Mapping[str, Any], registry: Registry, where: str, version: str
) -> Limit:
    """The limit that an AcceleratorQuota sets. Raises Malformed."""
    if version != VERSION:
        raise Malformed(where, "apiVersion", version, f"write tessera.dev/{VERSION}")
    quota = convert(raw, _AcceleratorQuota, where)
    vendor, hard = quota.spec.vendor, quota.spec.hard
    if vendor and vendor not in registry.vendors:
        known = ", ".join(sorted(registry.vendors))
        raise Malformed(where, "spec.vendor", vendor, f"write one of {known}, or leave it out")
    models = None
    if hard.models is not None:
        models = {
            name: _amount(where, f"spec.hard.models[{name}]", quantity, _decimal)
            for name, quantity in hard.models.items()
        }

    def read(name: str, quantity: Quantity | None, as_number: Callable[[Quantity], T]) -> T | None:
        if quantity is None:
            return None
        return _amount(where, f"spec.hard.{name}", quantity, as_number)

    return Limit(
        namespace=quota.metadata.namespace or "default",
        source=f"AcceleratorQuota {quota.metadata.name}",
        vendor=vendor,
        memory_bytes=read("memory", hard.memory, _number),
        cores_percent=read("cores", hard.cores, _decimal),
        cards=read("cards", hard.cards, _number),
        models=models,
    )


def _number(quantity: Quantity) -> int:
    if milli(quantity) != value(quantity) * 1000:
        raise BadQuantity("not a whole number")
    number = whole(quantity)
    return value(quantity) if number is None else number


def _decimal(quantity: Quantity) -> float:
    amount = milli(quantity) / 1000
    return int(amount) if amount.is_integer() else amount


def _amount(where: str, field: str, quantity: Any, read: Callable[[Quantity], T]) -> T:
    try:
        amount = read(quantity)
    except BadQuantity as e:
        raise Malformed(where, field, named(quantity), f"{e}: write an amount, 0 or more") from e
    if amount < 0:
        raise Malformed(where, field, named(quantity), "write an amount, 0 or more")
    return amount
