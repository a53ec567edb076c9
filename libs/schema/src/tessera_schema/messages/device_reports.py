"""What agents report: the state of cards, and what the hook measured.

Messages are not the truth: the durable inventory is the node's annotation, limits are in the limits
files. What containers and cards use is written without fields that have their defaults: a digest of
a node of 8 cards and 10 pods has 5 KB, not 8.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from tessera_schema.cards import Card
from tessera_schema.grants import Share
from tessera_schema.json_codec import decoder

DRIVER: Final = "driver"
"""`CardUse.measured_by` where no hook measures."""


class Occupied(Struct, frozen=True, kw_only=True):
    """Containers that still run although their pod is gone."""

    uid: str
    namespace: str
    name: str
    shares: tuple[Share, ...]


class CardHeld(Struct, frozen=True, kw_only=True):
    """What containers hold of one card, as they were granted it, whatever they use."""

    card: str
    containers: int
    memory_bytes: int = 0
    cores_percent: float = 0


class DeviceState(Struct, frozen=True, kw_only=True):
    """One vendor's cards on one node, whole. A card that is missing is gone."""

    node: str
    vendor: str
    cards: tuple[Card, ...] = ()
    driver: str = ""
    """The driver's version, where it can be read."""
    problems: tuple[str, ...] = ()
    """What is wrong with the node's driver, runtime or cards, a sentence each."""
    occupied: tuple[Occupied, ...] = ()
    """Shares of this vendor's cards that are still used without a pod: they are not free yet."""
    held: tuple[CardHeld, ...] | None = None
    """By card, all containers that were created and have not ended, those in `occupied` included;
    None = the agent does not say."""


class CardUse(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One container's use of one card. Measured by the hook unless `measured_by` says otherwise."""

    card: str
    memory_bytes: int = 0
    """At the interval's end, as everything here that is a state."""
    memory_mean_bytes: int = -1
    """Over the interval. Below 0 = not said: as at its end."""
    memory_peak_bytes: int = 0
    """The most in the interval, where that is more than at its end: of what was measured, and of
    what the hook saw between two measurements."""
    memory_day_peak_bytes: int = 0
    """The most of the last 24 hours, the running one included. 0 = not said."""
    allocated_bytes_per_s: int = 0
    """Memory that was taken over the interval, whatever was given back: whole pages, and pools as
    they grow."""
    memory_limit_bytes: int = 0
    """0 = none in force."""
    context_bytes: int = 0
    """Contexts, with modules where both are measured together; they are part of `memory_bytes` only
    where they are charged."""
    module_bytes: int = 0
    """Modules, where they are measured by themselves."""
    buffer_bytes: int = 0
    """What the processes allocated."""
    managed_bytes: int = 0
    """Of that, what the driver moves between the card and the host's memory."""
    cores_percent: float = 0
    """GPU time over the interval, percent of the card."""
    cores_peak_percent: float = 0
    """The most that was measured within it, where it is of several measurements."""
    idle_percent: float = -1
    """Percent of the interval in whose measurements there was no GPU time at all. Below 0 = not
    said: the whole of it where `cores_percent` is 0, else nothing."""
    cores_limit_percent: float = 0
    """0 = none in force."""
    throttled_percent: float = 0
    """Time that launches were held back over the interval, percent of it. In one measurement more
    than 100 where several threads waited; of several measurements each counts 100 at most."""
    launches: int = 0
    """Within the interval."""
    kernel_times: tuple[int, ...] = ()
    """Launches within the interval by how long they ran, as far as the hook measured it: in item 0
    those of less than 4.096 us, in each further one up to twice as long, in the sixteenth all the
    others. Items after the last that is not 0 are left out."""
    kernel_p50_us: float = 0
    """The time within which half of them ended, in microseconds; 0 = none was measured."""
    kernel_p99_us: float = 0
    """The same of 99 in 100."""
    denials: int = 0
    """Allocations refused within the interval."""
    failed_for_others: int = 0
    """Allocations within the interval that the driver refused although the limit had room."""
    processes: int = 0
    last_active: float = 0
    """Unix time in seconds; 0 = never."""
    measured_by: str = "hook"


class ContainerUse(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What one container that holds shares uses."""

    namespace: str
    pod: str
    uid: str
    container: str
    cards: tuple[CardUse, ...] = ()
    enforced: bool = True
    """False when something shows that limits do not hold (no hook, gaps, use above charge)."""
    gaps: tuple[str, ...] = ()
    """Why not, a word each."""


class CardLoad(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A card as a whole, as its driver sees it."""

    card: str
    memory_used_bytes: int = 0
    cores_percent: float = 0
    memory_busy_percent: float = -1
    """Time in which its memory was read or written; below 0 = the driver did not say."""
    crowded_percent: float = -1
    """How much of the interval several containers kept all of it busy; below 0 = not said, and to
    be taken from `cores_percent`."""
    healthy: bool = True
    reclaims: bool = False
    """Whether the agent takes memory of it back from best-effort containers for its owners, and
    none was short of it in the last hour. False as well where the agent does not say."""


class NodeUsage(Struct, frozen=True, kw_only=True):
    """One vendor's cards on one node over the last interval: of one measurement, or of several."""

    node: str
    vendor: str
    at: float
    """Unix time in seconds at the interval's end."""
    interval_s: float
    containers: tuple[ContainerUse, ...] = ()
    cards: tuple[CardLoad, ...] = ()


_encode = msgspec.json.Encoder().encode
_decode_device = decoder(DeviceState)
_decode_usage = decoder(NodeUsage)


def encode(report: DeviceState | NodeUsage) -> bytes:
    """The message's data."""
    return _encode(report)


def decode_device(data: bytes) -> DeviceState:
    """Raises msgspec.DecodeError."""
    return _decode_device(data)


def decode_usage(data: bytes) -> NodeUsage:
    """Raises msgspec.DecodeError."""
    return _decode_usage(data)
