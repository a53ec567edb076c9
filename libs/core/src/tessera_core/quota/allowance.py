"""What each namespace uses, and whether it may use more: decided in the step that assumes.

Use is counted from the same charges as the cards' own ledger, so percentages and whole cards
count with what they really take.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from tessera_core.fleet import cores
from tessera_core.fleet.arrays import Bools
from tessera_core.fleet.charges import MOST_EQUAL, Charge
from tessera_core.fleet.columns import CardColumns
from tessera_core.fleet.memory_sizes import least_memory
from tessera_core.fleet.name_table import NameTable
from tessera_core.fleet.needs import CardNeeds
from tessera_core.quota.borrowing import Key, key_of
from tessera_core.quota.model_entries import entry_of
from tessera_schema.cards import MIB, Card
from tessera_schema.quotas import BestEffortLimit, Limit
from tessera_schema.requests import PodRequest, Role


class QuotaUsage(Struct, frozen=True, gc=False):
    """Use of one vendor's cards of one model. `parts` are cards, a share counting by the larger
    of its memory and its cores."""

    memory_bytes: int = 0
    cores_milli: int = 0
    """In the units of `tessera_core.fleet.cores`."""
    cards: int = 0
    parts: float = 0
    rest_memory_bytes: int = 0
    """The part of the memory that best-effort pods hold."""
    rest_cards: int = 0
    """The part of the cards."""

    @property
    def cores_percent(self) -> float:
        """Percent, 100 = a card."""
        return cores.percent(self.cores_milli)

    def plus(self, other: QuotaUsage, sign: int = 1) -> QuotaUsage:
        """The sum, or with sign -1 the difference."""
        return QuotaUsage(
            self.memory_bytes + sign * other.memory_bytes,
            self.cores_milli + sign * other.cores_milli,
            self.cards + sign * other.cards,
            self.parts + sign * other.parts,
            self.rest_memory_bytes + sign * other.rest_memory_bytes,
            self.rest_cards + sign * other.rest_cards,
        )


Uses = Mapping[tuple[str, str], QuotaUsage]
"""(vendor, model) -> use."""


def use_of(held: Iterable[tuple[Card, Charge]]) -> Uses:
    """The use that charges on cards amount to. That of one card is one object for all that use as
    much of such a card, and is not changed."""
    every = tuple(held)
    if len(every) == 1:
        ((card, charge),) = every
        return _use_of_one(_kind(card.vendor, card.model), use_on(card, charge))
    uses: dict[tuple[str, str], QuotaUsage] = {}
    for card, charge in every:
        key, use = _kind(card.vendor, card.model), use_on(card, charge)
        uses[key] = uses[key].plus(use) if key in uses else use
    return uses


def use_on(card: Card, charge: Charge) -> QuotaUsage:
    """The use that one pod's charge on a card amounts to; equal ones are one object."""
    return _use(card.memory_bytes, card.cores_percent, charge)


@lru_cache(MOST_EQUAL)
def _use_of_one(kind: tuple[str, str], use: QuotaUsage) -> Uses:
    return {kind: use}


@lru_cache(MOST_EQUAL)
def _kind(vendor: str, model: str) -> tuple[str, str]:
    return vendor, model


@lru_cache(MOST_EQUAL)
def _use(memory_bytes: int, cores_percent: float, charge: Charge) -> QuotaUsage:
    held = charge.memory_bytes + charge.lent_bytes
    memory = held / memory_bytes if memory_bytes else 0
    has = cores.milli(cores_percent)
    part = 1.0 if charge.exclusive else max(memory, charge.cores_milli / has if has else 0)
    rest = charge.best_effort > 0
    return QuotaUsage(
        held, charge.cores_milli, 1, part, held if rest else 0, int(rest),
    )  # fmt: skip


