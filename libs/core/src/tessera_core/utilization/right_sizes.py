"""Shares that could be smaller: what their owners' pods used at most, with head room.

A peak is the most at any moment, as the hook saw it; without the hook, the most of any measurement,
and these are seconds apart. The head room is for that, and for weeks that differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from tessera_core.registry.registry import DialectRegistry
from tessera_core.utilization.dialect_amounts import AmountChange, smaller_amount
from tessera_core.utilization.history import OwnerKey, ShareKey, ShareTotals, UseHistory
from tessera_core.utilization.recording import HolderPod
from tessera_schema.cards import MIB

_OF_TIME_ALONE: Final = frozenset({"time-predicted"})
"""Gaps that leave figures of memory as they are."""


class SizeRules(Struct, frozen=True, kw_only=True):
    """When a share should be smaller, and by how much."""

    headroom_percent: float = 50
    """Added to the most that was used."""
    headroom_mib: int = 1024
    """Added to it at least."""
    least_hours: float = 24
    """For which an owner's container must have been measured, all its pods together."""
    least_measured_percent: float = 90
    """Of the time that it held shares."""
    least_saving_percent: float = 10
    """Of what was granted."""

    def enough(self, peak_bytes: int) -> int:
        """Bytes that do, by this peak; whole MiB."""
        most = max(peak_bytes * (1 + self.headroom_percent / 100),
                   peak_bytes + self.headroom_mib * MIB)  # fmt: skip
        return -(-int(most) // MIB) * MIB


class RightSize(Struct, frozen=True, kw_only=True):
    """Shares of one container of an owner's pods that are larger than needed."""

    namespace: str
    owner_kind: str
    owner: str
    container: str
    pods: int
    """That held such shares."""
    holding: int
    """Of these, still at the report's end."""
    granted_bytes: int
    """Of each card."""
    held_bytes: int
    """By all that still hold, on all their cards; where none does, by one share."""
    peak_bytes: int
    """Of the share that used the most."""
    peaks_bytes: int
    """Peaks of all that still hold, added up: more than they used at any one moment."""
    enough_bytes: int
    """Of each card, with head room."""
    change: AmountChange
    example: HolderPod
    """A pod of the owner."""

    @property
    def frees_bytes(self) -> int:
        """What the change gives back, of all that still hold."""
        return self.held_bytes - self.held_bytes * self.change.memory_bytes // self.granted_bytes


class LeftAlone(Struct, frozen=True, kw_only=True):
    """A container of an owner of which no smaller size can be named, and why."""

    namespace: str
    owner_kind: str
    owner: str
    container: str
    why: str


def right_sizes(
    history: UseHistory, registry: DialectRegistry, rules: SizeRules
) -> tuple[list[RightSize], list[LeftAlone]]:
    """Those that could be smaller, most memory to be freed first, and those of which nothing can
    be said. What fits as it is, is in neither."""
    groups: dict[tuple[OwnerKey, str], list[tuple[ShareKey, ShareTotals]]] = {}
    for key, totals in history.shares.items():
        groups.setdefault((history.owner_of(key[0], key[1]), key[2]), []).append((key, totals))
    sizes, left = [], []
    for ((namespace, kind, owner), container), shares in groups.items():
        found = _right_size(history, registry, rules, container, shares)
        if isinstance(found, str):
            left.append(LeftAlone(
                namespace=namespace, owner_kind=kind, owner=owner, container=container, why=found
            ))  # fmt: skip
        elif found is not None:
            sizes.append(found)
    sizes.sort(key=lambda one: (-one.frees_bytes, one.namespace, one.owner, one.container))
    left.sort(key=lambda one: (one.namespace, one.owner, one.container))
    return sizes, left


def _right_size(
    history: UseHistory,
    registry: DialectRegistry,
    rules: SizeRules,
    container: str,
    shares: Sequence[tuple[ShareKey, ShareTotals]],
) -> RightSize | str | None:
    # Pods of former sizes say what is used; the newest one says what is granted now.
    newest = max(shares, key=lambda one: (one[1].last, one[0]))
    granted = newest[1].granted_bytes
    peak = max(one.peak_bytes for _, one in shares)
    enough = rules.enough(peak)
    if enough > granted * (1 - rules.least_saving_percent / 100):
        return None
    doubt = _doubt(rules, [one for _, one in shares])
    if doubt:
        return doubt
    namespace, name = newest[0][:2]
    pod = history.pods.get((namespace, name))
    if pod is None:
        return "its manifest is not known any more"
    change = smaller_amount(registry, pod, container, granted=granted, wanted=enough)
    if change is None or isinstance(change, str):
        return change
    if change.memory_bytes > granted * (1 - rules.least_saving_percent / 100):
        return None
    holding = [
        (key, one)
        for key, one in shares
        if history.still_holds(one) and one.granted_bytes == granted
    ]
    kind, owner = history.owner_of(namespace, name)[1:]
    return RightSize(
        namespace=namespace, owner_kind=kind, owner=owner, container=container,
        pods=len({key[1] for key, _ in shares}), holding=len({key[1] for key, _ in holding}),
        granted_bytes=granted,
        held_bytes=sum(one.granted_bytes for _, one in holding) or granted, peak_bytes=peak,
        peaks_bytes=sum(one.peak_bytes for _, one in holding) or peak, enough_bytes=enough,
        change=change, example=pod,
    )  # fmt: skip


def _doubt(rules: SizeRules, shares: Sequence[ShareTotals]) -> str:
    """Why the peak cannot be relied on; empty where it can."""
    held_s = sum(one.held_s for one in shares)
    measured_s = sum(one.measured_s for one in shares)
    if measured_s <= 0:
        return "nothing of it was measured"
    if measured_s < rules.least_hours * 3600:
        return (
            f"it was measured for {measured_s / 3600:.1f} hours, which is less than "
            f"{rules.least_hours:g}"
        )
    percent = 100 * measured_s / held_s
    if percent < rules.least_measured_percent:
        return (
            f"it was measured for {percent:.0f} % of the time that it held shares, which is less "
            f"than {rules.least_measured_percent:g} %"
        )
    gaps = sorted(frozenset().union(*(one.gaps for one in shares)) - _OF_TIME_ALONE)
    return f"what was measured may not be all of it: {', '.join(gaps)}" if gaps else ""
