"""What a pod writes: units of memory and percent of compute of each container, and over how many
cards they are divided.

Limits alone count. The extender never reads init containers; here they are counted. Source:
`GetGPUMemoryFromPodResource` of the extender; `getReplicaDeviceCount`, `checkNodeIsValid` and
`ContainersRequestResourcesAreTheSame` of ACK's plugin, which leave a pod pending for ever where
this one is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from tessera_core.dialect_kit import (
    MOST_CARDS,
    Container,
    InvalidField,
    MemoryUnit,
    Pod,
    Role,
    field_of,
    find_amount,
    invalid_field,
    parse_amount,
    parse_memory_amount,
    roles,
)
from tessera_core.dialects.aliyun.names import CORE_STEP, COUNT_LABEL, WHOLE, AliyunOptions

_CORE_HINT: Final = "It counts percent of a card's compute, in steps of 5."
_DIGITS: Final = re.compile(r"[0-9]{1,4}")


class AliyunContainerRequest(Struct, frozen=True, kw_only=True):
    """What one container writes, of all the pod's cards together."""

    container: Container
    position: int
    role: Role
    memory: int
    """Units."""
    core: int = 0
    """Percent; 0 = none is promised."""


def cards_of(pod: Pod) -> int:
    """Over how many cards the pod's amounts are divided: 1 without the label, and for 0.

    Raises InvalidField for what is no number from 0 to `MOST_CARDS`.
    """
    text = pod.metadata.labels.get(COUNT_LABEL)
    if text is None:
        return 1
    number = int(text) if _DIGITS.fullmatch(text) else -1
    if not 0 <= number <= MOST_CARDS:
        raise invalid_field(
            f"metadata.labels[{COUNT_LABEL}]", text,
            f"write a number of cards from 1 to {MOST_CARDS}, or leave it out for one card.",
        )  # fmt: skip
    return max(number, 1)


def container_requests(pod: Pod, options: AliyunOptions) -> tuple[AliyunContainerRequest, ...]:
    """The containers that name more than 0. Raises InvalidField for what can never run."""
    cards = cards_of(pod)
    found = []
    for position, container, role in roles(pod):
        memory = _memory(pod, position, options, cards)
        core = _core(pod, position, options, cards)
        for name in (options.memory, options.core):
            _refuse_request_alone(pod, position, name)
        if core and not memory:
            raise invalid_field(
                *_written(pod, position, options.core),
                f"compute alone gives no card: add limits[{options.memory}] "
                f"({options.memory_unit}).",
            )
        if memory:
            found.append(
                AliyunContainerRequest(
                    container=container, position=position, role=role, memory=memory, core=core
                )
            )
    _refuse_mixture(pod, found, options)
    return tuple(found)


def read_leniently(pod: Pod, options: AliyunOptions) -> tuple[AliyunContainerRequest, ...]:
    """The same of a pod that runs; none where it would be refused today."""
    try:
        return container_requests(pod, options)
    except InvalidField:
        return ()


def _memory(pod: Pod, position: int, options: AliyunOptions, cards: int) -> int:
    unit = MemoryUnit(options.unit_bytes)
    units = parse_memory_amount(pod, position, options.memory, unit, where=("limits",), cards=cards)
    if units and units % cards:
        raise invalid_field(
            *_written(pod, position, options.memory),
            f"is divided over {cards} cards ({COUNT_LABEL}): write a multiple of {cards}, such as "
            f"{-(-units // cards) * cards}.",
        )
    return units or 0


def _core(pod: Pod, position: int, options: AliyunOptions, cards: int) -> int:
    percent = parse_amount(
        pod, position, options.core, where=("limits",), high=WHOLE * cards, hint=_CORE_HINT
    )
    step = CORE_STEP * cards
    if percent and percent % step:
        over = "" if cards == 1 else f" over {cards} cards"
        raise invalid_field(
            *_written(pod, position, options.core),
            f"is given in steps of {CORE_STEP} percent{over}: write a multiple of {step}, such as "
            f"{-(-percent // step) * step}.",
        )
    return percent or 0


def _written(pod: Pod, position: int, name: str) -> tuple[str, object]:
    return find_amount(pod, position, name, ("limits",)) or (
        field_of(pod, position, "limits", name), "",
    )  # fmt: skip


def _refuse_request_alone(pod: Pod, position: int, name: str) -> None:
    request = find_amount(pod, position, name, ("requests",))
    if request is None:
        return
    amount = parse_amount(pod, position, name, where=("requests",))
    limit = parse_amount(pod, position, name, where=("limits",))
    if limit is None and amount:
        raise invalid_field(
            *request, "write it under limits: requests alone give no card, and Kubernetes refuses "
            "them."
        )  # fmt: skip
    if limit is not None and limit != amount:
        raise invalid_field(*request, f"must equal the limit {limit}; write the same in both.")


def _refuse_mixture(
    pod: Pod, found: Sequence[AliyunContainerRequest], options: AliyunOptions
) -> None:
    """ACK schedules pods by memory, and pods by memory and compute; no pod is both."""
    without = next((a for a in found if not a.core), None)
    with_core = next((a for a in found if a.core), None)
    if without is not None and with_core is not None:
        raise invalid_field(
            *_written(pod, with_core.position, options.core),
            f"container {without.container.name} names memory alone: name {options.core} in all "
            "containers that have cards, or in none.",
        )
