"""What smoothing yields: containers, cards and nodes as they were over the last minutes."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Seconds = Annotated[float, Meta(gt=0)]
Key = tuple[str, str, str]
"""Pod uid, container, card."""


class SmoothingConstants(Struct, frozen=True, kw_only=True):
    """How much of the past counts. All in seconds."""

    load_s: Seconds = 60.0
    """Time constant of GPU time: minutes, for what changes faster is lending's business."""
    slow_s: Seconds = 900.0
    """Time constant of what GPU time is compared with to see a trend."""
    rise_s: Seconds = 3.0
    """Time constant with which waiting is believed: the message that shows it first, of one
    measurement of two seconds, counts half, and the next nearly whole."""
    fall_s: Seconds = 60.0
    """Time constant with which waiting is forgotten."""
    peak_s: Seconds = 1800.0
    """Time constant with which the most that was used is forgotten."""
    stale_s: Seconds = 30.0
    """What was not measured for longer is left out: agents publish every ten seconds."""
    keep_s: Seconds = 600.0
    """After so much silence a card, a container or a node starts again."""


class SmoothContainer(Struct, frozen=True, kw_only=True, gc=False):
    """One container on one card."""

    key: Key
    """What grants are looked up by."""
    cores_percent: float
    """GPU time, percent of the card."""
    cores_peak_percent: float
    """The most of it, forgotten slowly."""
    cores_limit_percent: float
    """In force when it was measured last, loans included; 0 = none."""
    waiting_percent: float
    """Time that its launches were held back, 0 to 100; quick to rise, slow to fall."""
    held_percent: float = 0
    """The same as a mean over the time of `cores_percent`."""
    memory_bytes: int
    """When it was measured last."""
    memory_peak_bytes: int
    """The most, forgotten slowly."""
    memory_day_peak_bytes: int = 0
    """The most of the last 24 hours, as the agent says; 0 = it does not."""
    confidence: float
    """0 = hardly measured yet, 1 = measured for long enough."""

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.key[0]

    @property
    def container(self) -> str:
        """The container's name."""
        return self.key[1]

    @property
    def card(self) -> str:
        """The card's id."""
        return self.key[2]


class SmoothCard(Struct, frozen=True, kw_only=True):
    """One card, with the containers that hold parts of it."""

    vendor: str
    card: str
    busy_percent: float
    """GPU time of everybody on it."""
    crowded_percent: float
    """How much of the time several containers kept all of it busy, 0 to 100; quick to rise, slow
    to fall."""
    trend_percent: float
    """How `busy_percent` changes, per hour; no more than 100 either way."""
    confidence: float
    """See `SmoothContainer.confidence`."""
    reclaims: bool = False
    """See `CardLoad.reclaims`."""
    containers: tuple[SmoothContainer, ...] = ()


class SmoothNode(Struct, frozen=True, kw_only=True):
    """All cards of a node that were measured lately, of all vendors."""

    node: str
    at: float
    """Unix time in seconds of the newest measurement, by the node's clock."""
    cards: tuple[SmoothCard, ...] = ()
