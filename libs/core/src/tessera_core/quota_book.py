"""Limits, use and waiting pods of every namespace, kept in step with what they lend.

Limits, counts and asks may come in any order: the outcome is the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tessera_core.lending import Key, Pools, Standing, covers, key_of
from tessera_core.quota import Allowance, Use, Uses, within
from tessera_schema.quotas import Limit


class _Ask(NamedTuple):
    namespace: str
    uses: Uses


class QuotaBook:
    """Limits and use of every namespace, and what waiting pods ask of guaranteed amounts."""

    def __init__(self) -> None:
        """Nothing is limited."""
        self._limits: dict[str, list[Limit]] = {}
        self._pools = Pools()
        self._uses: dict[str, dict[tuple[str, str], Use]] = {}
        self._asks: dict[str, _Ask] = {}
        self._asked: dict[str, dict[tuple[str, str], Use]] = {}

    def set_limits(self, limits: Iterable[Limit]) -> None:
        """Replace all limits."""
        limits = list(limits)
        self._limits, self._pools = {}, Pools(limits)
        for limit in limits:
            for namespace in limit.group:
                self._limits.setdefault(namespace, []).append(limit)
        self._asked = {}
        for ask in self._asks.values():
            self._count_ask(ask, 1)
        for namespace in self._limits:
            self._lend(namespace)

    def count(self, namespace: str, uses: Uses, sign: int = 1) -> None:
        """Add use, or with sign -1 take it back."""
        _count(self._uses, namespace, uses, sign)
        self._lend(namespace)

    def ask(self, uid: str, namespace: str, uses: Uses) -> bool:
        """A waiting pod asks for this much; True when it changes what others may borrow.

        More than a guarantee holds was never lent, so such a pod asks nothing back.
        """
        if not uses:
            return self.ask_no_more(uid)
        ask, before = _Ask(namespace, uses), self._asks.get(uid)
        if ask == before:
            return False
        changed = self.ask_no_more(uid)
        self._asks[uid] = ask
        return self._count_ask(ask, 1) or changed

    def ask_no_more(self, uid: str) -> bool:
        """The pod has what it asked for, or is gone; True when that changes what others may
        borrow."""
        ask = self._asks.pop(uid, None)
        return ask is not None and self._count_ask(ask, -1)

    @property
    def asking(self) -> frozenset[str]:
        """The waiting pods that were told of."""
        return frozenset(self._asks)

    def allowance(self, namespace: str) -> Allowance:
        """What the namespace's next pod is held to."""
        limits: list[Limit] = []
        together: dict[Key, Uses] = {}
        for limit in self._limits.get(namespace, ()):
            ceiling = self._pools.ceiling(limit)
            for each in (limit,) if ceiling is None else (limit, ceiling):
                limits.append(each)
                if limit.namespaces:
                    together[key_of(each)] = self._uses_of(limit)
        return Allowance(limits, dict(self._uses.get(namespace, {})) if limits else {}, together)

    def _uses_of(self, limit: Limit) -> Uses:
        return _sum(self._uses.get(namespace, {}) for namespace in limit.group)

    def _guaranteed(self, namespace: str, uses: Uses) -> bool:
        """Whether some group of the namespace is guaranteed this much."""
        return any(
            covers(limit.guaranteed, _standing(limit, uses))
            for limit in self._limits.get(namespace, ())
            if limit.guaranteed is not None
        )

    def _count_ask(self, ask: _Ask, sign: int) -> bool:
        if not self._guaranteed(ask.namespace, ask.uses):
            return False
        _count(self._asked, ask.namespace, ask.uses, sign)
        return self._lend(ask.namespace)

    def _lend(self, namespace: str) -> bool:
        """Bring what the namespace's groups lend and borrow up to date."""
        changed = False
        for limit in self._limits.get(namespace, ()):
            if limit.guaranteed is not None:
                used = _standing(limit, self._uses_of(limit))
                asked = _sum(self._asked.get(each, {}) for each in limit.group)
                changed |= self._pools.put(limit, used, _standing(limit, asked))
        return changed


def _count(
    books: dict[str, dict[tuple[str, str], Use]], namespace: str, uses: Uses, sign: int
) -> None:
    book = books.setdefault(namespace, {})
    for key, use in uses.items():
        book[key] = book.get(key, Use()).plus(use, sign)
        if not book[key].cards:
            del book[key]
    if not book:
        del books[namespace]


def _sum(books: Iterable[Uses]) -> dict[tuple[str, str], Use]:
    total: dict[tuple[str, str], Use] = {}
    for uses in books:
        for key, use in uses.items():
            total[key] = total.get(key, Use()).plus(use)
    return total


def _standing(limit: Limit, uses: Uses) -> Standing:
    total = within(limit, uses)
    return Standing(total.memory_bytes, total.cores_percent, total.cards)
