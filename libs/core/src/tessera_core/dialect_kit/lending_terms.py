"""On what terms a container takes part in lending: what its pod's annotations, its dialect and its
variables say. `tessera_core.registry.lending` reads them for the agent and the rebalancer alike.

Each dialect reads its own words (`Dialect.lending_terms`); a container whose dialect has none is
lent all that is idle, has no priority and keeps its limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from tessera_schema.annotation_keys import LENDING_KEY
from tessera_schema.kube import Pod

FULL_PERCENT: Final = 100.0
_NO: Final = "false"
_DIGITS: Final = 9


class WrittenTerms(Struct, frozen=True, kw_only=True):
    """What is written about one container, as far as its reader knows it."""

    pod: Pod
    env: Mapping[str, str] = {}
    """The container's variables, what it is given included."""
    given: Mapping[str, str] = {}
    """Of these, what the scheduler gives: an operator's settings."""
    annotations: Mapping[str, str] = {}
    """The container's own, which a runtime keeps; a pod's are in `pod`."""


class LendingTerms(Struct, frozen=True, kw_only=True):
    """One container's."""

    lends: bool = True
    """False = nothing is lent to it or of it."""
    most_percent: float | None = None
    """Of a card, up to which it may be lent to; at or below what it was granted, nothing is. None =
    nothing is said."""
    unlimited: bool = False
    """It gives its limit of cores up: on cards that it shares with its own namespace alone."""
    unlimited_by_operator: bool = False
    """Its limit of cores was given up for it, on all cards."""
    priority: int | None = None
    """The smaller goes before the larger; None = it goes before nobody, and nobody before it."""

    @property
    def ceiling_percent(self) -> float:
        """Of a card, up to which it may be lent to."""
        return FULL_PERCENT if self.most_percent is None else self.most_percent


def takes_part(annotations: Mapping[str, str]) -> bool:
    """Whether a pod with these annotations takes part in lending."""
    return annotations.get(LENDING_KEY, "").strip().lower() != _NO


def plain_terms(_written: WrittenTerms) -> LendingTerms:
    """Of a dialect that has no words for it."""
    return LendingTerms()


def whole_number(text: str) -> int | None:
    """A number as authors write it: up to nine decimal digits."""
    plain = text.strip()
    known = plain.isascii() and plain.isdecimal() and len(plain) <= _DIGITS
    return int(plain) if known else None
