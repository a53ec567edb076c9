"""Reading a container's amounts for a dialect, with refusals that name field, value and remedy.

The API server accepts only whole, non-negative amounts of extended resources; manifests that
never met one are held to the same here.
"""

from __future__ import annotations

from typing import Final

from tessera_core.dialect_kit.contract import Rejected
from tessera_core.dialect_kit.memory_units import MemoryUnit
from tessera_core.kube.containers import field_of
from tessera_core.kube.quantity import BadQuantity, quantity_milli, quantity_value
from tessera_schema.kube import Pod, Quantity

INT32_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1
LIMITS_THEN_REQUESTS: Final = ("limits", "requests")


class InvalidField(Exception):
    """Carries a Rejected out of nested reading; `tessera_core.admission.admit` turns it into a
    value."""

    def __init__(self, rejected: Rejected) -> None:
        super().__init__(rejected.message)
        self.rejected = rejected


def invalid_field(field: str, value: object, remedy: str) -> InvalidField:
    """An InvalidField from its three parts."""
    return InvalidField(Rejected(field=field, value=str(value), remedy=remedy))


def find_amount(
    pod: Pod, position: int, name: str, where: tuple[str, ...] = LIMITS_THEN_REQUESTS
) -> tuple[str, Quantity] | None:
    """Field and amount of a resource: the first of `where` that has it."""
    resources = pod.container(position).resources
    for kind in where:
        amounts = resources.limits if kind == "limits" else resources.requests
        if name in amounts:
            return field_of(pod, position, kind, name), amounts[name]
    return None


def parse_amount(
    pod: Pod,
    position: int,
    name: str,
    *,
    where: tuple[str, ...] = LIMITS_THEN_REQUESTS,
    high: int = INT32_MAX,
    hint: str = "",
) -> int | None:
    """The whole amount of a resource, None where the container does not name it.

    Raises InvalidField for what is no quantity, negative, fractional or above `high`. `hint`
    says what the unit is. Memory of cards is read with `parse_memory_amount`.
    """
    found = find_amount(pod, position, name, where)
    if found is None:
        return None
    number = _whole(*found, hint)
    if number > high:
        raise invalid_field(*found, f"write at most {high}. {hint}".rstrip())
    return number


def parse_memory_amount(
    pod: Pod,
    position: int,
    name: str,
    unit: MemoryUnit,
    *,
    where: tuple[str, ...] = LIMITS_THEN_REQUESTS,
    cards: int = 1,
) -> int | None:
    """The amount of a resource that counts memory of so many cards together, in its units; None
    where the container does not name it.

    Raises InvalidField for what `parse_amount` refuses, and for more than cards have: it says what
    would do, converted from what was written.
    """
    found = find_amount(pod, position, name, where)
    if found is None:
        return None
    number = _whole(*found, unit.hint(found[1]))
    if number > unit.most * cards:
        raise invalid_field(*found, unit.too_much(found[1], number, cards))
    return number


def _whole(field: str, quantity: Quantity, hint: str) -> int:
    try:
        number = quantity_value(quantity)
        fractional = quantity_milli(quantity) != number * 1000
    except BadQuantity as e:
        raise invalid_field(field, quantity, f"{e}; write a whole number. {hint}".rstrip()) from e
    if fractional:
        raise invalid_field(
            field, quantity, f"write a whole number such as {number}. {hint}".rstrip()
        )
    if number < 0:
        raise invalid_field(field, quantity, f"write 0 or more. {hint}".rstrip())
    return number
