"""Which shapes of pods came in the past, and how often: what `pack` learns from.

A pod counts when it is first placed or seen bound, and half as much after each half-life. The
history is kept across restarts as one JSON text; where that is lost or unreadable, start empty:
placement goes on with the default of `tessera_core.placement.packing.card_values`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tessera_core.placement.units import PlacementUnit, units
from tessera_schema.cards import MIB
from tessera_schema.json_codec import decoder
from tessera_schema.requests import ContainerRequest, PodRequest, Policy, Request, Role

VERSION: Final = 1
HALF_LIFE_S: Final = 14 * 86400.0
"""Two weeks: several rounds of a working week, and a new team's shapes count within days."""
ENOUGH: Final = 50.0
"""Pods from which on a history says more than the default."""
SHAPES: Final = 1000
"""Shapes remembered; those that came least are dropped first."""
SAVED: Final = 400
"""Shapes written down: about 200 kB of text. The others are too rare to be worth their room."""
_LARGEST: Final = 1e9
_MOST_BYTES: Final = 2**50
_MOST_CORES: Final = 100_000
_WHOLE: Final = 100


class UnknownHistoryVersion(Exception):
    """Written by a newer release: start empty, and leave the text as it is."""


_CORE_TENTH: Final = 100
_MEMORY_STEP: Final = 256 * MIB


