"""What each namespace uses, and whether it may use more: decided in the step that assumes.

Use is counted from the same charges as the cards' own books, so percentages and whole cards
count with what they really take.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tessera_core.charges import Charge
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

    def allowance(self, namespace: str) -> Allowance:
        """What the namespace's next pod is held to."""
        return Allowance(self._limits.get(namespace, ()), self._uses.get(namespace, {}))


class Allowance:
    """The limits that hold for one pod, and what its namespace uses without it."""

    def __init__(self, limits: Sequence[Limit], uses: Uses) -> None:
        """No limits = everything is allowed."""
        self.limits = limits
        self._uses = uses

    def exceeded(self, more: Uses) -> str:
        """Which limit `more` would exceed, in numbers; empty when none."""
        for limit in self.limits:
            used, asked = _within(limit, self._uses), _within(limit, more)
            message = _exceeded(limit, used, asked) or self._models(limit, more)
            if message:
                return message
        return ""

    def _models(self, limit: Limit, more: Uses) -> str:
        for (vendor, model), use in more.items():
            if limit.models is None or limit.vendor not in ("", vendor) or not use.parts:
                continue
            entry = next((m for m in limit.models if m.lower() in model.lower()), None)
            if entry is None:
                return f"{limit.source} allows no cards of model {model or 'unknown'}"
            used = sum(
                u.parts for (v, m), u in self._uses.items()
                if limit.vendor in ("", v) and entry.lower() in m.lower()
            )  # fmt: skip
            if used + use.parts > limit.models[entry] + 1e-9:
                return (
                    f"{limit.source} allows {limit.models[entry]:g} cards of model {entry}, "
                    f"{used:g} are used and {use.parts:g} asked"
                )
        return ""


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
