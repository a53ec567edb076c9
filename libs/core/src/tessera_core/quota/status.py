"""What the status of a quota says, from the same counts as the scheduler's decision.

Pure: the caller says what is held, what waits and what was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tessera_core.quota.allowance import Allowance, QuotaUsage, Uses, counted_usage, without_rest
from tessera_schema.cards import MIB
from tessera_schema.quotas import Amounts, BestEffortAmounts, Limit, WaitingPods


class Measured(NamedTuple):
    """What was measured in the containers of a group."""

    memory_bytes: int = 0
    cores_percent: float = 0


class PendingUse(NamedTuple):
    """What waits."""

    pods: int = 0
    usage: QuotaUsage = QuotaUsage()


def excess(allowance: Allowance, limit: Limit, measured: Measured) -> str:
    """What the limit's group uses beyond it, in numbers; empty when nothing.

    Memory that is measured counts as well: where it exceeds the quota, limits do not hold.
    """
    message = _of(allowance, limit).over()
    if message:
        return message
    most = _all_memory(limit)
    if most is not None and measured.memory_bytes > most:
        return (
            f"{limit.source} allows {most / MIB:g} MiB of memory, "
            f"{measured.memory_bytes / MIB:g} are measured in its containers"
        )
    return ""


def _all_memory(limit: Limit) -> int | None:
    """What may be measured: a container's class is not in what is measured of its namespace."""
    if limit.best_effort is None or limit.memory_bytes is None:
        return limit.memory_bytes
    rest = limit.best_effort.memory_bytes
    return None if rest is None else limit.memory_bytes + rest


def _of(allowance: Allowance, limit: Limit) -> Allowance:
    """The allowance without the limits of other objects."""
    mine = [
        each for each in allowance.limits
        if each.namespace == limit.namespace
        and (each.source == limit.source or each.source.startswith(f"{limit.source} ("))
    ]  # fmt: skip
    return allowance.narrowed(mine)


def amounts(limit: Limit, uses: Uses) -> Amounts:
    """The part of these uses that the limit counts; memory and cards of best-effort pods only where
    it does not count them apart."""
    total, models = QuotaUsage(), dict[str, float]()
    for (vendor, model), use in uses.items():
        if limit.vendor in ("", vendor):
            total = total.plus(use)
            name = model or "unknown"
            models[name] = round(models.get(name, 0) + use.parts, 3)
    total = without_rest(limit, total)
    return Amounts(
        memory=quantity(total.memory_bytes), cores=_number(total.cores_percent),
        cards=total.cards, models=models,
    )  # fmt: skip


def best_effort(limit: Limit, uses: Uses) -> BestEffortAmounts:
    """What best-effort pods hold; nothing where the limit does not count them apart."""
    if limit.best_effort is None:
        return BestEffortAmounts()
    total = counted_usage(limit, uses)
    return BestEffortAmounts(memory=quantity(total.rest_memory_bytes), cards=total.rest_cards)


def pending(requests: Iterable[Uses]) -> dict[str, PendingUse]:
    """Vendor -> pods that wait for its cards, and what they request at least; under the empty name
    those of all vendors, each pod once."""
    found: dict[str, PendingUse] = {}
    for uses in requests:
        vendors = {vendor for vendor, _ in uses}
        for name in ("", *vendors) if vendors else ():
            pods, total = found.get(name, PendingUse())
            for (vendor, _), use in uses.items():
                if name in ("", vendor):
                    total = total.plus(use)
            found[name] = PendingUse(pods + 1, total)
    return found


def waiting(limit: Limit, requested: Mapping[str, PendingUse]) -> WaitingPods:
    """Pods that wait for what the limit counts, and what they request at least."""
    pods, total = requested.get(limit.vendor, PendingUse())
    total = without_rest(limit, total)
    return WaitingPods(
        pods=pods, memory=quantity(total.memory_bytes), cores=_number(total.cores_percent),
        cards=total.cards,
    )  # fmt: skip


def parts(limit: Limit, uses: Uses) -> float:
    """Cards held of what the limit counts, parts of cards as such."""
    return sum(use.parts for (vendor, _), use in uses.items() if limit.vendor in ("", vendor))


def counts(limit: Limit, uses: Uses) -> bool:
    """Whether any of it is what the limit counts."""
    return any(limit.vendor in ("", vendor) for vendor, _ in uses)


def quantity(size: int) -> str:
    """Bytes as a Kubernetes quantity: whole MiB where they are, in Gi where those are whole."""
    if size % MIB:
        return str(size)
    mib = size // MIB
    return f"{mib // 1024}Gi" if mib and not mib % 1024 else f"{mib}Mi" if mib else "0"


def _number(amount: float) -> float:
    rounded = round(amount, 3)
    return int(rounded) if rounded == int(rounded) else rounded
