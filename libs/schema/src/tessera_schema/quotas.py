"""Quotas: limits in the same canonical units as the ledger, what is written about them on their
objects, and what is published about them on the bus.

A status is written for people and for programs that act on it; the scheduler does not read it: it
counts by itself.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from tessera_schema.json_codec import decoder
from tessera_schema.label_selectors import Selector
from tessera_schema.subjects import quota


class Guaranteed(Struct, frozen=True, kw_only=True):
    """What a group may use whatever others use. None = nothing of that is lent or borrowed."""

    memory_bytes: int | None = None
    cores_percent: float | None = None
    cards: int | None = None
    models: dict[str, float] | None = None
    """Model -> cards, as in `Limit.models`; groups lend to each other under equal names."""


class BestEffortLimit(Struct, frozen=True, kw_only=True):
    """What best-effort pods may hold, who are counted apart. None = not limited; 0 refuses all."""

    memory_bytes: int | None = None
    cards: int | None = None


class Limit(Struct, frozen=True, kw_only=True):
    """One quota object, translated. None = not limited in that dimension; 0 refuses
    every pod that asks for any of it."""

    namespace: str
    """Where the object is."""
    source: str
    """Kind and name, for messages."""
    vendor: str = ""
    """Empty = all vendors together."""
    memory_bytes: int | None = None
    cores_percent: float | None = None
    cards: int | None = None
    """Cards held: a card counts once for each pod that holds a part of it."""
    models: dict[str, float] | None = None
    """Model (case-insensitive substring) -> cards, parts of cards counting by the larger of
    their memory and core share. A model that matches no entry is denied (GPU Manager's rule)."""
    open_models: bool = False
    """Models that match no entry are not limited."""
    node_pools: tuple[str, ...] = ()
    """Pools of nodes that may be used; empty = all."""
    namespaces: tuple[str, ...] = ()
    """Whose use counts, all together; empty = that of the object's own namespace."""
    selector: Selector | None = None
    """Labels of more namespaces whose use counts; None = none are selected. The ledger puts those
    that they know into `namespaces`."""
    best_effort: BestEffortLimit | None = None
    """Memory and cards of best-effort pods count here instead of above. None = they count above."""
    guaranteed: Guaranteed | None = None
    """None = it neither lends nor borrows."""
    pool: str = ""
    """Groups that name the same one lend to each other what they are guaranteed and do not use."""
    lends: bool = True

    @property
    def group(self) -> tuple[str, ...]:
        """The namespaces that it counts together."""
        if self.selector is not None:
            return self.namespaces
        return self.namespaces or (self.namespace,)


class Amounts(Struct, frozen=True, kw_only=True):
    """So much of cards, as a status shows it."""

    memory: str = "0"
    """A Kubernetes quantity, such as 40Gi."""
    cores: float = 0
    """Percent: 250 is two cards and a half."""
    cards: int = 0
    """A card counts once for each pod that holds a part of it."""
    models: dict[str, float] = {}
    """Model -> cards, parts of cards counting by the larger of their memory and core share."""


class BestEffortAmounts(Struct, frozen=True, kw_only=True):
    """What best-effort pods hold, where a quota counts them apart."""

    memory: str = "0"
    """A Kubernetes quantity."""
    cards: int = 0


class WaitingPods(Struct, frozen=True, kw_only=True):
    """Pods that ask for cards and have no node."""

    pods: int = 0
    memory: str = "0"
    """What they ask at least: percentages of a card are not known before the card is."""
    cores: float = 0
    cards: int = 0


class MeasuredUse(Struct, frozen=True, kw_only=True):
    """What was measured in containers."""

    memory: str = "0"
    cores: float = 0
    """GPU time over the last seconds, percent of a card."""
    silent: int = 0
    """Running pods with cards of which nothing was measured lately."""


class Hours(Struct, frozen=True, kw_only=True, rename="camel"):
    """Card hours. What passed while nobody counted is in neither."""

    since: str = ""
    """When the count began, RFC 3339."""
    granted: float = 0
    """Hours of whole cards held; a part of a card counts as that part."""
    seen: float = 0
    """Hours of GPU time measured."""


class IdleGrant(Struct, frozen=True, kw_only=True):
    """A running pod that holds cards and lets them rest."""

    pod: str
    """`namespace/name`."""
    since: str
    """RFC 3339."""
    memory: str = "0"
    cores: float = 0
    cards: int = 0


class QuotaStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """`status` of an AcceleratorQuota."""

    observed_generation: int = 0
    phase: str = ""
    """Within, Grace or Throttled."""
    phase_since: str = ""
    """RFC 3339."""
    throttles_at: str = ""
    """In phase Grace: when it ends."""
    cores_percent: float = 100
    """Of the cores that its pods were granted, how much they are to get; below 100 in phase
    Throttled alone."""
    message: str = ""
    """What is used beyond the quota; empty when nothing is."""
    problem: str = ""
    """What makes no sense in the spec: then it limits what it did before."""
    used: Amounts = Amounts()
    """What counts: held by pods that have a node."""
    best_effort: BestEffortAmounts = BestEffortAmounts()
    """Held by best-effort pods; nothing where `used` counts them."""
    assumed: Amounts = Amounts()
    """The part of `used` whose pods have not started yet."""
    waiting: WaitingPods = WaitingPods()
    seen: MeasuredUse = MeasuredUse()
    hours: Hours = Hours()
    idle_pods: int = 0
    idle: tuple[IdleGrant, ...] = ()
    """Those that have rested longest, a few of them."""


class QuotaExceeded(Struct, frozen=True, tag="exceeded", tag_field="what", kw_only=True):
    """A group uses more than its quota allows; nothing is taken away yet."""

    namespace: str
    """Where the quota object is."""
    quota: str
    """Its name."""
    message: str
    namespaces: tuple[str, ...] = ()
    """Whose pods count."""
    throttles_at: str = ""
    """When its cores will be lowered if nothing changes, RFC 3339; empty = never."""


class QuotaThrottled(Struct, frozen=True, tag="throttled", tag_field="what", kw_only=True):
    """The time of grace is over: the group's running pods are to get less of their cores."""

    namespace: str
    quota: str
    message: str
    cores_percent: float
    """Of the cores that each container was granted; one without a core limit counts as granted
    the whole card."""
    vendor: str = ""
    """Whose cards; empty = all."""
    namespaces: tuple[str, ...] = ()


class QuotaRestored(Struct, frozen=True, tag="restored", tag_field="what", kw_only=True):
    """The group uses what it may again, or its quota is gone: full cores for all."""

    namespace: str
    quota: str
    namespaces: tuple[str, ...] = ()


QuotaEvent = QuotaExceeded | QuotaThrottled | QuotaRestored

_encode = msgspec.json.Encoder().encode
_decode: Callable[[bytes | str], QuotaEvent] = decoder(QuotaEvent)


def encode_quota(event: QuotaEvent) -> bytes:
    """The message's data."""
    return _encode(event)


def decode_quota(data: bytes) -> QuotaEvent:
    """Raises msgspec.DecodeError."""
    return _decode(data)


def quota_subject(cluster: str, event: QuotaEvent) -> str:
    """The subject that the event is published on."""
    return quota(cluster, event.namespace, str(event.__struct_config__.tag))
