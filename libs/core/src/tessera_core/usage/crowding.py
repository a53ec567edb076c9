"""How crowded cards are: several containers keep one busy, and are in each other's way."""

from __future__ import annotations

from typing import Final, NamedTuple

from tessera_schema.messages.device_reports import NodeUsage

CROWDED_FROM: Final = 90.0
"""Percent of GPU time from which several active containers may be in each other's way; at 100 they
surely are."""
_ACTIVE: Final = 1.0
"""Percent of GPU time from which a container counts as active."""


class CardWork(NamedTuple):
    """What is done on a card, percent of the time."""

    busy_percent: float
    """GPU time of everybody: the driver's view, or the containers' sum where that is more."""
    crowded_percent: float
    """How much of it several containers kept all of it busy."""


def crowded_percent(busy_percent: float) -> float:
    """How crowded a card is on which several containers are active."""
    return clamped((busy_percent - CROWDED_FROM) / (100 - CROWDED_FROM) * 100)


def work_of(usage: NodeUsage) -> dict[str, CardWork]:
    """The work on each card that the report has, by id. Where the report says itself how crowded a
    card was, that counts, if several containers did anything there."""
    busy: dict[str, float] = {}
    said: dict[str, float] = {}
    for load in usage.cards:
        busy[load.card] = clamped(load.cores_percent)
        if load.crowded_percent >= 0:
            said[load.card] = load.crowded_percent
    used: dict[str, float] = {}
    active: dict[str, int] = {}
    for container in usage.containers:
        for use in container.cards:
            card, cores = use.card, clamped(use.cores_percent)
            used[card] = used.get(card, 0.0) + cores
            if cores >= _ACTIVE or (cores > 0 and card in said):
                active[card] = active.get(card, 0) + 1
    for card, cores in used.items():
        busy[card] = max(busy.get(card, 0.0), min(cores, 100.0))
    return {
        card: CardWork(load, _crowded(load, said.get(card)) if active.get(card, 0) > 1 else 0.0)
        for card, load in busy.items()
    }


def clamped(percent: float) -> float:
    """From 0 to 100."""
    return 0.0 if percent < 0 else 100.0 if percent > 100 else percent


def _crowded(busy_percent: float, said: float | None) -> float:
    return crowded_percent(busy_percent) if said is None else clamped(said)
