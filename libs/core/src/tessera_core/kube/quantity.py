"""Kubernetes quantities, with Go's two ways of reading them as whole numbers.

Source: k8s.io/apimachinery resource.Quantity. `Value()` rounds up; `AsInt64()` refuses what is
not a whole number as written, so `16.0Gi`, `1.5` and `500m` fail it (HAMi reads requests so).
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from typing import Final

from tessera_schema.kube import Quantity

_BINARY: Final = {
    s: 1 << (10 * (i + 1)) for i, s in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
}
_DECIMAL: Final = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9),
    "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18),
}  # fmt: skip
_SHAPE: Final = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))(?P<suffix>[numkMGTPE]|[KMGTPE]i|[eE][+-]?\d{1,3})?",
    re.ASCII,
)
_INT64_MAX: Final = (1 << 63) - 1


class BadQuantity(ValueError):
    """The text is not a quantity, or too large for one; the message says which."""


def _exact(quantity: Quantity) -> tuple[Decimal, bool]:
    """The exact value, and whether the number was written without a fraction point."""
    text = str(quantity)
    match = _SHAPE.fullmatch(text) if len(text) <= 64 else None
    if match is None or isinstance(quantity, bool):
        raise BadQuantity(f"{text[:64]!r} is not a quantity such as 4, 500m or 16Gi")
    number, suffix = match["number"], match["suffix"] or ""
    if suffix in _BINARY:
        value = Decimal(number) * _BINARY[suffix]
    elif suffix in _DECIMAL:
        value = Decimal(number) * _DECIMAL[suffix]
    else:
        value = Decimal(number + suffix)
    if abs(value) > _INT64_MAX:
        raise BadQuantity(f"{text!r} does not fit into 64 bits")
    return value, "." not in number


def quantity_value(quantity: Quantity) -> int:
    """The whole number, rounded up: Go's `Value()`. Raises BadQuantity."""
    if type(quantity) is int and abs(quantity) <= _INT64_MAX:
        return quantity
    return int(_exact(quantity)[0].to_integral_value(ROUND_CEILING))


def quantity_milli(quantity: Quantity) -> int:
    """Thousandths, rounded up: Go's `MilliValue()`. Raises BadQuantity."""
    return int((_exact(quantity)[0] * 1000).to_integral_value(ROUND_CEILING))


def integer_quantity(quantity: Quantity) -> int | None:
    """The number where it is whole as written, else None: Go's `AsInt64()`. Raises BadQuantity."""
    if type(quantity) is int and abs(quantity) <= _INT64_MAX:
        return quantity
    exact, plain = _exact(quantity)
    return int(exact) if plain and exact == exact.to_integral_value() else None


def binary_quantity(amount: int) -> str:
    """Canonical BinarySI text: the largest suffix that divides exactly, else plain digits."""
    for suffix, size in reversed(_BINARY.items()):
        if amount and amount % size == 0:
            return f"{amount // size}{suffix}"
    return str(amount)
