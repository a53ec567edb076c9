"""Queues as they are written: Volcano's Queue, Koordinator's and the plain ElasticQuota."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from tessera_core.dialect_kit.contract import BadLimit, QuotaUnit
from tessera_core.gangs.queues import (
    PLAIN_QUOTA,
    VOLCANO_QUEUE,
    QueueAmounts,
    QueueDimension,
    QueueOrigin,
    QueueSpec,
)
from tessera_core.kube.quantity import BadQuantity, quantity_milli, quantity_value
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.kube import ObjectMeta, Quantity

_ROOT: Final = "root"
_QUOTA_ROOT: Final = "koordinator-root-quota"
_LABEL: Final = "quota.scheduling.koordinator.sh/"
_CPU: Final = "cpu"
_LARGEST_WEIGHT: Final = 65535
_DIGITS: Final = 6
"""Of a part of a unit: less is an error of the division."""
_decode_amounts: Final = msgspec.json.Decoder(dict[str, Quantity]).decode


class QueueGuarantee(Struct, frozen=True):
    """Volcano: what is never lent."""

    resource: dict[str, Quantity] = {}


class QueueObjectSpec(Struct, frozen=True, rename="camel"):
    """What of a Queue's or an ElasticQuota's spec is read."""

    weight: int = 1
    capability: dict[str, Quantity] = {}
    deserved: dict[str, Quantity] = {}
    guarantee: QueueGuarantee = QueueGuarantee()
    reclaimable: bool = True
    parent: str = ""
    priority: int = 0
    dequeue_strategy: str = "traverse"
    min: dict[str, Quantity] = {}
    max: dict[str, Quantity] = {}


class QueueObjectStatus(Struct, frozen=True):
    """Volcano: whether the queue takes pods."""

    state: str = "Open"


class QueueObject(Struct, frozen=True):
    """A Volcano Queue or an ElasticQuota, as it is written."""

    metadata: ObjectMeta = ObjectMeta()
    spec: QueueObjectSpec = QueueObjectSpec()
    status: QueueObjectStatus = QueueObjectStatus()


class QueueReader:
    """Reads queues, with the units that dialects give to resource names."""

    def __init__(self, registry: DialectRegistry) -> None:
        """Of these dialects."""
        self._units: dict[str, tuple[str, QuotaUnit]] = {
            name: (dialect.vendor, unit)
            for dialect in registry.dialects.values()
            for name, unit in dialect.quota.items()
        }

    def read(self, origin: QueueOrigin, written: QueueObject) -> QueueSpec:
        """The queue that the object describes. Raises BadLimit."""
        if origin == VOLCANO_QUEUE:
            return self._volcano(written)
        return self._elastic(origin, written)

    def amounts(self, field: str, resources: Mapping[str, Quantity]) -> dict[QueueDimension, float]:
        """Resources by name as amounts by dimension. Raises BadLimit."""
        total: dict[QueueDimension, float] = {}
        for name, quantity in resources.items():
            try:
                number = quantity_milli(quantity) if name == _CPU else quantity_value(quantity)
            except BadQuantity as e:
                raise BadLimit(f"{field}[{name}]", quantity, str(e)) from e
            if number < 0:
                raise BadLimit(f"{field}[{name}]", quantity, "write 0 or more")
            vendor, unit = self._units.get(name, ("", None))
            if unit is None:
                dimension, amount = QueueDimension("", name), float(number)
            else:
                dimension, amount = QueueDimension(vendor, unit.dimension.value), number * unit.unit
            total[dimension] = total.get(dimension, 0) + amount
        return total

    def card_quantities(
        self, amounts: QueueAmounts, names: Iterable[str], rounded: Callable[[float], int]
    ) -> dict[str, int]:
        """Amounts by dimension as those of these names, in whole units; names that are no card's
        are left out."""
        found: dict[str, int] = {}
        for name in names:
            vendor, unit = self._units.get(name, ("", None))
            if unit is not None:
                dimension = QueueDimension(vendor, unit.dimension.value)
                found[name] = rounded(round(amounts.get(dimension, 0) / unit.unit, _DIGITS))
        return found

    def _volcano(self, written: QueueObject) -> QueueSpec:
        spec, state = written.spec, written.status.state or "Open"
        if not 1 <= spec.weight <= _LARGEST_WEIGHT:
            raise BadLimit("spec.weight", spec.weight, f"write 1 to {_LARGEST_WEIGHT}")
        if spec.priority < 0:
            raise BadLimit("spec.priority", spec.priority, "write 0 or more")
        if spec.dequeue_strategy not in ("traverse", "fifo"):
            raise BadLimit("spec.dequeueStrategy", spec.dequeue_strategy, "write traverse or fifo")
        return QueueSpec(
            origin=VOLCANO_QUEUE, name=written.metadata.name,
            parent="" if spec.parent == _ROOT else spec.parent,
            guarantee=self.amounts("spec.guarantee.resource", spec.guarantee.resource),
            deserved=self.amounts("spec.deserved", spec.deserved),
            cap=self.amounts("spec.capability", spec.capability),
            weight=spec.weight, priority=spec.priority, reclaimable=spec.reclaimable,
            fifo=spec.dequeue_strategy == "fifo", open=state == "Open", state=state,
            created=written.metadata.creation_timestamp or "",
        )  # fmt: skip

    def _elastic(self, origin: QueueOrigin, written: QueueObject) -> QueueSpec:
        meta = written.metadata
        least = self.amounts("spec.min", written.spec.min)
        most = self.amounts("spec.max", written.spec.max)
        for dimension, amount in least.items():
            if amount > most.get(dimension, amount):
                raise BadLimit("spec.min", amount, f"write at most spec.max, {most[dimension]:g}")
        parent = meta.labels.get(_LABEL + "parent", "")
        lends = meta.labels.get(_LABEL + "allow-lent-resource", "true") != "false"
        key = _LABEL + "shared-weight"
        weights = most
        if key in meta.annotations:
            weights = self.amounts(f"metadata.annotations[{key}]", _weights(meta.annotations[key]))
        return QueueSpec(
            origin=origin, name=queue_name(origin, meta), namespace=meta.namespace or "default",
            parent="" if parent == _QUOTA_ROOT else parent,
            guarantee={} if lends else least, deserved=least, cap=most, weights=weights,
            created=meta.creation_timestamp or "",
        )  # fmt: skip


def _weights(text: str) -> dict[str, Quantity]:
    try:
        return _decode_amounts(text)
    except msgspec.DecodeError as e:
        field = f"metadata.annotations[{_LABEL}shared-weight]"
        raise BadLimit(field, text, 'write JSON such as {"cpu": 2}') from e


def queue_name(origin: QueueOrigin, meta: ObjectMeta) -> str:
    """What the queue is known by: plain ElasticQuotas by their namespaces and names, all others by
    their names in the whole cluster."""
    return f"{meta.namespace or 'default'}/{meta.name}" if origin == PLAIN_QUOTA else meta.name
