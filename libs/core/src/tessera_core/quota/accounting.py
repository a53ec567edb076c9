"""Limits, use and waiting pods of every namespace, kept in step with what they lend.

Limits, counts and asks may come in any order: the outcome is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tessera_core.kube.label_selectors import selects
from tessera_core.quota.allowance import (
    NO_LIMITS,
    Allowance,
    QuotaUsage,
    Uses,
    counted_usage,
)
from tessera_core.quota.borrowing import (
    CARDS,
    CORES,
    MEMORY,
    AmountsByDimension,
    BorrowingPools,
    Key,
    covers,
    key_of,
    of_model,
)
from tessera_core.quota.model_entries import entry_of, may_be
from tessera_schema.quotas import Limit


class _Request(NamedTuple):
    namespace: str
    uses: Uses


class QuotaAccounting:
    """Limits and use of every namespace, and what waiting pods ask of guaranteed amounts."""

    def __init__(self) -> None:
        """Nothing is limited, and no namespace is known."""
        self._all: list[Limit] = []
        self._namespaces: dict[str, Mapping[str, str]] | None = None
        self._selects = False
        self.lent = 0
        """Changes whenever what is lent or borrowed does."""
        self._limits: dict[str, list[Limit]] = {}
        self._resolved: dict[Key, tuple[Limit, Limit]] = {}
        """Each limit as it was set, and with the namespaces that it selects."""
        self._groups: dict[str, set[tuple[str, ...]]] = {}
        """Namespace -> the groups of several namespaces that it is in."""
        self._group_uses: dict[tuple[str, ...], Uses] = {}
        """What these use, until one of their namespaces uses something else."""
        self._pools = BorrowingPools()
        self._uses: dict[str, dict[tuple[str, str], QuotaUsage]] = {}
        self._asks: dict[str, _Request] = {}
        self._requested: dict[str, dict[tuple[str, str], QuotaUsage]] = {}

    def set_limits(self, limits: Iterable[Limit]) -> None:
        """Replace all limits."""
        before, self._all = self._all, list(limits)
        if before == self._all:
            return
        self._selects = any(limit.selector is not None for limit in self._all)
        self._settle()

    def set_namespaces(self, labels: Mapping[str, Mapping[str, str]]) -> bool:
        """All namespaces with their labels; True when that changes what is limited. From then on,
        while limits select by labels, a namespace that is not among them may use nothing."""
        before, self._namespaces = self._namespaces, dict(labels)
        if not self._selects or before == self._namespaces:
            return False
        self._settle()
        return True

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        """The namespace's labels; none where it is not known."""
        return (self._namespaces or {}).get(namespace, {})

    def resolved(self, limit: Limit) -> Limit:
        """The limit with the namespaces that it selects, as far as they are known."""
        known = self._resolved.get(key_of(limit))
        return known[1] if known is not None and known[0] == limit else self._with_selected(limit)

    def used(self, limit: Limit) -> QuotaUsage:
        """What the limit's group uses of what it counts."""
        return counted_usage(limit, self._uses_of(self.resolved(limit)))

    def _settle(self) -> None:
        limits = [self._with_selected(limit) for limit in self._all]
        self._limits, self._pools = {}, BorrowingPools(limits)
        pairs = zip(self._all, limits, strict=True)
        self._resolved = {key_of(limit): (limit, resolved) for limit, resolved in pairs}
        self._groups, self._group_uses = {}, {}
        for limit in limits:
            for namespace in limit.group:
                self._limits.setdefault(namespace, []).append(limit)
                if len(limit.group) > 1:
                    self._groups.setdefault(namespace, set()).add(limit.group)
        self._requested = {}
        for ask in self._asks.values():
            self._count_request(ask, 1)
        for namespace in self._limits:
            self._lend(namespace)

    def count(self, namespace: str, uses: Uses, sign: int = 1) -> None:
        """Add use, or with sign -1 take it back."""
        _count(self._uses, namespace, uses, sign)
        for group in self._groups.get(namespace, ()):
            self._group_uses.pop(group, None)
        self._lend(namespace)

    def set_pending(self, uid: str, namespace: str, uses: Uses) -> bool:
        """A waiting pod asks for this much; True when it changes what others may borrow.

        More than a guarantee holds was never lent, so such a pod asks nothing back.
        """
        if not uses:
            return self.drop_pending(uid)
        ask, before = _Request(namespace, uses), self._asks.get(uid)
        if ask == before:
            return False
        changed = self.drop_pending(uid)
        self._asks[uid] = ask
        return self._count_request(ask, 1) or changed

    def drop_pending(self, uid: str) -> bool:
        """The pod has what it asked for, or is gone; True when that changes what others may
        borrow."""
        ask = self._asks.pop(uid, None)
        return ask is not None and self._count_request(ask, -1)

    @property
    def pending(self) -> frozenset[str]:
        """The waiting pods that were reported."""
        return frozenset(self._asks)

    def allowance(self, namespace: str) -> Allowance:
        """What the namespace's next pod is held to."""
        if self._is_closed(namespace):
            closed = Limit(
                namespace=namespace, cards=0,
                source=f"Namespace {namespace}, whose labels are not known yet,",
            )  # fmt: skip
            return Allowance([closed], {})
        return self._allowance(namespace, self._limits.get(namespace, ()))

    def own_allowance(self, limit: Limit) -> Allowance:
        """What this one of the limits alone holds its group to, with what it lends and borrows."""
        _, resolved = self._resolved.get(key_of(limit), (limit, None))
        if resolved is None or not resolved.group or self._is_closed(resolved.group[0]):
            return NO_LIMITS
        return self._allowance(resolved.group[0], [resolved])

    def _is_closed(self, namespace: str) -> bool:
        """Whether limits select by labels and those of the namespace are not known."""
        known = self._namespaces
        return self._selects and known is not None and namespace not in known

    def _allowance(self, namespace: str, limited: Sequence[Limit]) -> Allowance:
        if not limited:
            return NO_LIMITS
        limits: list[Limit] = []
        together: dict[Key, Uses] = {}
        for limit in limited:
            ceiling = self._pools.effective_limit(limit)
            for each in (limit,) if ceiling is None else (limit, ceiling):
                limits.append(each)
                if limit.namespaces or limit.selector is not None:
                    together[key_of(each)] = self._uses_of(limit)
        return Allowance(limits, dict(self._uses.get(namespace, {})), together)

    def _with_selected(self, limit: Limit) -> Limit:
        selector = limit.selector
        if selector is None:
            return limit
        known = self._namespaces or {}
        found = {name for name, labels in known.items() if selects(selector, labels)}
        return replace(limit, namespaces=tuple(sorted({*limit.namespaces, *found})))

    def _uses_of(self, limit: Limit) -> Uses:
        group = limit.group
        if len(group) == 1:
            return dict(self._uses.get(group[0], {}))
        found = self._group_uses.get(group)
        if found is None:
            found = _sum(self._uses.get(namespace, {}) for namespace in group)
            if group and group in self._groups.get(group[0], ()):
                self._group_uses[group] = found
        return found

    def _guaranteed(self, namespace: str, uses: Uses) -> bool:
        """Whether some group of the namespace is guaranteed this much."""
        return any(
            covers(limit.guaranteed, _requested(limit, uses))
            for limit in self._limits.get(namespace, ())
            if limit.guaranteed is not None
        )

    def _count_request(self, ask: _Request, sign: int) -> bool:
        if not self._guaranteed(ask.namespace, ask.uses):
            return False
        _count(self._requested, ask.namespace, ask.uses, sign)
        return self._lend(ask.namespace)

    def _lend(self, namespace: str) -> bool:
        """Bring what the namespace's groups lend and borrow up to date."""
        changed = False
        for limit in self._limits.get(namespace, ()):
            if limit.guaranteed is not None:
                used = _used(limit, self._uses_of(limit))
                asked = _sum(self._requested.get(each, {}) for each in limit.group)
                changed |= self._pools.put(limit, used, _requested(limit, asked))
        self.lent += changed
        return changed


