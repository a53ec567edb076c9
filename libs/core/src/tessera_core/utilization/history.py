"""Adds a history up: per share, and from that per namespace and owner."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from tessera_core.utilization.price_list import PriceList
from tessera_core.utilization.recording import (
    HolderPod,
    PodName,
    RecordingHeader,
    RecordingLine,
    UseDigest,
)

_HOUR_S: Final = 3600.0
ShareKey = tuple[str, str, str, str]
"""Namespace, pod, container, card."""
OwnerKey = tuple[str, str, str]
"""Namespace, kind and name of the owner; a pod without one is its own, of kind Pod."""
POD_KIND: Final = "Pod"
_AT_END_S: Final = 300.0
"""Who held a share in the last seconds of a history still holds it."""


class ShareTotals(Struct, kw_only=True):
    """One share over the whole history. `..._card_s` are seconds times the part of the card that
    was granted: what the share was worth in whole cards."""

    model: str = ""
    granted_bytes: int = 0
    """When it was last seen."""
    last: float = 0
    """Unix time until which it was held."""
    held_s: float = 0
    measured_s: float = 0
    gpu_s: float = 0
    granted_card_s: float = 0
    idle_card_s: float = 0
    throttled_card_s: float = 0
    unmeasured_card_s: float = 0
    granted_byte_s: float = 0
    byte_s: float = 0
    peak_bytes: int = 0
    gaps: frozenset[str] = frozenset()


class OwnerUse(Struct, frozen=True, kw_only=True):
    """What the pods of one owner were granted and used. Hours are of whole cards."""

    namespace: str
    owner_kind: str
    owner: str
    pods: int
    granted_hours: float
    used_hours: float
    """GPU time; more than granted where idle cores were lent, or no limit of cores was granted."""
    idle_hours: float
    """Granted hours, measured, in which it had no GPU time."""
    throttled_hours: float
    """Granted hours in which launches were held back."""
    unmeasured_hours: float
    """Granted hours of which nothing is known: part of none of the others."""
    granted_gib: float
    """Memory, mean over the span of the report."""
    used_gib: float
    """The same of what was measured in use."""
    cost: float | None = None
    """Of the granted hours; None where there are no prices, or not for all of its cards."""
    idle_cost: float | None = None
    gaps: tuple[str, ...] = ()
    """Why what was measured may not be all."""


class UseHistory:
    """Collects the lines of a history, in any order of pods."""

    def __init__(self) -> None:
        self.pods: dict[PodName, HolderPod] = {}
        """The newest line of each."""
        self.shares: dict[ShareKey, ShareTotals] = {}
        self.began = float("inf")
        """Unix time; infinite without digests."""
        self.ended = 0.0
        self.note = ""

    @property
    def span_s(self) -> float:
        """From the begin of the first digest to the end of the last."""
        return max(self.ended - self.began, 0.0) if self.shares else 0.0

    @property
    def span(self) -> str:
        """The same in words: in hours, or minutes if there are few."""
        minutes = self.span_s / 60
        return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.0f} hours"

    def add_all(self, lines: Iterable[RecordingLine], since: float = 0) -> None:
        """Add lines; digests that ended before `since` (Unix time) are left out."""
        for line in lines:
            match line:
                case HolderPod():
                    self.pods[line.key] = line
                case UseDigest():
                    if line.until > since:
                        self._add(line)
                case RecordingHeader():
                    self.note = line.note

    def of_namespace(self, namespace: str) -> UseHistory:
        """The part of one namespace, of the same time."""
        found = UseHistory()
        found.pods = {key: pod for key, pod in self.pods.items() if key[0] == namespace}
        found.shares = {key: one for key, one in self.shares.items() if key[0] == namespace}
        found.began, found.ended, found.note = self.began, self.ended, self.note
        return found

    def owner_of(self, namespace: str, pod: str) -> OwnerKey:
        """Who the pod belongs to; itself where nobody is known."""
        known = self.pods.get((namespace, pod))
        if known is None or not known.owner:
            return namespace, POD_KIND, pod
        return namespace, known.owner_kind, known.owner

    def still_holds(self, share: ShareTotals) -> bool:
        """Whether it was held at the history's end."""
        return share.last >= self.ended - _AT_END_S

    def owners(self, prices: PriceList | None = None) -> list[OwnerUse]:
        """By namespace, those with the most granted hours first."""
        of: dict[OwnerKey, list[tuple[ShareKey, ShareTotals]]] = {}
        for key, totals in self.shares.items():
            of.setdefault(self.owner_of(key[0], key[1]), []).append((key, totals))
        found = [_owner_use(key, shares, self.span_s, prices) for key, shares in of.items()]
        return sorted(found, key=lambda one: (one.namespace, -one.granted_hours, one.owner))

    def _add(self, digest: UseDigest) -> None:
        key = digest.namespace, digest.pod, digest.container, digest.card
        totals = self.shares.setdefault(key, ShareTotals())
        measured_s = min(digest.measured_s, digest.held_s)
        if digest.until >= totals.last:
            totals.last, totals.granted_bytes = digest.until, digest.granted_bytes
            totals.model = digest.model or totals.model
        totals.held_s += digest.held_s
        totals.measured_s += measured_s
        totals.gpu_s += digest.gpu_s
        totals.granted_card_s += digest.part * digest.held_s
        totals.idle_card_s += digest.part * min(digest.idle_s, measured_s)
        totals.throttled_card_s += digest.part * min(digest.throttled_s, measured_s)
        totals.unmeasured_card_s += digest.part * (digest.held_s - measured_s)
        totals.granted_byte_s += digest.granted_bytes * digest.held_s
        totals.byte_s += digest.byte_s
        totals.peak_bytes = max(totals.peak_bytes, digest.peak_bytes)
        totals.gaps |= frozenset(digest.gaps)
        self.began = min(self.began, digest.until - digest.period_s)
        self.ended = max(self.ended, digest.until)


def _owner_use(
    key: OwnerKey,
    shares: list[tuple[ShareKey, ShareTotals]],
    span_s: float,
    prices: PriceList | None,
) -> OwnerUse:
    totals = [one for _, one in shares]
    cost, idle_cost = _costs(totals, prices)
    per_gib = (span_s or 1.0) * (1 << 30)
    return OwnerUse(
        namespace=key[0], owner_kind=key[1], owner=key[2],
        pods=len({share[1] for share, _ in shares}),
        granted_hours=sum(one.granted_card_s for one in totals) / _HOUR_S,
        used_hours=sum(one.gpu_s for one in totals) / _HOUR_S,
        idle_hours=sum(one.idle_card_s for one in totals) / _HOUR_S,
        throttled_hours=sum(one.throttled_card_s for one in totals) / _HOUR_S,
        unmeasured_hours=sum(one.unmeasured_card_s for one in totals) / _HOUR_S,
        granted_gib=sum(one.granted_byte_s for one in totals) / per_gib,
        used_gib=sum(one.byte_s for one in totals) / per_gib,
        cost=cost, idle_cost=idle_cost,
        gaps=tuple(sorted(frozenset().union(*(one.gaps for one in totals)))),
    )  # fmt: skip


def _costs(
    totals: list[ShareTotals], prices: PriceList | None
) -> tuple[float | None, float | None]:
    if prices is None:
        return None, None
    cost = idle = 0.0
    for one in totals:
        price = prices.price_of(one.model)
        if price is None:
            return None, None
        cost += price * one.granted_card_s / _HOUR_S
        idle += price * one.idle_card_s / _HOUR_S
    return cost, idle
