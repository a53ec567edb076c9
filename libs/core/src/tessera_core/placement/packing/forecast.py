"""What is to be expected from the past: what room is worth, and what is scarce.

Learned seldom and in the background: it takes up to some seconds. Everything is in cards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct

from tessera_core.fleet.arrays import Floats, Ints
from tessera_core.placement.packing.card_values import ValueTable, table
from tessera_core.placement.packing.demand import CardKinds, Demand, DemandShape, cards_requested
from tessera_core.placement.packing.host_shortage import is_short
from tessera_core.placement.packing.scarce_hosts import ScarceHosts, scarce_hosts


class Forecast(Struct, frozen=True, eq=False):
    """What `tessera_core.placement.packing.potential` needs to know in addition to the nodes
    themselves."""

    kinds: CardKinds
    tables: tuple[ValueTable, ...]
    """One per kind."""
    value: Floats
    """All tables, one after the other; the first entry is kind 0's only one."""
    base: Ints
    """(kinds,): where the kind's table starts."""
    stride: Ints
    """(kinds, axes): of the kind's table."""
    per_cell: Floats
    """(kinds, axes): cells per unit."""
    top: Ints
    """(kinds, axes): last cell."""
    parts: Floats
    """(kinds, amounts): how much of a card each amount is, by what is asked of it; 1 in sum."""
    per_unit: Floats
    """(kinds, amounts): the part of a card that one unit is, by `parts`."""
    scarcity: Floats
    """(kinds,): cards asked by shapes that are confined to few kinds, per card of those kinds."""
    confined: ScarceHosts
    """The same for shapes that only some hosts can hold."""
    cpu_per_card: float
    """Asked of the host by pods with cards, per card; infinite when not known, and then each
    node's own ratio counts."""
    memory_per_card: float
    many: float
    """The part of all cards asked for that pods of `MANY` cards or more ask for."""
    whole: bool
    """Pods ask for whole cards, or nothing is known of what they ask for."""
    short: bool
    """Hosts are short of processor (`tessera_core.placement.packing.host_shortage`)."""


MANY: Final = 4
"""Cards from which on a pod is one of many cards."""


def learn(kinds: CardKinds, past: Demand, seed: int = 0) -> Forecast:
    """The forecast. Equal arguments give an equal forecast: `seed` draws the demands over which
    values are averaged."""
    parts = _parts(kinds, past)
    asked = np.array([n * cards_requested(a, kinds, parts) for a, n in past.asks])
    total = float(asked.sum())
    many = sum(c for c, (a, _) in zip(asked.tolist(), past.asks, strict=True) if a.count >= MANY)
    expected = _Expected(
        parts=parts,
        scarcity=_scarcity(kinds, past, asked),
        confined=scarce_hosts(kinds, _scaled(kinds, past, asked)),
        cpu_per_card=past.cpu / total if past.cpu and total else np.inf,
        memory_per_card=past.memory / total if past.memory and total else np.inf,
        many=many / total if total else 0,
        whole=not total or any(_takes_whole_cards(ask, kinds) for ask, _ in past.asks),
        short=is_short(kinds, past, past.cpu / total if total else 0),
    )
    return _assembled(kinds, _tables(kinds, past, seed), expected)


def extended(forecast: Forecast, kinds: CardKinds) -> Forecast:
    """The forecast with the kinds that came since it was learned, of which nothing is expected but
    the default."""
    fresh, known = learn(kinds, Demand()), len(forecast.kinds)
    expected = _Expected(
        parts=np.concatenate([forecast.parts, fresh.parts[known:]]),
        scarcity=np.concatenate([forecast.scarcity, fresh.scarcity[known:]]),
        confined=forecast.confined.among(len(kinds)),
        cpu_per_card=forecast.cpu_per_card,
        memory_per_card=forecast.memory_per_card,
        many=forecast.many,
        whole=forecast.whole,
        short=forecast.short,
    )
    return _assembled(kinds, [*forecast.tables, *fresh.tables[known:]], expected)


class _Expected(NamedTuple):
    """The fields of a forecast that are not derived from tables."""

    parts: Floats
    scarcity: Floats
    confined: ScarceHosts
    cpu_per_card: float
    memory_per_card: float
    many: float
    whole: bool
    short: bool


