"""What an operator may set of the console: variables `TESSERA_<FIELD>_<SUBFIELD>`."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.errors import BadSettings
from tessera_runtime.service_settings import ServiceSettings

Seconds = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(gt=0)]

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class RightsSettings(Struct, frozen=True, kw_only=True):
    """How long the API server's answers about callers are remembered, and how many."""

    cache_s: Seconds = 20.0
    """Seconds for which a token's owner and its rights count: so long does a right that was taken
    away still show something."""
    callers: Count = 512
    """Callers whose rights are remembered; the one that came least recently goes."""
    namespaces: Count = 500
    """Namespaces of which is asked, for a caller who may not list the pods of all: each costs the
    API server two reviews in `cache_s`. Pods of others are shown without names."""
    reviews_at_once: Count = 16
    """Reviews under way."""


class StreamSettings(Struct, frozen=True, kw_only=True):
    """What open pages get."""

    every_s: Seconds = 2.0
    """Seconds between two sets of differences: agents report as often."""
    most: Count = 64
    """Open pages; one more is refused, with a sentence."""
    write_s: Seconds = 20.0
    """Seconds in which a page has to take what was sent; it connects again otherwise."""


class HistorySettings(Struct, frozen=True, kw_only=True):
    """What is remembered of use, in memory."""

    every_s: Seconds = 30.0
    """Seconds between two points."""
    points: Count = 120
    """Points of a card and of a pod: an hour."""
    series: Count = 40_000
    """Cards and pods together; of those beyond nothing is remembered. 20,000 are 40 MiB."""
    events: Count = 500
    """Messages of the bus that are remembered."""


class ConsoleSettings(ServiceSettings, frozen=True, kw_only=True):
    """All settings of the console."""

    instance: str = "console"
    """This process's name."""
    access: Literal["token", "open"] = "token"
    """`token`: each request has a token of the cluster, and shows what its owner may list.
    `open`: everybody sees everything, on this machine's own address alone."""
    acts: bool = False
    """Whether plans may be approved and declined, with the caller's own token."""
    bus: BusSettings = BusSettings(arrange=False, tidy=False, idle_s=60.0)
    """It reads as the user `viewer`, who may delete no consumer: NATS forgets them."""
    rights: RightsSettings = RightsSettings()
    stream: StreamSettings = StreamSettings()
    history: HistorySettings = HistorySettings()
    answers_s: Seconds = 10.0
    """Seconds for which the scheduler's answers why pods wait count, for each caller."""
    look_s: Seconds = 60.0
    """Seconds between two looks for kinds that are not installed."""

    def check(self) -> None:
        """Raises BadSettings."""
        if self.access == "open" and self.http.host not in LOOPBACK:
            raise BadSettings(
                f"access: 'open' with http.host {self.http.host!r}: everybody who reaches the port "
                "would see every pod: write 127.0.0.1, or access 'token'"
            )
