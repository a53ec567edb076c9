"""Less memory, as the pod's own dialect says it.

No dialect is known here. An amount of the container (or an annotation by which the pod asks) is
scaled down, and admission reads the pod again: the amount is the right one if the container then
gets less memory, enough of it, and the same of everything else. So totals over several cards,
percents, units of 256 MiB and quantities are all written as the pod writes them, rounded up to what
the dialect can say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.admission.admit import AdmittedPod, admit
from tessera_core.admission.allowances import EVERYTHING
from tessera_core.dialect_kit.contract import Dimension
from tessera_core.kube.quantity import binary_quantity
from tessera_core.registry.registry import DialectRegistry
from tessera_core.utilization.recording import HolderPod, WrittenContainer
from tessera_schema.cards import MIB
from tessera_schema.kube import Container, ObjectMeta, Pod, PodSpec, Quantity, Resources
from tessera_schema.requests import Request

_TRIES: Final = 4
"""Next larger amounts that are tried, where the dialect rounds down."""
_BYTES_FROM: Final = 1 << 30
"""A plain number from here on counts bytes, and is written in MiB or GiB."""
_SHAPE: Final = re.compile(r"(\d{1,19})(\.\d{1,6})?([KMGTPE]i|[kMGTPE])?", re.ASCII).fullmatch
_THOUSANDS: Final = "kMGTPE"
"""Suffixes that the API server writes for whole thousands of whatever is counted: 3000 is `3k`."""
_HALF: Final = Decimal("0.5")


class AmountChange(Struct, frozen=True, kw_only=True):
    """One amount of a pod's manifest, and what it should be."""

    container: str
    init: bool = False
    annotation: bool = False
    """It is an annotation of the pod, else a limit of the container."""
    name: str
    before: str
    """Empty = the manifest does not have it yet."""
    after: str
    memory_bytes: int
    """Of each card, as the dialect then reads it."""
    whole_cores: bool = False
    """The container keeps all cores of its cards, so that nobody can have the memory."""


def smaller_amount(
    registry: DialectRegistry, pod: HolderPod, container: str, *, granted: int, wanted: int
) -> AmountChange | str | None:
    """The change by which the container gets at least `wanted` bytes of each card rather than the
    `granted` ones; why there is none; or None where no smaller amount that the dialect can say is
    enough."""
    written = next((one for one in pod.containers if one.name == container), None)
    before = _request(registry, pod, container)
    if written is None or isinstance(before, str):
        return "its manifest is not known any more" if written is None else f"{before}"
    asks = _Manifest(registry, pod, before, _memory_of(pod, container, before, granted))
    for field in _fields(registry, pod, written):
        for after in _scaled(field.before, Decimal(wanted) / Decimal(asks.memory_bytes)):
            found = asks.checked(replace(field, after=after), wanted)
            if found is not None:
                return found if found.memory_bytes < granted else None
        if any(
            asks.checked(replace(field, after=half), 1) for half in _scaled(field.before, _HALF)
        ):
            return None  # it is the amount of memory, and no smaller one is enough
    return _added(asks, written, wanted)


class _Manifest(Struct, frozen=True):
    """What a container asks for as it is written; a live resize may have changed what it has."""

    registry: DialectRegistry
    pod: HolderPod
    request: Request
    memory_bytes: int
    """Of each card."""

    def checked(self, change: AmountChange, wanted: int) -> AmountChange | None:
        """The change with what it comes to, where that is less memory, enough, and else the
        same."""
        before = self.request
        after = _request(self.registry, changed(self.pod, change), change.container)
        if isinstance(after, str) or after.count != before.count or after.vendor != before.vendor:
            return None
        if change.before and after.cores_percent != before.cores_percent:
            return None
        memory = self._memory(after)
        if not wanted <= memory < self.memory_bytes:
            return None
        return replace(change, memory_bytes=memory, whole_cores=after.cores_percent >= 100)

    def _memory(self, after: Request) -> int:
        """Bytes of each card; 0 where that cannot be said."""
        if after.memory_bytes:
            return after.memory_bytes
        before = self.request
        if after.equal_parts is not None or not before.memory_percent or before.memory_bytes:
            return 0
        return int(self.memory_bytes * after.memory_percent / before.memory_percent)


def _memory_of(pod: HolderPod, container: str, request: Request, granted: int) -> int:
    """Bytes of each card that the manifest asks for; what was granted where that is not known."""
    if request.memory_bytes:
        return request.memory_bytes
    card = next((part.card_bytes for part in pod.shares if part.container == container), 0)
    return int(card * request.memory_percent / 100) or granted


