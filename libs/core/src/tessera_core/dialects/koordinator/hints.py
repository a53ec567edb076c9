"""What a pod says about where its cards lie: three annotations, as far as cards are concerned.

Network cards and FPGAs are not placed here. What a pod asks of them in addition to its cards is
reported in a warning where the cards can be given without it, and refused where they cannot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from tessera_core.dialect_kit import (
    BadQuantity,
    BadSelector,
    Grouping,
    InvalidField,
    Scope,
    Selector,
    invalid_field,
    parse_selector,
    quantity_value,
)
from tessera_core.dialects.koordinator.amounts import MEMORY_MAX
from tessera_core.dialects.koordinator.names import HINT, JOINT, PARTITION_SPEC

GPU: Final = "gpu"


class CardDemands(Struct, frozen=True, kw_only=True):
    """What a pod's annotations demand of its cards."""

    scope: Scope = Scope.NODE
    labels: Selector = ()
    grouping: Grouping | None = None
    warnings: tuple[str, ...] = ()


class _Hint(Struct, frozen=True, rename="camel"):
    selector: dict[str, Any] | None = None
    vf_selector: dict[str, Any] | None = None
    allocate_strategy: Literal["", "ApplyForAll", "RequestsAsCount"] = ""
    required_topology_scope: Literal["", "Device", "PCIe", "NUMANode", "Node"] = ""
    exclusive_policy: Literal["", "DeviceLevel", "PCIeLevel"] = ""


class _Joint(Struct, frozen=True, rename="camel"):
    device_types: tuple[str, ...] = ()
    required_scope: Literal["", "SamePCIe"] = ""


class _Partition(Struct, frozen=True, rename="camel"):
    allocate_policy: Literal["", "Restricted", "BestEffort"] = ""
    ring_bus_bandwidth: str | int = 0


def card_demands(annotations: Mapping[str, str], *, others: bool) -> CardDemands:
    """What the annotations say. `others`: the pod asks for network cards or FPGAs too.

    Raises InvalidField for what makes no sense, or cannot be promised here.
    """
    warnings: list[str] = []
    hint = _read_hint(annotations, warnings)
    _check_joint(annotations, others, warnings)
    return CardDemands(
        scope=Scope(hint.required_topology_scope or Scope.NODE),
        labels=_labels(hint, annotations.get(HINT, "")),
        grouping=_grouping(annotations),
        warnings=tuple(warnings),
    )


def _read_hint(annotations: Mapping[str, str], warnings: list[str]) -> _Hint:
    text = annotations.get(HINT)
    if text is None:
        return _Hint()
    hints = _decoded(HINT, text, _hints)
    hint = hints.get(GPU) or _Hint()
    if hint.vf_selector is not None:
        raise _invalid(HINT, text, "gpu.vfSelector: cards are not given as virtual functions here; "
                       "take it out")  # fmt: skip
    for field, written in (
        ("allocateStrategy", hint.allocate_strategy), ("exclusivePolicy", hint.exclusive_policy)
    ):  # fmt: skip
        if written:
            warnings.append(
                f"metadata.annotations[{HINT}]: gpu.{field}: {written} says nothing about GPUs"
            )
    return hint


def _labels(hint: _Hint, text: str) -> Selector:
    try:
        return parse_selector(hint.selector or {})
    except BadSelector as e:
        raise _invalid(HINT, text, f"gpu.selector: {e}") from e


def _check_joint(annotations: Mapping[str, str], others: bool, warnings: list[str]) -> None:  # noqa: FBT001  (a fact of the pod)
    text = annotations.get(JOINT)
    if text is None:
        return
    joint = _decoded(JOINT, text, _joint)
    if GPU not in joint.device_types or len(joint.device_types) < 2 or not others:
        return
    if joint.required_scope:
        raise _invalid(
            JOINT, text,
            f"requiredScope {joint.required_scope} cannot be promised: network cards and FPGAs "
            "are not placed here; take requiredScope out, or do not ask for them",
        )  # fmt: skip
    warnings.append(
        f"metadata.annotations[{JOINT}] is not honoured: cards are chosen without a look at "
        "network cards and FPGAs"
    )


def _grouping(annotations: Mapping[str, str]) -> Grouping | None:
    text = annotations.get(PARTITION_SPEC)
    if text is None:
        return None
    spec = _decoded(PARTITION_SPEC, text, _partition)
    return Grouping(
        best_only=spec.allocate_policy == "Restricted",
        bandwidth=bandwidth(spec.ring_bus_bandwidth, PARTITION_SPEC, text),
    )


def bandwidth(written: str | int, annotation: str, text: str) -> int:
    """Raises InvalidField for what is no amount."""
    try:
        amount = quantity_value(written)
    except BadQuantity as e:
        raise _invalid(annotation, text, f"ringBusBandwidth: {e}: write such as 400Gi") from e
    if not 0 <= amount <= MEMORY_MAX:
        raise _invalid(annotation, text, f"ringBusBandwidth: write 0 to {MEMORY_MAX}")
    return amount


def _decoded(annotation: str, text: str, decoder: msgspec.json.Decoder[Any]) -> Any:
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as e:
        raise _invalid(annotation, text, f"{e}: write it as Koordinator's documents say") from e


def _invalid(annotation: str, text: str, remedy: str) -> InvalidField:
    shown = text if len(text) <= 120 else f"{text[:117]}..."
    return invalid_field(f"metadata.annotations[{annotation}]", shown, remedy)


_hints = msgspec.json.Decoder(dict[str, _Hint])
_joint = msgspec.json.Decoder(_Joint)
_partition = msgspec.json.Decoder(_Partition)
