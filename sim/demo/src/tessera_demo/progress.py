"""What is known of a play while it goes on: for the screen, and for the checks' times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from tessera_demo.observations import Observations
from tessera_demo.promises import Inside, Promise
from tessera_demo.scenario import Scenario
from tessera_runtime.informers.cluster_feed import ClusterFeed

_STEPS: Final = 100
"""Steps that are remembered."""


class Progress:
    """Of one play."""

    def __init__(self, scene: Scenario, feed: ClusterFeed, clock: Callable[[], float]) -> None:
        """Nothing happened yet; `clock` in seconds."""
        self.scene = scene
        self.feed = feed
        self.seen = Observations()
        self.steps: list[str] = []
        """What was said, the last one at the end."""
        self.console = ""
        """The console's address; empty = it is not up."""
        self.inside: Mapping[tuple[str, str], Inside] = {}
        """What was seen in containers so far (`Evidence.inside`)."""
        self._clock = clock
        self._began = clock()
        self._kept: dict[str, float] = {}
        self._names: set[str] = set()

    @property
    def elapsed_s(self) -> float:
        """Since the beginning."""
        return self._clock() - self._began

    @property
    def passed(self) -> int:
        """Checks that passed so far."""
        return len(self._kept)

    def step(self, text: str) -> None:
        """Something begins."""
        self.steps = [*self.steps[1 - _STEPS :], text]

    @property
    def promised(self) -> int:
        """Checks that are known so far."""
        return len(self._names)

    def note(self, found: Iterable[Promise]) -> None:
        """Checks as they stand now."""
        for promise in found:
            self._names.add(promise.name)
            if promise.kept:
                self._kept.setdefault(promise.name, self.elapsed_s)

    def decided(self, found: Iterable[Promise]) -> list[Promise]:
        """Checks of an act that is over, with the time of each."""
        checks = list(found)
        for promise in checks:
            if not promise.kept:
                self._kept.pop(promise.name, None)
        self.note(checks)
        now = self.elapsed_s
        return [replace(p, seconds=self._kept.get(p.name, now)) for p in checks]
