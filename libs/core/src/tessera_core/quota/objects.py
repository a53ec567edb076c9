"""Quota objects as limits in the units of the ledger.

`ResourceQuota` entries `limits.<resource>` count in the unit of the dialect that owns the name.
All objects of a namespace hold; HAMi lets the last one win.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, TypeVar

from msgspec import Struct

from tessera_core.dialect_kit.contract import BadLimit, Dimension
from tessera_core.kube.label_selectors import BadSelector, parse_selector
from tessera_core.kube.quantity import BadQuantity, integer_quantity, quantity_milli, quantity_value
from tessera_core.quota.model_entries import entry_of
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.kube import ObjectMeta, Quantity
from tessera_schema.label_selectors import Selector
from tessera_schema.quotas import BestEffortLimit, Guaranteed, Limit

T = TypeVar("T", int, float)

VERSION: Final = "v1alpha1"
"""Of AcceleratorQuota, in group tessera.dev."""
_LONGEST_S: Final = 366 * 86400.0
_LIMITS: Final = "limits."
_REQUESTS: Final = "requests."


class ResourceQuotaSpec(Struct, frozen=True, rename="camel"):
    """What of a ResourceQuota's spec is read."""

    hard: dict[str, Any] = {}
    scopes: list[str] = []
    scope_selector: dict[str, Any] | None = None


class ResourceQuota(Struct, frozen=True):
    """Kubernetes' own quota object."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()


class Hard(Struct, frozen=True, forbid_unknown_fields=True):
    """`spec.hard` of an AcceleratorQuota; what is left out is not limited, 0 blocks."""

    memory: Quantity | None = None
    """Such as 64Gi."""
    cores: Quantity | None = None
    """Percent of a card: 250 is two cards and a half."""
    cards: Quantity | None = None
    models: dict[str, Quantity] | None = None
    """Part of a model's name -> cards; models that match no entry are denied."""


class Guarantee(Struct, frozen=True, forbid_unknown_fields=True):
    """`spec.guaranteed`: what the group may use whatever others use, in amounts as in `hard`. What
    is left out is not lent and cannot be borrowed."""

    memory: Quantity | None = None
    cores: Quantity | None = None
    cards: Quantity | None = None
    models: dict[str, Quantity] | None = None
    """Part of a model's name -> cards."""


class BestEffort(Struct, frozen=True, forbid_unknown_fields=True):
    """`spec.bestEffort`: what best-effort pods may hold, who then count in neither `hard` nor
    `guaranteed`, but for `models`. What is left out is not limited, 0 blocks."""

    memory: Quantity | None = None
    cards: Quantity | None = None