class Allowance:
    """The limits that hold for one pod, and what its namespace uses without it."""

    def __init__(
        self, limits: Sequence[Limit], uses: Uses, together: Mapping[Key, Uses] | None = None
    ) -> None:
        """No limits = everything is allowed. `together` is what the groups of limits over several
        namespaces use."""
        self.limits = limits
        self._uses = uses
        self._together = together or {}

    def used(self, limit: Limit) -> QuotaUsage:
        """What the namespace, or the limit's group of them, uses of what the limit counts."""
        return counted_usage(limit, self._uses_of(limit))

    def narrowed(self, limits: Sequence[Limit]) -> Allowance:
        """The same use, held to these limits alone."""
        return Allowance(limits, self._uses, self._together)

    def with_more(self, namespace: str, more: Mapping[str, Uses]) -> Allowance:
        """The same limits of the namespace, with so much more in use, by namespace."""
        own = _plus(self._uses, more.get(namespace, {}))
        together = dict(self._together)
        for limit in self.limits:
            if key_of(limit) in together:
                for each in limit.group:
                    together[key_of(limit)] = _plus(together[key_of(limit)], more.get(each, {}))
        return Allowance(self.limits, own, together)

    def over(self) -> str:
        """Which limit is exceeded already, in numbers; empty when none."""
        for limit in self.limits:
            message = _exceeded(limit, self.used(limit), None) or self._models_over(limit)
            if message:
                return message
        return ""

    def _uses_of(self, limit: Limit) -> Uses:
        return self._together.get(key_of(limit), self._uses)

    def _models_over(self, limit: Limit) -> str:
        if limit.models is None:
            return ""
        uses = self._uses_of(limit)
        return self._denied(limit, limit.models, uses) or next(
            (
                f"{limit.source} allows {allowed:g} cards of model {entry}, {used:g} are used"
                for entry, allowed in limit.models.items()
                if (used := self._parts(limit, entry, uses)) > allowed + 1e-9
            ),
            "",
        )

    def _denied(self, limit: Limit, models: Mapping[str, float], uses: Uses) -> str:
        if limit.open_models:
            return ""
        for (vendor, model), use in uses.items():
            if limit.vendor in ("", vendor) and use.parts and entry_of(models, model) is None:
                return f"{limit.source} allows no cards of model {model or 'unknown'}"
        return ""

    def exceeded(self, more: Uses) -> str:
        """Which limit `more` would exceed, in numbers; empty when none."""
        for limit in self.limits:
            used, asked = self.used(limit), counted_usage(limit, more)
            message = _exceeded(limit, used, asked) or self._models(limit, more)
            if message:
                return message
        return ""

    def outside(self, card: Card) -> str:
        """Which limit lies the card outside of, whatever is used; empty when none."""
        for limit in self.limits:
            if limit.node_pools and limit.vendor in ("", card.vendor):
                pool = pool_of(card)
                if pool not in limit.node_pools:
                    return (
                        f"{limit.source} allows node pools {', '.join(limit.node_pools)}, "
                        f"the node is in {pool or 'none'}"
                    )
        return ""

    def outside_pools(self, vendor: str, pools: NameTable) -> Bools | None:
        """The pools that some limit does not allow, by number; None when all are allowed."""
        allowed = [
            set(limit.node_pools) for limit in self.limits
            if limit.node_pools and limit.vendor in ("", vendor)
        ]  # fmt: skip
        if not allowed:
            return None
        return np.array([any(pool not in each for each in allowed) for pool in pools.of], np.bool_)

    def bars(
        self, vendor: str, need: CardNeeds, cards: CardColumns, models: NameTable
    ) -> Bools | None:
        """The cards that would exceed a limit all by themselves; None when no limit bars any.

        For the screen over many cards: what a pod's other containers use is not counted.
        """
        barred: Bools | None = None
        for limit in self.limits:
            if limit.vendor in ("", vendor):
                used = self.used(limit)
                bars = np.zeros_like(cards.memory_total, np.bool_)
                most, memory = limit.memory_bytes, used.memory_bytes
                if need.best_effort and limit.best_effort is not None:
                    most, memory = limit.best_effort.memory_bytes, used.rest_memory_bytes
                if most is not None:
                    bars |= memory + need.share_memory > most
                if limit.cores_percent is not None:
                    bars |= used.cores_milli + need.cores > cores.milli(limit.cores_percent)
                if limit.models is not None:
                    left = [self._left(limit, limit.models, name) for name in models.of]
                    bars |= (np.array(left) <= 0)[cards.model]
                barred = bars if barred is None else barred | bars
        return barred

    def _left(self, limit: Limit, models: Mapping[str, float], model: str) -> float:
        entry = entry_of(models, model)
        if entry is None:
            return math.inf if limit.open_models else 0
        return models[entry] - self._parts(limit, entry, self._uses_of(limit))

    def _parts(self, limit: Limit, entry: str, uses: Uses) -> float:
        return sum(
            use.parts for (vendor, model), use in uses.items()
            if limit.vendor in ("", vendor) and entry_of(limit.models or {}, model) == entry
        )  # fmt: skip

    def _models(self, limit: Limit, more: Uses) -> str:
        if limit.models is None:
            return ""
        denied = self._denied(limit, limit.models, more)
        if denied:
            return denied
        for entry, allowed in limit.models.items():
            used = self._parts(limit, entry, self._uses_of(limit))
            asked = self._parts(limit, entry, more)
            if asked and used + asked > allowed + 1e-9:
                return (
                    f"{limit.source} allows {allowed:g} cards of model {entry}, "
                    f"{used:g} are used and {asked:g} asked"
                )
        return ""


