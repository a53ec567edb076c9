"""What queues have used of cards in the past, and what it leaves them of their weights.

A queue that has used more of the cluster than its part by weight gets less of what is divided by
weight: `w / (1 + k x max(0, history share / weight share - 1))`, where the history share is the
part of the cluster's card-seconds that it had, and a card-second counts half after each half-life.
What a queue deserves, its guarantee and its cap stay as they are. The origin is time-aware fair
sharing of KAI.

What was before the first record is not known, and counts as if every queue had used its part: a
history that has just begun changes no weight. It promises no more than it was given: use between
two records counts as it was at the first of them.

It is written down as text, so that the next leader goes on with it. What cannot be read costs the
history alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import expm1, log
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from tessera_core.dialect_kit.contract import Dimension
from tessera_core.gangs.queue_tree import QueueTree
from tessera_core.gangs.queue_usage import QueueOfKind
from tessera_core.gangs.queues import QueueAmounts, QueueDimension, QueueOrigin, QueueSpec
from tessera_schema.json_codec import decoder

DAY_S: Final = 86_400.0
_NOTHING: Final = 1.0
"""Card-seconds below which the history of a queue that has been deleted is dropped."""
_MOST_SAVED: Final = 4000
"""Queues that are written down: about 600 kB of text, and a ConfigMap takes 1 MiB."""
VERSION: Final = 1
_Amount = Annotated[float, Meta(ge=0, le=1e18)]
"""Also of card-seconds: those of a billion cards in thirty years."""
_DECIMALS: Final = 3
"""Of how far a queue is beyond its part: weights do not change by rounding, nor each second."""


class HistoryTerms(Struct, frozen=True, kw_only=True):
    """How the past counts."""

    weight: float = 0.0
    """`k`, 0 or more: 1 halves the weight of a queue that used twice its part. 0 = not at all."""
    half_life_s: float = DAY_S
    """Seconds after which what was used counts half."""


class UnknownQueueHistoryVersion(Exception):
    """Written by a newer release."""


class SavedQueueUse(Struct, frozen=True, kw_only=True):
    """What one queue has used of the cards of a vendor."""

    group: str
    """API group of the queue's kind."""
    kind: str
    queue: str
    vendor: str
    card_s: _Amount
    """Decayed card-seconds, without those of the queues below it."""


class SavedCluster(Struct, frozen=True, kw_only=True):
    """What the cluster had of the cards of a vendor, in decayed card-seconds."""

    vendor: str
    observed_card_s: _Amount
    unknown_card_s: _Amount
    """Those before the first record."""


class SavedQueueHistory(Struct, frozen=True, kw_only=True):
    """A history as of `at`."""

    version: int = VERSION
    since: _Amount
    """Unix time of its first record."""
    at: _Amount
    """Unix time of its last one."""
    half_life_s: Annotated[float, Meta(ge=1, le=1e10)]
    cluster: tuple[SavedCluster, ...] = ()
    used: tuple[SavedQueueUse, ...] = ()


class _Version(Struct, frozen=True):
    version: int