class Throttle(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """`spec.throttle`: what becomes of pods that run while more is used than may be. What is left
    out is as the quota service is set."""

    after_seconds: float | None = None
    """Time of grace."""
    cores_percent: float | None = None
    """Of the cores that each container was granted; 100 = they are left alone."""


class AcceleratorQuotaSpec(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What a group may hold of one vendor's cards, or with no vendor of all cards together."""

    vendor: str = ""
    hard: Hard = Hard()
    namespaces: tuple[str, ...] = ()
    """The group: all their pods count together, and all are held to it; empty = the object's own
    namespace."""
    namespace_selector: dict[str, Any] | None = None
    """More namespaces of the group, by their labels; empty = all of the cluster."""
    node_pools: tuple[str, ...] = ()
    """Only cards of nodes in these pools may be used; empty = all."""
    best_effort: BestEffort | None = None
    guaranteed: Guarantee | None = None
    pool: str = "default"
    """Groups of one pool lend what they are guaranteed and do not use to each other."""
    lends: bool = True
    throttle: Throttle = Throttle()


class AcceleratorQuota(Struct, frozen=True):
    """Tessera's own quota object, in every vendor's cards alike."""

    metadata: ObjectMeta = ObjectMeta()
    spec: AcceleratorQuotaSpec = AcceleratorQuotaSpec()


def resource_limits(
    quota: ResourceQuota, registry: DialectRegistry, warn: Callable[[str], None]
) -> Iterator[Limit]:
    """A limit for each entry that a dialect owns; the others are left to Kubernetes. An entry of
    a dialect that limits nothing is reported. Raises BadLimit."""
    if quota.spec.scopes or quota.spec.scope_selector:
        warn("spec.scopes: quotas for some pods only are not read: it limits nothing")
        return
    units = {
        name: (dialect.vendor, unit)
        for dialect in registry.dialects.values()
        for name, unit in dialect.quota.items()
    }
    for entry, quantity in quota.spec.hard.items():
        name = entry.removeprefix(_LIMITS)
        if name == entry or name not in units:
            _warn_of_unread(entry, registry, units.keys(), warn)
            continue
        vendor, unit = units[name]
        amount = _amount(f"spec.hard[{entry}]", quantity, _number) * unit.unit
        yield Limit(
            namespace=quota.metadata.namespace or "default",
            source=f"ResourceQuota {quota.metadata.name} ({entry})",
            vendor=vendor,
            memory_bytes=int(amount) if unit.dimension is Dimension.MEMORY else None,
            cores_percent=amount if unit.dimension is Dimension.CORES else None,
            cards=int(amount) if unit.dimension is Dimension.CARDS else None,
        )


def accelerator_limit(quota: AcceleratorQuota, registry: DialectRegistry) -> Limit:
    """The limit that an AcceleratorQuota sets. Raises BadLimit."""
    spec, hard = quota.spec, quota.spec.hard
    if spec.vendor and spec.vendor not in registry.vendors:
        known = ", ".join(sorted(registry.vendors))
        raise BadLimit("spec.vendor", spec.vendor, f"write one of {known}, or leave it out")
    if not all(spec.namespaces):
        raise BadLimit("spec.namespaces", list(spec.namespaces), "write names of namespaces")
    if not all(spec.node_pools):
        raise BadLimit("spec.nodePools", list(spec.node_pools), "write names of pools")
    throttle_of(quota, after_s=0, cores_percent=100)
    most = _amounts("spec.hard", hard)
    guaranteed = None
    if spec.guaranteed is not None:
        guaranteed = _amounts("spec.guaranteed", spec.guaranteed)
        _check_guaranteed(guaranteed, most, spec.guaranteed)
    return Limit(
        namespace=quota.metadata.namespace or "default",
        source=f"AcceleratorQuota {quota.metadata.name}",
        vendor=spec.vendor,
        memory_bytes=most.memory_bytes,
        cores_percent=most.cores_percent,
        cards=most.cards,
        models=most.models,
        node_pools=tuple(dict.fromkeys(spec.node_pools)),
        namespaces=tuple(dict.fromkeys(spec.namespaces)),
        selector=_selector(spec.namespace_selector),
        best_effort=_best_effort(spec.best_effort),
        guaranteed=guaranteed,
        pool=spec.pool if guaranteed is not None else "",
        lends=spec.lends,
    )


def throttle_of(
    quota: AcceleratorQuota, *, after_s: float, cores_percent: float
) -> tuple[float, float]:
    """Seconds of grace, and the percentage of its cores that a container gets after them; what the
    object does not say is as given. Raises BadLimit."""
    throttle = quota.spec.throttle
    after, percent = throttle.after_seconds, throttle.cores_percent
    if after is not None and not 0 <= after <= _LONGEST_S:
        raise BadLimit("spec.throttle.afterSeconds", after, f"write 0 to {_LONGEST_S:g}")
    if percent is not None and not 1 <= percent <= 100:
        raise BadLimit("spec.throttle.coresPercent", percent, "write 1 to 100")
    return after_s if after is None else after, cores_percent if percent is None else percent


def _selector(written: dict[str, Any] | None) -> Selector | None:
    if written is None:
        return None
    try:
        return parse_selector(written)
    except BadSelector as e:
        raise BadLimit("spec.namespaceSelector", written, str(e)) from e


def _amounts(field: str, written: Hard | Guarantee) -> Guaranteed:
    def read(name: str, quantity: Quantity | None, as_number: Callable[[Quantity], T]) -> T | None:
        return None if quantity is None else _amount(f"{field}.{name}", quantity, as_number)

    return Guaranteed(
        memory_bytes=read("memory", written.memory, _number),
        cores_percent=read("cores", written.cores, _decimal),
        cards=read("cards", written.cards, _number),
        models=None if written.models is None else {
            name: _amount(f"{field}.models[{name}]", quantity, _decimal)
            for name, quantity in written.models.items()
        },
    )  # fmt: skip


def _best_effort(written: BestEffort | None) -> BestEffortLimit | None:
    if written is None:
        return None
    field, memory, cards = "spec.bestEffort", written.memory, written.cards
    return BestEffortLimit(
        memory_bytes=None if memory is None else _amount(f"{field}.memory", memory, _number),
        cards=None if cards is None else _amount(f"{field}.cards", cards, _number),
    )


def _check_guaranteed(guaranteed: Guaranteed, most: Guaranteed, written: Guarantee) -> None:
    """More than the hard limit could never be used."""
    for name, own, allowed in (
        ("memory", guaranteed.memory_bytes, most.memory_bytes),
        ("cores", guaranteed.cores_percent, most.cores_percent),
        ("cards", guaranteed.cards, most.cards),
    ):
        if own is not None and allowed is not None and own > allowed:
            remedy = f"write at most what spec.hard.{name} allows"
            raise BadLimit(f"spec.guaranteed.{name}", getattr(written, name), remedy)
    for entry, cards in (guaranteed.models or {}).items():
        at_most = _allowed(most.models, entry)
        if cards > at_most:
            raise BadLimit(
                f"spec.guaranteed.models[{entry}]", (written.models or {})[entry],
                f"write at most what spec.hard.models allows of it, {at_most:g}",
            )  # fmt: skip


def _allowed(models: Mapping[str, float] | None, model: str) -> float:
    if models is None:
        return math.inf
    entry = entry_of(models, model)
    return 0 if entry is None else models[entry]


def _warn_of_unread(
    entry: str, registry: DialectRegistry, counted: Collection[str], warn: Callable[[str], None]
) -> None:
    """Say why an entry that a dialect owns limits nothing; `counted` are the names that can be
    limited."""
    asked, limited = entry.removeprefix(_REQUESTS), entry.removeprefix(_LIMITS)
    if asked != entry and asked in registry.resources:
        remedy = (
            f"write {_LIMITS}{asked} to have it planned"
            if asked in counted
            else "limit memory, cores or cards in an AcceleratorQuota to have it planned"
        )
        warn(f"spec.hard[{entry}]: requests are counted by the API server, not here: {remedy}")
    if limited != entry and limited in registry.resources:
        warn(
            f"spec.hard[{entry}]: {limited} has no amount that could be added up over cards: "
            "it limits nothing; limit memory, cores or cards in an AcceleratorQuota instead"
        )


def _number(quantity: Quantity) -> int:
    if quantity_milli(quantity) != quantity_value(quantity) * 1000:
        raise BadQuantity("not a whole number")
    number = integer_quantity(quantity)
    return quantity_value(quantity) if number is None else number


def _decimal(quantity: Quantity) -> float:
    amount = quantity_milli(quantity) / 1000
    return int(amount) if amount.is_integer() else amount


def _amount(field: str, quantity: Any, read: Callable[[Quantity], T]) -> T:
    try:
        amount = read(quantity)
    except BadQuantity as e:
        raise BadLimit(field, quantity, f"{e}: write an amount, 0 or more") from e
    if amount < 0:
        raise BadLimit(field, quantity, "write an amount, 0 or more")
    return amount