NO_LIMITS: Final = Allowance((), {})


def _plus(uses: Uses, more: Uses) -> Uses:
    total = dict(uses)
    for key, use in more.items():
        total[key] = total[key].plus(use) if key in total else use
    return total


def pool_of(card: Card) -> str:
    """The pool of the card's node; empty = none."""
    return card.siting.pool if card.siting else ""


def counted_usage(limit: Limit, uses: Uses) -> QuotaUsage:
    """The part of these uses that the limit counts. What it counts apart of best-effort pods is in
    that part alone."""
    total = QuotaUsage()
    for (vendor, _), use in uses.items():
        if limit.vendor in ("", vendor):
            total = total.plus(use)
    return without_rest(limit, total)


def without_rest(limit: Limit, use: QuotaUsage) -> QuotaUsage:
    """The use without memory and cards that the limit counts apart."""
    if limit.best_effort is None:
        return use
    memory, count = use.memory_bytes - use.rest_memory_bytes, use.cards - use.rest_cards
    return replace(use, memory_bytes=memory, cards=count)


def _exceeded(limit: Limit, used: QuotaUsage, asked: QuotaUsage | None) -> str:
    """What `asked` would exceed, or, with None, what is exceeded already."""
    rest = limit.best_effort or BestEffortLimit()
    for allowed, have, more, scale, unit in (
        (limit.memory_bytes, used.memory_bytes, asked and asked.memory_bytes, MIB, "MiB of memory"),
        (_milli(limit.cores_percent), used.cores_milli, asked and asked.cores_milli, cores.MILLI,
         "percent of cores"),
        (limit.cards, used.cards, asked and asked.cards, 1, "cards"),
        (rest.memory_bytes, used.rest_memory_bytes, asked and asked.rest_memory_bytes, MIB,
         "MiB of memory of best-effort pods"),
        (rest.cards, used.rest_cards, asked and asked.rest_cards, 1, "cards of best-effort pods"),
    ):  # fmt: skip
        if allowed is None or more == 0 or have + (more or 0) <= allowed:
            continue
        tail = f" and {more / scale:g} asked" if more else ""
        return f"{limit.source} allows {allowed / scale:g} {unit}, {have / scale:g} are used{tail}"
    return ""


def _milli(percent: float | None) -> int | None:
    return None if percent is None else cores.milli(percent)


def minimum_usage(pod: PodRequest) -> dict[tuple[str, str], QuotaUsage]:
    """What the pod uses at the very least, on whatever cards: amounts asked as percentages, and
    parts of cards, are not known before a card is. Where it names one model that is the model."""
    total: dict[tuple[str, str], QuotaUsage] = {}
    for vendor in {r.vendor for c in pod.containers for r in c.requests}:
        running = highest = QuotaUsage()
        for container in pod.containers:
            for r in (r for r in container.requests if r.vendor == vendor):
                each = QuotaUsage(least_memory(r), cores.least_milli(r))
                both = running.plus(
                    QuotaUsage(r.count * each.memory_bytes, r.count * each.cores_milli)
                )
                highest = QuotaUsage(
                    max(highest.memory_bytes, both.memory_bytes),
                    max(highest.cores_milli, both.cores_milli),
                )
                running = running if container.role is Role.INIT else both
        cards = max(r.count for c in pod.containers for r in c.requests if r.vendor == vendor)
        rest = any(r.best_effort for c in pod.containers for r in c.requests)
        total[vendor, _model(pod, vendor)] = replace(
            highest, cards=cards, rest_cards=cards if rest else 0,
            rest_memory_bytes=highest.memory_bytes if rest else 0,
        )  # fmt: skip
    return total


def _model(pod: PodRequest, vendor: str) -> str:
    """The one model that all of the pod's requests of the vendor name; empty = another number."""
    named = {r.models for c in pod.containers for r in c.requests if r.vendor == vendor}
    models = named.pop() if len(named) == 1 else ()
    return models[0] if len(models) == 1 else ""