class QueueHistory:
    """What queues of all kinds have used of cards, by vendor."""

    def __init__(self, terms: HistoryTerms) -> None:
        """Nothing is known yet."""
        self._terms = terms
        self._since: float | None = None
        """When the first record was made."""
        self._at: float | None = None
        self._using: Mapping[QueueOfKind, QueueAmounts] = {}
        """What each queue uses since then, without those below it."""
        self._totals: dict[QueueDimension, float] = {}
        """Cards of the cluster since then."""
        self._used: dict[tuple[QueueOfKind, QueueDimension], float] = {}
        """Decayed card-seconds."""
        self._observed: dict[QueueDimension, float] = {}
        """Decayed card-seconds that the cluster had since the first record."""
        self._unknown: dict[QueueDimension, float] = {}
        """Those before it."""

    def record(
        self, now: float, used: Mapping[QueueOfKind, QueueAmounts], totals: QueueAmounts
    ) -> None:
        """From `now` on, in seconds, pods of each queue itself use so much, and the cluster has
        `totals`."""
        self._pass(0.0 if self._at is None else max(now - self._at, 0.0))
        self._at, self._since = now, now if self._since is None else self._since
        self._using = {place: _cards(amounts) for place, amounts in used.items()}
        self._totals = _cards(totals)
        for dim, cards in self._totals.items():
            if cards and dim not in self._unknown:
                self._unknown[dim] = cards * self._terms.half_life_s / log(2)

    def _pass(self, seconds: float) -> None:
        """So many seconds go by with what is used and what is there now."""
        gone = -expm1(-log(2) * seconds / self._terms.half_life_s)
        each_s = gone * self._terms.half_life_s / log(2)
        used = {key: amount * (1 - gone) for key, amount in self._used.items()}
        for place, amounts in self._using.items():
            for dim, cards in amounts.items():
                used[place, dim] = used.get((place, dim), 0) + cards * each_s
        self._used = {
            key: amount for key, amount in used.items()
            if amount >= _NOTHING or key[0] in self._using
        }  # fmt: skip
        for dim in self._unknown:
            had = self._observed.get(dim, 0) * (1 - gone)
            self._observed[dim] = had + self._totals.get(dim, 0) * each_s
            self._unknown[dim] *= 1 - gone

    def saved(self) -> SavedQueueHistory | None:
        """All of it as of the last record, of queues those that have used most; None before the
        first record."""
        if self._at is None or self._since is None:
            return None
        most = sorted(self._used.items(), key=lambda item: -item[1])[:_MOST_SAVED]
        return SavedQueueHistory(
            since=self._since, at=self._at, half_life_s=self._terms.half_life_s,
            cluster=tuple(
                SavedCluster(
                    vendor=dim.vendor, observed_card_s=self._observed.get(dim, 0),
                    unknown_card_s=unknown,
                )
                for dim, unknown in self._unknown.items()
            ),
            used=tuple(
                SavedQueueUse(
                    group=origin.group, kind=origin.kind, queue=queue, vendor=dim.vendor,
                    card_s=card_s,
                )
                for ((origin, queue), dim), card_s in most
            ),
        )  # fmt: skip

    def restore(self, saved: SavedQueueHistory) -> bool:
        """Go on with this one, if it began earlier; False where it did not. The seconds since it
        was written count as things are now; what it says of no vendor stays as it was here."""
        if self._since is not None and self._since <= saved.since:
            return False
        scale = self._terms.half_life_s / saved.half_life_s
        known = {_cards_of(each.vendor): each for each in saved.cluster}
        now, at = self._at, saved.at
        rest = self._used, self._observed, self._unknown
        self._observed = {dim: each.observed_card_s * scale for dim, each in known.items()}
        self._unknown = {dim: each.unknown_card_s * scale for dim, each in known.items()}
        self._used = {
            ((QueueOrigin(each.group, each.kind), each.queue), _cards_of(each.vendor)):
                each.card_s * scale
            for each in saved.used if _cards_of(each.vendor) in known
        }  # fmt: skip
        if now is not None:
            self._pass(max(now - at, 0.0))
        used, observed, unknown = rest
        self._used |= {key: amount for key, amount in used.items() if key[1] not in known}
        self._observed |= {dim: had for dim, had in observed.items() if dim not in known}
        self._unknown |= {dim: had for dim, had in unknown.items() if dim not in known}
        self._since, self._at = saved.since, at if now is None else now
        return True

    def factors(self, origin: QueueOrigin, tree: QueueTree) -> dict[str, float]:
        """Name of a queue of this kind -> what is left of 1 of its weight. Of several vendors that
        one counts of whose cards it has used most beyond its part."""
        most = dict.fromkeys(tree.queues, 0.0)
        for dim, unknown in self._unknown.items():
            had = self._observed.get(dim, 0) + unknown
            used = self._used_with_below(origin, tree, dim)
            for name, part in weight_shares(tree, dim).items():
                if part > 0 and had > 0:
                    share = (used[name] + part * unknown) / had
                    most[name] = max(most[name], share / part - 1)
        k = self._terms.weight
        return {name: factor_of(round(beyond, _DECIMALS), k) for name, beyond in most.items()}

    def _used_with_below(
        self, origin: QueueOrigin, tree: QueueTree, dim: QueueDimension
    ) -> dict[str, float]:
        found = dict.fromkeys(tree.queues, 0.0)
        for name in tree.queues:
            used = self._used.get(((origin, name), dim), 0.0)
            for queue in tree.path(name) if used else ():
                found[queue.name] += used
        return found


_encode = msgspec.json.Encoder().encode
_decode_version = decoder(_Version)
_decode = decoder(SavedQueueHistory)


def encode(saved: SavedQueueHistory) -> str:
    """As text."""
    return _encode(saved).decode()


def decode(text: str) -> SavedQueueHistory:
    """Read it again. Raises UnknownQueueHistoryVersion, and msgspec.DecodeError (which
    msgspec.ValidationError is) for what is no such text."""
    version = _decode_version(text).version
    if version != VERSION:
        known = f"this release reads {VERSION}"
        raise UnknownQueueHistoryVersion(f"version {version} of a history of queues: {known}")
    return _decode(text)


def factor_of(beyond: float, k: float) -> float:
    """What is left of 1 of the weight of a queue whose history share is so much more than 1 times
    its weight share; above 0, and at most 1."""
    return 1 / (1 + k * max(beyond, 0.0))


def weight_shares(tree: QueueTree, dimension: QueueDimension) -> dict[str, float]:
    """Queue's name -> its part of the cluster by its weight among those of the same parent, and by
    the weights of those above it; 0 for one of weight 0."""
    siblings: defaultdict[str, float] = defaultdict(float)
    for queue in tree.queues.values():
        siblings[queue.parent] += _weight(queue, dimension)
    found: dict[str, float] = {}
    for name in tree.queues:
        part = 1.0
        for queue in tree.path(name):
            together = siblings[queue.parent]
            part *= _weight(queue, dimension) / together if together else 0.0
        found[name] = part
    return found


def _weight(queue: QueueSpec, dimension: QueueDimension) -> float:
    return queue.weights.get(dimension, queue.weight)


def _cards_of(vendor: str) -> QueueDimension:
    return QueueDimension(vendor, Dimension.CARDS.value)


def _cards(amounts: QueueAmounts) -> dict[QueueDimension, float]:
    return {
        dim: amount for dim, amount in amounts.items()
        if dim.vendor and dim.what == Dimension.CARDS.value
    }  # fmt: skip
