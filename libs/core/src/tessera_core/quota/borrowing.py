"""Guaranteed amounts, lent while they are not used.

Groups of one pool are guaranteed amounts of their own. What a group does not use of it others may
borrow, beyond their own, as far as their hard limit allows. An owner asks for it back by having
pods that wait: what these ask for, within its guarantee, is not lent any more. So borrowers' new
pods wait first; those that run and hold what is asked back are over their quota.

The guarantees of a pool should not add up to more than its cards: a quota reserves no hardware.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tessera_core.fleet import cores
from tessera_schema.cards import MIB
from tessera_schema.quotas import BestEffortLimit, Guaranteed, Limit

AmountsByDimension = Mapping[str, float]
"""Dimension -> amount, of a group or of a whole pool; what is missing is 0. Cores are in the units
of `tessera_core.fleet.cores`."""
MEMORY: Final = "memory"
CORES: Final = "cores"
CARDS: Final = "cards"
_MODEL: Final = "model "
_NOTHING: Final[AmountsByDimension] = {}
Key = tuple[str, str]
"""Namespace and source of a limit."""


def key_of(limit: Limit) -> Key:
    """What distinguishes limits."""
    return limit.namespace, limit.source


def of_model(entry: str) -> str:
    """The dimension of cards of a model."""
    return _MODEL + entry.lower()


def nominal_amounts(guaranteed: Guaranteed) -> dict[str, float]:
    """What is guaranteed, in each dimension that is."""
    percent = guaranteed.cores_percent
    own: dict[str, float | None] = {
        MEMORY: guaranteed.memory_bytes,
        CORES: None if percent is None else cores.milli(percent),
        CARDS: guaranteed.cards,
    }
    models = {of_model(entry): cards for entry, cards in (guaranteed.models or {}).items()}
    return {name: amount for name, amount in (own | models).items() if amount is not None}


def covers(guaranteed: Guaranteed, amounts: AmountsByDimension) -> bool:
    """Whether all of the amounts that are guaranteed are at least this much."""
    return all(amounts.get(name, 0) <= own for name, own in nominal_amounts(guaranteed).items())


class BorrowingPools:
    """Who has borrowed, and what is left to borrow, kept up to date by `put`."""

    def __init__(self, limits: Iterable[Limit] = ()) -> None:
        """Nobody uses anything yet."""
        self._of: dict[Key, Limit] = {}
        self._spare: dict[Key, AmountsByDimension] = {}
        self._borrowed: dict[Key, AmountsByDimension] = {}
        self._totals: dict[str, tuple[AmountsByDimension, AmountsByDimension]] = {}
        for limit in limits:
            if limit.guaranteed is not None:
                self._of[key_of(limit)] = limit
                self.put(limit, _NOTHING, _NOTHING)

    def put(self, limit: Limit, used: AmountsByDimension, asked: AmountsByDimension) -> bool:
        """A group uses this much, and its waiting pods ask for that; True when what others may
        borrow has changed."""
        key, guaranteed = key_of(limit), limit.guaranteed
        if guaranteed is None:
            return False
        own = nominal_amounts(guaranteed)
        spare = {n: max(0, o - used.get(n, 0) - asked.get(n, 0)) for n, o in own.items()}
        borrowed = {n: max(0, used.get(n, 0) - o) for n, o in own.items()}
        if not limit.lends:
            spare = {}
        before = self._spare.get(key, _NOTHING), self._borrowed.get(key, _NOTHING)
        all_spare, all_borrowed = self._totals.get(limit.pool, (_NOTHING, _NOTHING))
        self._totals[limit.pool] = (
            _plus(_plus(all_spare, before[0], -1), spare),
            _plus(_plus(all_borrowed, before[1], -1), borrowed),
        )
        self._spare[key], self._borrowed[key] = spare, borrowed
        return before != (spare, borrowed)

    def effective_limit(self, limit: Limit) -> Limit | None:
        """What the group may use now, as a limit: its own and what the others lend it. None where
        it lends and borrows nothing."""
        guaranteed = limit.guaranteed
        if guaranteed is None:
            return None
        key = key_of(limit)
        spare, borrowed = self._totals[limit.pool]
        lent = _plus(
            _plus(spare, self._spare[key], -1), _plus(borrowed, self._borrowed[key], -1), -1
        )
        # rounded, because the totals of models are kept by adding and taking away
        most = {
            name: round(own + max(0, lent.get(name, 0)), 6)
            for name, own in nominal_amounts(guaranteed).items()
        }
        models = {entry: most[of_model(entry)] for entry in guaranteed.models or {}}
        return Limit(
            namespace=limit.namespace, source=f"{limit.source} ({_text(guaranteed, most)})",
            vendor=limit.vendor, namespaces=limit.namespaces, selector=limit.selector,
            memory_bytes=_whole(most.get(MEMORY)), cores_percent=_percent(most.get(CORES)),
            cards=_whole(most.get(CARDS)), models=models or None, open_models=True,
            best_effort=None if limit.best_effort is None else BestEffortLimit(),
        )  # fmt: skip


def _plus(a: AmountsByDimension, b: AmountsByDimension, sign: int = 1) -> dict[str, float]:
    return {name: a.get(name, 0) + sign * b.get(name, 0) for name in {**a, **b}}


def _percent(units: float | None) -> float | None:
    return None if units is None else cores.percent(int(units))


def _whole(amount: float | None) -> int | None:
    return None if amount is None else int(amount)


def _text(guaranteed: Guaranteed, most: AmountsByDimension) -> str:
    units = {
        MEMORY: (MIB, "MiB of memory"), CORES: (cores.MILLI, "percent of cores"),
        CARDS: (1, "cards"),
        **{of_model(entry): (1, f"cards of model {entry}") for entry in guaranteed.models or {}},
    }  # fmt: skip
    return "; ".join(
        f"{own / units[name][0]:g} {units[name][1]} guaranteed, "
        f"{(most[name] - own) / units[name][0]:g} lent by others"
        for name, own in nominal_amounts(guaranteed).items()
    )