def _assembled(kinds: CardKinds, tables: Sequence[ValueTable], expected: _Expected) -> Forecast:
    return Forecast(
        kinds=kinds,
        tables=tuple(tables),
        value=np.concatenate([t.value.ravel() for t in tables]),
        base=np.cumsum([0, *(t.value.size for t in tables)])[:-1],
        stride=np.array([_strides(t) for t in tables]),
        per_cell=np.array([t.cells / n for t, n in zip(tables, kinds.totals, strict=True)]),
        top=np.array([t.top for t in tables]),
        per_unit=_per_unit(kinds, expected.parts),
        **expected._asdict(),
    )


def _per_unit(kinds: CardKinds, parts: Floats) -> Floats:
    per_unit: Floats = parts / kinds.totals[:, : kinds.amounts]
    per_unit[0] = 0
    return per_unit


def _strides(t: ValueTable) -> list[int]:
    return [int(np.prod(t.value.shape[axis + 1 :])) for axis in range(t.value.ndim)]


def _shares(kinds: CardKinds, past: Demand, kind: int) -> list[tuple[Ints, float]]:
    """What shares of the kind's vendor would take of such a card, wherever they may go, and how
    often."""
    return [
        (ask.need[kind], count * ask.count)
        for ask, count in past.asks
        if ask.vendor == kinds.vendor[kind]
        and ask.count
        and not ask.alone[kind]
        and ask.need[kind].any()
        and (ask.need[kind] <= kinds.totals[kind]).all()
    ]


def _tables(kinds: CardKinds, past: Demand, seed: int) -> list[ValueTable]:
    """One per kind; kinds that differ only in name have the same. What is drawn for one kind does
    not depend on which others there are."""
    axes = kinds.totals.shape[1]
    nothing = ValueTable(np.zeros((1,) * axes), np.zeros(axes, np.int64))
    found: dict[tuple[int, ...], ValueTable] = {}
    tables = [nothing]
    for kind in range(1, len(kinds)):
        key = (int(kinds.vendor[kind]), *kinds.totals[kind].tolist())
        if key not in found:
            shares = _shares(kinds, past, kind)
            sizes = np.array([need for need, _ in shares], np.int64).reshape(-1, axes)
            counts = np.array([count for _, count in shares])
            rng = np.random.default_rng(seed)
            found[key] = table(kinds.totals[kind], sizes, counts, kinds.amounts, rng)
        tables.append(found[key])
    return tables


def _parts(kinds: CardKinds, past: Demand) -> Floats:
    parts = np.full((len(kinds), kinds.amounts), 1 / kinds.amounts)
    for kind in range(1, len(kinds)):
        asked = np.zeros(kinds.amounts)
        for need, count in _shares(kinds, past, kind):
            asked += count * need[: kinds.amounts] / kinds.totals[kind, : kinds.amounts]
        if asked.any():
            parts[kind] = asked / asked.sum()
    return parts


def _takes_whole_cards(ask: DemandShape, kinds: CardKinds) -> bool:
    all_of_it = (ask.need >= kinds.totals)[:, : kinds.amounts].all(1)
    return bool(ask.count and ((ask.alone | all_of_it) & ask.allowed).any())


def _scarcity(kinds: CardKinds, past: Demand, asked: Floats) -> Floats:
    scarcity = np.zeros(len(kinds))
    for ask, cards in _scaled(kinds, past, asked):
        own = kinds.vendor == ask.vendor
        own[0] = False
        if not ask.allowed[own].all():
            scarcity[ask.allowed] += cards / kinds.cards[ask.allowed].sum()
    return scarcity


def _scaled(kinds: CardKinds, past: Demand, asked: Floats) -> list[tuple[DemandShape, float]]:
    """Each shape with the cards that it asks for, when its vendor's cards are all asked for."""
    found = []
    for vendor in np.unique(kinds.vendor[1:]):
        own = kinds.vendor == vendor
        own[0] = False
        mine = [(a, n) for (a, _), n in zip(past.asks, asked.tolist(), strict=True) if _of(a, own)]
        total = sum(n for _, n in mine)
        scale = float(kinds.cards[own].sum()) / total if total else 0
        found += [(ask, cards * scale) for ask, cards in mine]
    return found


def _of(ask: DemandShape, own: Floats) -> bool:
    return bool(ask.count and ask.allowed[own].any())
