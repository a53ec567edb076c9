"""Guaranteed amounts, lent while they are not used.

Groups of one pool are guaranteed amounts of their own. What a group does not use of it others may
borrow, beyond their own, as far as their hard limit allows. An owner asks for it back by having
pods that wait: what these ask for, within its guarantee, is not lent any more. So borrowers' new
pods wait first; those that run and hold what is asked back are over their quota.

The guarantees of a pool should not add up to more than its cards: a quota reserves no hardware.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from tessera_schema.cards import MIB
from tessera_schema.quotas import Guaranteed, Limit


class Standing(NamedTuple):
    """One amount for each thing that can be guaranteed; of a group or of a whole pool."""

    memory_bytes: float = 0
    cores_percent: float = 0
    cards: float = 0

    def plus(self, other: Standing, sign: int = 1) -> Standing:
        """The sum, or with sign -1 the difference."""
        return Standing(*(a + sign * b for a, b in zip(self, other, strict=True)))


_FIELDS: Final = Standing._fields
_NOTHING: Final = Standing()
Key = tuple[str, str]
"""Namespace and source of a limit."""


def key_of(limit: Limit) -> Key:
    """What tells limits apart."""
    return limit.namespace, limit.source


def covers(guaranteed: Guaranteed, amounts: Standing) -> bool:
    """Whether all of the amounts that are guaranteed are at least this much."""
    pairs = ((getattr(guaranteed, field), getattr(amounts, field)) for field in _FIELDS)
    return all(own is None or amount <= own for own, amount in pairs)


class Pools:
    """Who has borrowed, and what is left to borrow, kept up to date by `put`."""

    def __init__(self, limits: Iterable[Limit] = ()) -> None:
        """Nobody uses anything yet."""
        self._of: dict[Key, Limit] = {}
        self._spare: dict[Key, Standing] = {}
        self._borrowed: dict[Key, Standing] = {}
        self._totals: dict[str, tuple[Standing, Standing]] = {}
        for limit in limits:
            if limit.guaranteed is not None:
                self._of[key_of(limit)] = limit
                self.put(limit, _NOTHING, _NOTHING)

    def put(self, limit: Limit, used: Standing, asked: Standing) -> bool:
        """A group uses this much, and its waiting pods ask for that; True when what others may
        borrow has changed."""
        key, guaranteed = key_of(limit), limit.guaranteed
        if guaranteed is None:
            return False
        own = Standing(*(getattr(guaranteed, field) or 0 for field in _FIELDS))
        left = (max(0, o - u) for o, u in zip(own, used, strict=True))
        spare = Standing(*(max(0, n - a) for n, a in zip(left, asked, strict=True)))
        borrowed = Standing(*(max(0, u - o) for u, o in zip(used, own, strict=True)))
        if not limit.lends:
            spare = _NOTHING
        before = self._spare.get(key, _NOTHING), self._borrowed.get(key, _NOTHING)
        all_spare, all_borrowed = self._totals.get(limit.pool, (_NOTHING, _NOTHING))
        self._totals[limit.pool] = (
            all_spare.plus(before[0], -1).plus(spare),
            all_borrowed.plus(before[1], -1).plus(borrowed),
        )
        self._spare[key], self._borrowed[key] = spare, borrowed
        return before != (spare, borrowed)

    def ceiling(self, limit: Limit) -> Limit | None:
        """What the group may use now, as a limit: its own and what the others lend it. None where
        it lends and borrows nothing."""
        guaranteed = limit.guaranteed
        if guaranteed is None:
            return None
        key = key_of(limit)
        spare, borrowed = self._totals[limit.pool]
        lent = spare.plus(self._spare[key], -1).plus(borrowed.plus(self._borrowed[key], -1), -1)
        most = Guaranteed(
            memory_bytes=_whole(guaranteed.memory_bytes, lent.memory_bytes),
            cores_percent=_sum(guaranteed.cores_percent, lent.cores_percent),
            cards=_whole(guaranteed.cards, lent.cards),
        )
        return Limit(
            namespace=limit.namespace, source=f"{limit.source} ({_text(guaranteed, most)})",
            vendor=limit.vendor, namespaces=limit.namespaces, memory_bytes=most.memory_bytes,
            cores_percent=most.cores_percent, cards=most.cards,
        )  # fmt: skip


def _whole(own: int | None, lent: float) -> int | None:
    total = _sum(own, lent)
    return None if total is None else int(total)


def _sum(own: float | None, lent: float) -> float | None:
    """Rounded, because the totals are kept by adding and taking away."""
    return None if own is None else round(own + max(0, lent), 6)


def _text(guaranteed: Guaranteed, most: Guaranteed) -> str:
    return "; ".join(
        f"{own / scale:g} {unit} guaranteed, {(total - own) / scale:g} lent by others"
        for own, total, scale, unit in (
            (guaranteed.memory_bytes, most.memory_bytes, MIB, "MiB of memory"),
            (guaranteed.cores_percent, most.cores_percent, 1, "percent of cores"),
            (guaranteed.cards, most.cards, 1, "cards"),
        )
        if own is not None and total is not None
    )
