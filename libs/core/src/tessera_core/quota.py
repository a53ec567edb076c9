"""What each namespace uses, and whether it may use more: decided in the step that assumes.

Use is counted from the same charges as the cards' own books, so percentages and whole cards
count with what they really take.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from tessera_core.cards import Bools, Cards
from tessera_core.charges import Charge
from tessera_core.fleet import Names
from tessera_core.ladder import Amounts
from tessera_schema.cards import MIB, Card
from tessera_schema.quotas import Limit
from tessera_schema.requests import PodRequest, Role


class Use(NamedTuple):
    """Use of one vendor's cards of one model. `parts` are cards, a tile counting by the larger
    of its memory and its cores."""

    memory_bytes: int = 0
    cores_percent: float = 0
    cards: int = 0
    parts: float = 0

    def plus(self, other: Use, sign: int = 1) -> Use:
        """The sum, or with sign -1 the difference."""
        return Use(
            self.memory_bytes + sign * other.memory_bytes,
            self.cores_percent + sign * other.cores_percent,
            self.cards + sign * other.cards,
            self.parts + sign * other.parts,
        )


Uses = Mapping[tuple[str, str], Use]
"""(vendor, model) -> use."""


def use_of(held: Iterable[tuple[Card, Charge]]) -> dict[tuple[str, str], Use]:
    """The use that charges on cards amount to."""
    uses: dict[tuple[str, str], Use] = {}
    for card, charge in held:
        memory = charge.memory_bytes / card.memory_bytes if card.memory_bytes else 0
        cores = charge.cores_percent / card.cores_percent if card.cores_percent else 0
        part = 1.0 if charge.exclusive else max(memory, cores)
        key = (card.vendor, card.model)
        use = Use(charge.memory_bytes, charge.cores_percent, 1, part)
        uses[key] = uses.get(key, Use()).plus(use)
    return uses


class QuotaBook:
    """Limits and use of every namespace."""

    def __init__(self) -> None:
        """Nothing is limited."""
        self._limits: dict[str, list[Limit]] = {}
        self._uses: dict[str, dict[tuple[str, str], Use]] = {}

    def set_limits(self, limits: Iterable[Limit]) -> None:
        """Replace all limits."""
        self._limits = {}
        for limit in limits:
            self._limits.setdefault(limit.namespace, []).append(limit)

    def count(self, namespace: str, uses: Uses, sign: int = 1) -> None:
        """Add use, or with sign -1 take it back."""
        book = self._uses.setdefault(namespace, {})
        for key, use in uses.items():
            book[key] = book.get(key, Use()).plus(use, sign)
            if not book[key].cards:
                del book[key]
        if not book:
            del self._uses[namespace]

    def allowance(self, namespace: str) -> Allowance:
        """What the namespace's next pod is held to."""
        limits = self._limits.get(namespace, ())
        return Allowance(limits, dict(self._uses.get(namespace, {})) if limits else {})


class Allowance:
    """The limits that hold for one pod, and what its namespace uses without it."""

    def __init__(self, limits: Sequence[Limit], uses: Uses) -> None:
        """No limits = everything is allowed."""
        self.limits = limits
        self._uses = uses

    def used(self, limit: Limit) -> Use:
        """What the namespace uses of what the limit counts."""
        return _within(limit, self._uses)

    def exceeded(self, more: Uses) -> str:
        """Which limit `more` would exceed, in numbers; empty when none."""
        for limit in self.limits:
            used, asked = _within(limit, self._uses), _within(limit, more)
            message = _exceeded(limit, used, asked) or self._models(limit, more)
            if message:
                return message
        return ""

    def bars(self, vendor: str, need: Amounts, cards: Cards, models: Names) -> Bools | None:
        """The cards that would exceed a limit all by themselves; None when no limit bars any.

        For the screen over many cards: what a pod's other containers use is not counted.
        """
        barred: Bools | None = None
        for limit in self.limits:
            if limit.vendor in ("", vendor):
                used = _within(limit, self._uses)
                bars = np.zeros_like(cards.memory_total, np.bool_)
                if limit.memory_bytes is not None:
                    bars |= used.memory_bytes + need.memory > limit.memory_bytes
                if limit.cores_percent is not None:
                    bars |= used.cores_percent + need.cores > limit.cores_percent
                if limit.models is not None:
                    left = [self._left(limit, limit.models, name) for name in models.of]
                    bars |= (np.array(left) <= 0)[cards.model]
                barred = bars if barred is None else barred | bars
        return barred

    def _left(self, limit: Limit, models: Mapping[str, float], model: str) -> float:
        entry = _entry(models, model)
        return 0 if entry is None else models[entry] - self._parts(limit, entry, self._uses)

    def _parts(self, limit: Limit, entry: str, uses: Uses) -> float:
        return sum(
            use.parts for (vendor, model), use in uses.items()
            if limit.vendor in ("", vendor) and _entry(limit.models or {}, model) == entry
        )  # fmt: skip

    def _models(self, limit: Limit, more: Uses) -> str:
        if limit.models is None:
            return ""
        for (vendor, model), use in more.items():
            if limit.vendor in ("", vendor) and use.parts and _entry(limit.models, model) is None:
                return f"{limit.source} allows no cards of model {model or 'unknown'}"
        for entry, allowed in limit.models.items():
            used, asked = self._parts(limit, entry, self._uses), self._parts(limit, entry, more)
            if asked and used + asked > allowed + 1e-9:
                return (
                    f"{limit.source} allows {allowed:g} cards of model {entry}, "
                    f"{used:g} are used and {asked:g} asked"
                )
        return ""


NO_LIMITS: Final = Allowance((), {})


def _entry(models: Mapping[str, float], model: str) -> str | None:
    """The first entry that the model's name contains."""
    return next((entry for entry in models if entry.lower() in model.lower()), None)


def _within(limit: Limit, uses: Uses) -> Use:
    total = Use()
    for (vendor, _), use in uses.items():
        if limit.vendor in ("", vendor):
            total = total.plus(use)
    return total


def _exceeded(limit: Limit, used: Use, asked: Use) -> str:
    for allowed, have, more, scale, unit in (
        (limit.memory_bytes, used.memory_bytes, asked.memory_bytes, MIB, "MiB of memory"),
        (limit.cores_percent, used.cores_percent, asked.cores_percent, 1, "percent of cores"),
        (limit.cards, used.cards, asked.cards, 1, "cards"),
    ):
        if allowed is not None and more and have + more > allowed:
            return (
                f"{limit.source} allows {allowed / scale:g} {unit}, "
                f"{have / scale:g} are used and {more / scale:g} asked"
            )
    return ""


def least_use(pod: PodRequest) -> dict[tuple[str, str], Use]:
    """What the pod uses at the very least, on whatever cards: amounts asked as percentages, and
    parts of cards, are not known before a card is."""
    total: dict[tuple[str, str], Use] = {}
    for vendor in {r.vendor for c in pod.containers for r in c.requests}:
        running = highest = Use()
        for container in pod.containers:
            for r in (r for r in container.requests if r.vendor == vendor):
                both = running.plus(Use(r.count * r.memory_bytes, r.count * r.cores_percent, 0))
                highest = Use(
                    max(highest.memory_bytes, both.memory_bytes),
                    max(highest.cores_percent, both.cores_percent),
                )
                running = running if container.role is Role.INIT else both
        cards = max(r.count for c in pod.containers for r in c.requests if r.vendor == vendor)
        total[vendor, ""] = highest._replace(cards=cards)
    return total
