"""Quantities as the API server sends them back: `0.5` becomes `500m`, `1024Mi` becomes `1Gi`.

The server keeps the family that the text was written in (binary, decimal, exponent) and writes the
number without a fraction, with the largest suffix that leaves it whole. So 24000 comes back as 24k.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Context, Decimal
from typing import Final

from tessera_embedded.apiserver.errors import BadRequest

_SHAPE: Final = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))(?P<suffix>[numkMGTPE]|[KMGTPE]i|[eE][+-]?\d{1,3})?",
    re.ASCII,
)
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = {
    -9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E",
}  # fmt: skip
_POWERS: Final = {suffix: power for power, suffix in _DECIMAL.items()}
_NANO: Final = Decimal("1e-9")
MILLI: Final = Decimal("1e-3")
"""What resources are counted in: finer amounts are rounded up."""
_WIDE: Final = Context(prec=120)
_MOST: Final = Decimal((1 << 63) - 1)


def read(quantity: object) -> tuple[Decimal, str]:
    """The exact value, and its family: `binary`, `decimal` or `exponent`. Raises BadRequest."""
    text = quantity.strip() if isinstance(quantity, str) else _number(quantity)
    match = _SHAPE.fullmatch(text) if len(text) <= 64 else None
    if match is None:
        raise BadRequest(
            f"{text[:64]!r} is not a quantity: quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    number, suffix = Decimal(match["number"]), match["suffix"] or ""
    if suffix.endswith("i"):
        return _bounded(_WIDE.multiply(number, Decimal(1 << 10 * _BINARY.index(suffix)))), "binary"
    if suffix in _POWERS:
        return _bounded(_WIDE.scaleb(number, _POWERS[suffix])), "decimal"
    return _bounded(_WIDE.scaleb(number, int(suffix[1:]))), "exponent"


def _number(quantity: object) -> str:
    if isinstance(quantity, bool) or not isinstance(quantity, int | float):
        return repr(quantity)
    return str(quantity) if isinstance(quantity, int) else format(Decimal(str(quantity)), "f")


def _bounded(value: Decimal) -> Decimal:
    return _rounded(max(min(value, _MOST), -_MOST), _NANO)


def _rounded(value: Decimal, least: Decimal) -> Decimal:
    """The value itself, or the next multiple of `least` above it."""
    if not _WIDE.remainder(value, least):
        return value
    return value.quantize(least, ROUND_CEILING, _WIDE)


def canonical(quantity: object, least: Decimal = _NANO) -> str:
    """The text that the server stores, rounded up to a multiple of `least`. Raises BadRequest."""
    value, family = read(quantity)
    value = _rounded(value, least)
    if not value:
        return "0"
    if family == "binary" and abs(value) >= 1024 and value == value.to_integral_value():
        return _binary(int(value))
    return _decimal(value, exponent=family == "exponent")


def _binary(amount: int) -> str:
    step = 0
    while amount % 1024 == 0 and step + 1 < len(_BINARY):
        amount, step = amount // 1024, step + 1
    return f"{amount}{_BINARY[step]}"


def _decimal(value: Decimal, *, exponent: bool) -> str:
    power = max(p for p in _DECIMAL if not _WIDE.remainder(value, Decimal(1).scaleb(p)))
    number = int(_WIDE.scaleb(value, -power))
    if exponent:
        return f"{number}e{power}" if power else str(number)
    return f"{number}{_DECIMAL[power]}"
