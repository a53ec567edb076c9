"""What a pod writes: a fraction, MiB, or whole cards, held to the rules of KAI's webhook.

Its scheduler is laxer (a fraction of 1.0 passes there); its webhook comes first.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from tessera_core.dialect_kit import (
    MIB,
    MOST_CARDS,
    Container,
    MemoryUnit,
    Pod,
    Role,
    field_of,
    invalid_field,
    parse_amount,
    roles,
)
from tessera_core.dialects.kai.names import (
    CONTAINER,
    DEVICES,
    FRACTION,
    MEMORY,
    MPS,
    KaiOptions,
)

_NUMBER: Final = re.compile(r"\+?([0-9]{1,18}\.?[0-9]{0,18}|\.[0-9]{1,18})([eE][+-]?[0-9]{1,2})?")
_DIGITS: Final = re.compile(r"\+?[0-9]{1,18}")
_PLACES: Final = 5
"""Digits of a fraction that count: thousandths of a percent."""


class KaiContainerRequest(Struct, frozen=True, kw_only=True):
    """What one container has of each of `count` cards."""

    container: Container
    position: int
    role: Role
    count: int
    fraction: float = 0
    """Of a card's memory; 0 = by `mib`, or whole cards."""
    mib: int = 0

    @property
    def whole(self) -> bool:
        """True for whole cards."""
        return not self.fraction and not self.mib


def has_fraction(pod: Pod) -> bool:
    """Whether the pod's annotations request a part of a card."""
    return FRACTION in pod.metadata.annotations or MEMORY in pod.metadata.annotations


def container_requests(pod: Pod, options: KaiOptions) -> tuple[KaiContainerRequest, ...]:
    """The containers that have cards. Raises InvalidField for what can never run as meant."""
    whole = _whole_cards(pod, options)
    notes = pod.metadata.annotations
    if not has_fraction(pod):
        if DEVICES in notes:
            raise _invalid(
                pod, DEVICES,
                f"says of how many cards a fraction is: add {FRACTION} or {MEMORY}, or leave it "
                "out.",
            )  # fmt: skip
        if notes.get(MPS) == "true":
            raise _invalid(
                pod, MPS, f"goes with a fraction alone: add {FRACTION}, or leave it out."
            )
        _refuse_shares_alone(pod, options)
        return whole
    if whole:
        raise invalid_field(
            field_of(pod, whole[0].position, "limits", options.whole), whole[0].count,
            f"whole cards do not go with {FRACTION} or {MEMORY}: keep one of them.",
        )  # fmt: skip
    position, container, role = _holder(pod)
    count = _devices(pod)
    _refuse_other_shares(pod, options, position, count)
    return (
        KaiContainerRequest(
            container=container, position=position, role=role, count=count,
            fraction=_fraction(pod), mib=_mib(pod),
        ),
    )  # fmt: skip


def _invalid(pod: Pod, key: str, remedy: str) -> Exception:
    return invalid_field(f"metadata.annotations[{key}]", pod.metadata.annotations[key], remedy)


def _whole_cards(pod: Pod, options: KaiOptions) -> tuple[KaiContainerRequest, ...]:
    return tuple(
        KaiContainerRequest(container=container, position=position, role=role, count=count)
        for position, container, role in roles(pod)
        if (count := parse_amount(pod, position, options.whole, hint="It counts whole cards."))
    )


def _holder(pod: Pod) -> tuple[int, Container, Role]:
    """The container that has the fraction; init containers are looked through first, as in KAI."""
    name = pod.metadata.annotations.get(CONTAINER)
    all_roles = roles(pod)
    if name is None:
        return all_roles[len(pod.spec.init_containers)]
    found = next((found for found in all_roles if found[1].name == name), None)
    if found is None:
        names = ", ".join(container.name for _, container, _ in all_roles)
        raise _invalid(pod, CONTAINER, f"the pod has no such container: write one of {names}.")
    return found


def _fraction(pod: Pod) -> float:
    """Rounded to what counts; 0 where there is none."""
    notes = pod.metadata.annotations
    if FRACTION not in notes:
        return 0
    if MEMORY in notes:
        raise _invalid(pod, MEMORY, f"is said by {FRACTION} already: keep one of the two.")
    text = notes[FRACTION]
    fraction = round(float(text), _PLACES) if _NUMBER.fullmatch(text) else 0
    if not 0 < fraction < 1:
        raise _invalid(pod, FRACTION, "write a part of a card above 0 and below 1, such as 0.5; "
                       "whole cards are limits[nvidia.com/gpu].")  # fmt: skip
    return fraction


def _mib(pod: Pod) -> int:
    text = pod.metadata.annotations.get(MEMORY)
    if text is None:
        return 0
    unit = MemoryUnit(MIB)
    number = int(text) if _DIGITS.fullmatch(text) else 0
    if not number:
        raise _invalid(pod, MEMORY, f"write a whole number above 0. {unit.hint(text)}")
    if number > unit.most:
        raise _invalid(pod, MEMORY, unit.too_much(text, number))
    return number


def _devices(pod: Pod) -> int:
    text = pod.metadata.annotations.get(DEVICES, "1")
    number = int(text) if _DIGITS.fullmatch(text) else 0
    if not 1 <= number <= MOST_CARDS:
        raise _invalid(pod, DEVICES, f"write a number of cards from 1 to {MOST_CARDS}.")
    return number


def _refuse_shares_alone(pod: Pod, options: KaiOptions) -> None:
    for position, _, _ in roles(pod):
        if parse_amount(pod, position, options.shares):
            raise invalid_field(
                field_of(pod, position, "limits", options.shares), "",
                f"admission writes it: write the annotation {FRACTION} or {MEMORY} instead.",
            )  # fmt: skip


def _refuse_other_shares(pod: Pod, options: KaiOptions, holder: int, count: int) -> None:
    """What admission wrote must agree with the annotations when it is read again."""
    for position, _, _ in roles(pod):
        amount = parse_amount(pod, position, options.shares)
        if amount and (position != holder or amount != count):
            raise invalid_field(
                field_of(pod, position, "limits", options.shares), amount,
                f"admission writes it: leave it out, the annotation {FRACTION} or {MEMORY} counts.",
            )  # fmt: skip