def _fields(
    registry: DialectRegistry, pod: HolderPod, written: WrittenContainer
) -> Iterator[AmountChange]:
    """Amounts that may be the one of memory."""
    common = {"container": written.name, "init": written.init, "after": "", "memory_bytes": 0}
    for name, amount in written.limits.items():
        if name in registry.resources:
            yield AmountChange(name=name, before=str(amount), **common)  # type: ignore[arg-type]
    for key, text in pod.annotations.items():
        if key in registry.request_keys:
            yield AmountChange(name=key, before=text, annotation=True, **common)  # type: ignore[arg-type]


def _added(asks: _Manifest, written: WrittenContainer, wanted: int) -> AmountChange | str:
    """An amount of memory for a container that names none, and so has all of its cards."""
    before = asks.request
    for name, unit in asks.registry.readers[before.dialect].quota.items():
        if unit.dimension is not Dimension.MEMORY or name in written.limits:
            continue
        per_card = -(-wanted // max(int(unit.unit), 1))
        for amount in dict.fromkeys((per_card, per_card * before.count)):
            change = AmountChange(
                container=written.name, init=written.init, name=name, before="",
                after=_spelt(amount) if unit.unit == 1 else str(amount), memory_bytes=0,
            )  # fmt: skip
            found = asks.checked(change, wanted)
            if found is not None:
                return found
    return f"its dialect, {before.dialect}, has no amount for its memory alone"


def _request(registry: DialectRegistry, pod: HolderPod, container: str) -> Request | str:
    """What the container asks for; or why that is not one thing."""
    admitted = admit(registry, as_written(pod), runs=True, allowed=EVERYTHING)
    if not isinstance(admitted, AdmittedPod):
        return "it asks for no cards in a dialect that is known here"
    found = [
        request
        for one in admitted.request.containers
        if one.container == container
        for request in one.requests
    ]
    if len(found) != 1:
        return "it asks for cards in no dialect" if not found else "it asks for cards of two makes"
    return found[0]


def as_written(pod: HolderPod) -> Pod:
    """The pod, as far as a recording has it."""

    def made(one: WrittenContainer) -> Container:
        return Container(
            name=one.name, resources=Resources(limits=dict(one.limits)),
            restart_policy="Always" if one.sidecar else None,
        )  # fmt: skip

    return Pod(
        metadata=ObjectMeta(
            name=pod.name, namespace=pod.namespace, uid=pod.uid, labels=dict(pod.labels),
            annotations=dict(pod.annotations),
        ),
        spec=PodSpec(
            containers=tuple(made(one) for one in pod.containers if not one.init),
            init_containers=tuple(made(one) for one in pod.containers if one.init),
            scheduler_name=pod.scheduler, node_name=pod.node,
        ),
    )  # fmt: skip


def changed(pod: HolderPod, change: AmountChange) -> HolderPod:
    """The pod with the change."""
    if change.annotation:
        return replace(pod, annotations={**pod.annotations, change.name: change.after})

    def after(limits: Mapping[str, Quantity]) -> dict[str, Quantity]:
        return {**limits, change.name: change.after}

    return replace(
        pod,
        containers=tuple(
            replace(one, limits=after(one.limits)) if one.name == change.container else one
            for one in pod.containers
        ),
    )


def _scaled(before: str, ratio: Decimal) -> Iterator[str]:
    """The amount scaled and rounded up, as it is spelt, and the next larger ones."""
    match = _SHAPE(before)
    if match is None:
        return
    whole, fraction, suffix = match.groups()
    number, suffix = Decimal(whole + (fraction or "")), suffix or ""
    if suffix in _THOUSANDS:
        power = 3 * (_THOUSANDS.index(suffix) + 1) if suffix else 0
        number, suffix = number.scaleb(power), ""
        fraction = fraction if number % 1 else ""
    if fraction:
        step = Decimal(1).scaleb(1 - max(len(fraction), 3))
    elif not suffix and number >= _BYTES_FROM:
        step = Decimal(MIB)
    else:
        step = Decimal(1)
    units = int((number * ratio / step).to_integral_value(ROUND_CEILING))
    for more in _larger(units):
        amount = more * step
        if 0 < amount < number:
            yield _spelt(int(amount)) if step == MIB else f"{amount}{suffix}"


def _larger(units: int) -> list[int]:
    """The amount, the next ones, and the next ones of a card that is cut by halves: twice and
    three times a power of two."""
    power = 1 << max(units - 1, 0).bit_length()
    thrice = 3 << max(-(-units // 3) - 1, 0).bit_length()
    return sorted({*range(units, units + _TRIES), power, thrice})


def _spelt(size: int) -> str:
    """Bytes, up to whole MiB, as a quantity in MiB or GiB."""
    return binary_quantity(-(-size // MIB) * MIB)
