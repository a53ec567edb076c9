"""What must be placed as one: a container's request, or all requests that share one card.

One vendor lets one card serve all containers of a pod, Volcano's gpu-memory counts per pod: such
requests (`together`) are sized jointly, by the rule of `tessera_core.fleet.charges`, so that a card
is never chosen which holds only the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from tessera_core.fleet.arrays import Bools
from tessera_core.fleet.columns import CardColumns
from tessera_core.fleet.name_table import NameTable
from tessera_core.fleet.needs import CardNeeds
from tessera_core.placement.predicates import amounts
from tessera_schema.requests import ContainerRequest, PodRequest, Request, Role


class Part(Struct, frozen=True):
    """One container's request."""

    container: ContainerRequest
    request: Request


class PlacementUnit(Struct, frozen=True):
    """Requests that get the same cards; most often just one."""

    parts: tuple[Part, ...]

    @property
    def lead(self) -> Request:
        """Whose constraints and policy count: parts of one unit come from one dialect and pod."""
        return self.parts[0].request

    def need(self, cards: CardColumns, models: NameTable) -> CardNeeds:
        """What the unit needs of each card at its busiest. `models` are the names behind
        `cards.model`."""
        if len(self.parts) == 1:
            return amounts(self.lead, cards, models)
        return _peak(self._each(cards, models))

    def stays(self, cards: CardColumns, models: NameTable) -> CardNeeds:
        """What of it runs together with the app containers."""
        total = _NOTHING
        for role, need in self._each(cards, models):
            if role is not Role.INIT:
                total = _plus(total, need)
        return total

    def _each(self, cards: CardColumns, models: NameTable) -> list[tuple[Role, CardNeeds]]:
        return [(p.container.role, amounts(p.request, cards, models)) for p in self.parts]


def units(pod: PodRequest) -> tuple[PlacementUnit, ...]:
    """The pod's units, in order of their first container."""
    found: dict[tuple[str, str, int], list[Part]] = {}
    for container in pod.containers:
        for n, request in enumerate(container.requests):
            key = (request.vendor, request.dialect, -1)
            if not request.together:
                key = (str(container.position), request.vendor, n)
            found.setdefault(key, []).append(Part(container, request))
    return tuple(PlacementUnit(tuple(parts)) for parts in found.values())


_NOTHING: Final = CardNeeds(memory=0, cores=0, alone=False, slots=0)


def _peak(each: Sequence[tuple[Role, CardNeeds]]) -> CardNeeds:
    """The most that runs at one time, the containers being in spec order."""
    running = highest = _NOTHING
    for role, need in each:
        both = _plus(running, need)
        highest = _larger(highest, both)
        if role is not Role.INIT:
            running = both
    return highest


def _plus(a: CardNeeds, b: CardNeeds) -> CardNeeds:
    return CardNeeds(
        a.memory + b.memory, a.cores + b.cores, np.logical_or(a.alone, b.alone), a.slots + b.slots,
        unfit=_either(a.unfit, b.unfit), best_effort=a.best_effort or b.best_effort,
        granted=a.share_memory + b.share_memory,
    )  # fmt: skip


def _larger(a: CardNeeds, b: CardNeeds) -> CardNeeds:
    return CardNeeds(
        np.maximum(a.memory, b.memory),
        np.maximum(a.cores, b.cores),
        np.logical_or(a.alone, b.alone),
        max(a.slots, b.slots),
        unfit=_either(a.unfit, b.unfit),
        best_effort=a.best_effort or b.best_effort,
        granted=np.maximum(a.share_memory, b.share_memory),
    )


def _either(*unfit: Bools | bool) -> Bools | bool:
    """Two of `CardNeeds.unfit` together. False stays False itself: nobody asks for sizes then."""
    first, second = unfit
    return False if first is False and second is False else np.logical_or(first, second)
