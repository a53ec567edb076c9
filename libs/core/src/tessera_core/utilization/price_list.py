"""What an hour of a card costs, by its model.

    currency: EUR
    cards:
      A100-SXM4-80GB: 2.60
      A100: 1.90
      "*": 1.00

A key is a part of the model's name, in any case; of several that fit the longest counts, and `*` is
every other card.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

_EVERY: Final = "*"
_CURRENCY: Final = re.compile(r"[A-Za-z]{3}|[^\w\s]{1,3}").fullmatch
_MOST_PRICE: Final = 1_000_000


class BadPriceList(ValueError):
    """A price list that makes no sense; the message names field, value and remedy."""


class PriceList(Struct, frozen=True, kw_only=True):
    """Prices of cards."""

    currency: str
    cards: Mapping[str, float]
    """Part of a model's name -> price of one card for one hour."""

    def price_of(self, model: str) -> float | None:
        """Of one card for one hour; None where the list has none for it."""
        fits = [key for key in self.cards if key != _EVERY and key.lower() in model.lower()]
        if model and fits:
            return self.cards[max(fits, key=len)]
        return self.cards.get(_EVERY)


def read_price_list(written: Any) -> PriceList:
    """The list from what its YAML or JSON says. Raises BadPriceList."""
    if not isinstance(written, dict):
        raise _bad("file", written, "write a mapping with the keys currency and cards")
    unknown = next((key for key in written if key not in ("currency", "cards")), None)
    if unknown is not None:
        raise _bad(str(unknown), written[unknown], "unknown key: write currency and cards")
    currency, cards = written.get("currency"), written.get("cards")
    if not isinstance(currency, str) or not _CURRENCY(currency):
        raise _bad("currency", currency, "write a code of three letters, such as EUR")
    if not isinstance(cards, dict) or not cards:
        raise _bad("cards", cards, "write a mapping: part of a card's model, and its price an hour")
    return PriceList(
        currency=currency, cards={str(key): _price(key, value) for key, value in cards.items()}
    )


def _price(key: Any, value: Any) -> float:
    field = f"cards[{key}]"
    if not isinstance(key, str) or not key.strip():
        raise _bad(field, value, "write a part of the card's model before the price, such as A100")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _bad(field, value, "write the price of one card for one hour as a number, 2.60")
    if not 0 <= value <= _MOST_PRICE:
        raise _bad(field, value, f"write a price an hour from 0 to {_MOST_PRICE}")
    return float(value)


def _bad(field: str, value: Any, remedy: str) -> BadPriceList:
    return BadPriceList(f"{field}: {str(value)[:80]!r}: {remedy}")