def _count(
    ledger: dict[str, dict[tuple[str, str], QuotaUsage]], namespace: str, uses: Uses, sign: int
) -> None:
    book = ledger.setdefault(namespace, {})
    for key, use in uses.items():
        book[key] = book.get(key, QuotaUsage()).plus(use, sign)
        if not book[key].cards:
            del book[key]
    if not book:
        del ledger[namespace]


def _sum(ledger: Iterable[Uses]) -> dict[tuple[str, str], QuotaUsage]:
    total: dict[tuple[str, str], QuotaUsage] = {}
    for uses in ledger:
        for key, use in uses.items():
            total[key] = total.get(key, QuotaUsage()).plus(use)
    return total


def _used(limit: Limit, uses: Uses) -> AmountsByDimension:
    """What is held, in each dimension. A card counts under the first entry that its model has."""
    models = _models(limit)
    standing = _amounts(limit, uses)
    for (vendor, model), use in uses.items():
        entry = entry_of(models, model) if limit.vendor in ("", vendor) else None
        if entry is not None:
            standing[of_model(entry)] = standing.get(of_model(entry), 0) + use.parts
    return standing


def _requested(limit: Limit, uses: Uses) -> AmountsByDimension:
    """What waiting pods ask, in each dimension. Which card they will get is not known: they ask
    for whole cards of every model that they may get."""
    standing = _amounts(limit, uses)
    for (vendor, model), use in uses.items():
        for entry in _models(limit) if limit.vendor in ("", vendor) else ():
            if may_be(entry, model):
                standing[of_model(entry)] = standing.get(of_model(entry), 0) + use.cards
    return standing


def _models(limit: Limit) -> Mapping[str, float]:
    return (limit.guaranteed.models if limit.guaranteed is not None else None) or {}


def _amounts(limit: Limit, uses: Uses) -> dict[str, float]:
    total = counted_usage(limit, uses)
    return {MEMORY: total.memory_bytes, CORES: total.cores_milli, CARDS: total.cards}
