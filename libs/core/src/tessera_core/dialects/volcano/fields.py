"""Where an amount may stand: Kubernetes wants requests of extended resources to equal limits."""

from __future__ import annotations

from tessera_core.dialect_kit import (
    INT32_MAX,
    BadQuantity,
    Container,
    Pod,
    Quantity,
    find_amount,
    invalid_field,
    quantity_milli,
    quantity_value,
)


def first_field(pod: Pod, position: int, names: tuple[str, ...]) -> str:
    """The first of the names that a container has, as messages print it; else empty."""
    found = (find_amount(pod, position, name) for name in names)
    return next((f[0] for f in found if f), "")


def limit_of(container: Container, name: str) -> int:
    """The limit as Volcano reads it of a pod that already runs: rounded up, and 0 where it is no
    amount. For new pods read it with `tessera_core.dialect_kit.amounts.parse_amount`, which
    refuses."""
    try:
        return min(max(quantity_value(container.resources.limits.get(name, 0)), 0), INT32_MAX)
    except BadQuantity:
        return 0


def refuse_request_alone(pod: Pod, position: int, name: str) -> None:
    """Raises InvalidField where requests name a resource that Volcano reads from limits only."""
    found = find_amount(pod, position, name, ("requests",))
    if found is not None and find_amount(pod, position, name, ("limits",)) is None:
        raise invalid_field(
            *found, "write it under limits; Kubernetes refuses it in requests alone."
        )


def refuse_unequal(pod: Pod, position: int, names: tuple[str, ...]) -> None:
    """Raises InvalidField where a request differs from the limit next to it."""
    for name in names:
        limit = find_amount(pod, position, name, ("limits",))
        request = find_amount(pod, position, name, ("requests",))
        if limit and request and not _equal(limit[1], request[1]):
            raise invalid_field(
                *request, f"must equal the limit {limit[1]}; write the same in both."
            )


def _equal(one: Quantity, other: Quantity) -> bool:
    try:
        return quantity_milli(one) == quantity_milli(other)
    except BadQuantity:
        return str(one) == str(other)