class DemandedShape(NamedTuple):
    """A pod's request, and what the pod asks of its host: thousandths of a core, and bytes."""

    request: Request
    cpu: float = 0
    memory: float = 0

    def coarse(self) -> DemandedShape:
        """The host's part rounded up, to tenths of a core and quarters of a GiB: so that pods
        which hardly differ are one shape."""
        cpu = -(-self.cpu // _CORE_TENTH) * _CORE_TENTH
        memory = -(-self.memory // _MEMORY_STEP) * _MEMORY_STEP
        return self._replace(cpu=cpu, memory=memory)


_Wished = tuple[tuple[ContainerRequest, ...], tuple[float, float], tuple[DemandedShape, ...]]
"""A pod's containers, its part of a host, and what it counts as."""


class ShapeRecord(Struct, frozen=True, kw_only=True):
    """One shape on the wire."""

    shape: Request
    count: float
    cpu_milli: float = 0
    """Of the host, by each such pod; 0 = nothing, or not known."""
    memory_bytes: float = 0


class SavedHistory(Struct, frozen=True, kw_only=True):
    """The history on the wire. Counts are as of `at`."""

    version: int = VERSION
    at: float
    """Seconds of the caller's clock."""
    pods: float
    cpu_milli: float = 0
    """Asked of hosts by all those pods; 0 = not known."""
    memory_bytes: float = 0
    seen: tuple[ShapeRecord, ...] = ()


class _Version(Struct, frozen=True):
    version: int


_encode = msgspec.json.Encoder().encode
_decode_version = decoder(_Version)
_decode_saved = decoder(SavedHistory)


class History:
    """Counts of shapes, fading."""

    def __init__(self, half_life_s: float = HALF_LIFE_S) -> None:
        """Empty."""
        self._half_life_s = half_life_s
        self._from = 0.0
        """When a new pod weighs 1; later ones weigh more, which is the same as fading."""
        self._weights: dict[DemandedShape, float] = {}
        self._pods = self._cpu = self._memory = 0.0
        self._last: _Wished = ((), (0.0, 0.0), ())

    def add(self, pod: PodRequest, now: float) -> None:
        """A pod was placed. What it asks of its host counts for its first shape, by which its
        node is chosen. Pods that ask for no card count not."""
        wishes = self._demands_of(pod)
        if not wishes:
            return
        if not self._pods:
            self._from = now
        weight = self._weight(now)
        if weight > _LARGEST:
            self._rebase(now)
            weight = 1.0
        for wish in wishes:
            self._weights[wish] = self._weights.get(wish, 0) + weight
        self._pods += weight
        self._cpu += weight * pod.cpu_milli
        self._memory += weight * pod.memory_bytes
        if len(self._weights) > 2 * SHAPES:
            self._weights = _most(self._weights)

    def absorb(self, other: History, now: float) -> None:
        """Take in what another one has counted."""
        if not self._pods:
            self._from = now
        factor = self._weight(now) / other._weight(now)
        for shape, n in other._weights.items():
            self._weights[shape] = self._weights.get(shape, 0) + factor * n
        self._pods += factor * other._pods
        self._cpu += factor * other._cpu
        self._memory += factor * other._memory

    def pods(self, now: float) -> float:
        """How many pods it speaks of, faded ones for less."""
        return self._pods / self._weight(now)

    def enough(self, now: float) -> bool:
        """Whether it is better than knowing nothing."""
        return self.pods(now) >= ENOUGH

    @property
    def demands(self) -> Mapping[DemandedShape, float]:
        """Shape, and what it asks of its host -> weight; only the proportions mean something."""
        return _most(self._weights)

    @property
    def shapes(self) -> Mapping[Request, float]:
        """The same, whatever is asked of hosts."""
        found: dict[Request, float] = {}
        for wish, n in self.demands.items():
            found[wish.request] = found.get(wish.request, 0) + n
        return found

    @property
    def host(self) -> tuple[float, float]:
        """Processor in thousandths and memory in bytes that these pods asked for, in the same
        weights as `shapes`; 0 = not known."""
        return self._cpu, self._memory

    def encode(self, now: float) -> bytes:
        """The text to keep."""
        self._rebase(now)
        kept = _most(self._weights, SAVED)
        seen = tuple(
            ShapeRecord(shape=w.request, count=round(n, 6), cpu_milli=w.cpu, memory_bytes=w.memory)
            for w, n in kept.items()
        )
        cpu, memory = float(round(self._cpu)), float(round(self._memory))
        saved = SavedHistory(
            at=now, pods=round(self._pods, 6), cpu_milli=cpu, memory_bytes=memory, seen=seen
        )
        return _encode(saved)

    @classmethod
    def decode(cls, text: bytes | str, half_life_s: float = HALF_LIFE_S) -> History:
        """Read what was kept. Raises UnknownHistoryVersion, and msgspec.DecodeError (which
        msgspec.ValidationError is) for anything malformed."""
        version = _decode_version(text).version
        if version != VERSION:
            raise UnknownHistoryVersion(f"history version {version}, this release reads {VERSION}")
        saved = _decode_saved(text)
        history = cls(half_life_s)
        history._from = saved.at
        history._pods = max(saved.pods, 0)
        history._cpu, history._memory = max(saved.cpu_milli, 0), max(saved.memory_bytes, 0)
        for seen in filter(_sensible, saved.seen):
            wish = DemandedShape(seen.shape, seen.cpu_milli, seen.memory_bytes).coarse()
            history._weights[wish] = history._weights.get(wish, 0) + seen.count
        return history

    def _demands_of(self, pod: PodRequest) -> tuple[DemandedShape, ...]:
        """Equal pods come one after another and share their containers
        (`tessera_core.admission.cache`): what was made of the last one is used again."""
        host = (float(pod.cpu_milli), float(pod.memory_bytes))
        containers, last_host, wishes = self._last
        if containers is not pod.containers or last_host != host:
            shapes = map(shape_of, units(pod))
            wishes = tuple(
                DemandedShape(s, *(() if i else host)).coarse() for i, s in enumerate(shapes)
            )
            self._last = pod.containers, host, wishes
        return wishes

    def _weight(self, now: float) -> float:
        periods = (now - self._from) / self._half_life_s
        return float(2.0 ** min(max(periods, -60.0), 60.0))

    def _rebase(self, now: float) -> None:
        factor = 1 / self._weight(now)
        self._weights = {shape: n * factor for shape, n in _most(self._weights).items()}
        self._pods, self._cpu, self._memory = (
            x * factor for x in (self._pods, self._cpu, self._memory)
        )
        self._from = now


def shape_of(unit: PlacementUnit) -> Request:
    """What matters of a unit for later pods: amounts and kinds of cards, not names. Requests that
    share one card are added up as they run."""
    lead = replace(unit.lead, dialect="", ids=(), ids_denied=(), together=False, policy=Policy())
    if len(unit.parts) == 1:
        return lead
    stay = [p.request for p in unit.parts if p.container.role is not Role.INIT] or [unit.lead]
    return replace(
        lead,
        memory_bytes=sum(r.memory_bytes for r in stay),
        memory_percent=min(sum(r.memory_percent for r in stay), 100),
        memory_sizes=(),
        cores_percent=sum(r.cores_percent for r in stay),
    )


def _sensible(seen: ShapeRecord) -> bool:
    """Whether a pod can have asked so: the text may have been edited by hand."""
    shape = seen.shape
    return (
        0 < seen.count <= _LARGEST**2
        and shape.count >= 1
        and 0 <= shape.memory_bytes <= _MOST_BYTES
        and 0 <= shape.memory_percent <= _WHOLE
        and 0 <= shape.cores_percent <= _MOST_CORES
        and 1 <= shape.memory_unit <= _MOST_BYTES
        and all(0 < b <= _MOST_BYTES for one in shape.memory_sizes for b in one.memory_bytes)
        and 0 <= seen.cpu_milli <= _LARGEST
        and 0 <= seen.memory_bytes <= _MOST_BYTES
    )


def _most(weights: Mapping[DemandedShape, float], most: int = SHAPES) -> dict[DemandedShape, float]:
    if len(weights) <= most:
        return dict(weights)
    kept = sorted(weights.items(), key=lambda item: -item[1])[:most]
    return dict(kept)
