"""Containers that do nothing, as most of a node's do: from one sample to the next it is enough that
the driver and the beginnings of their cards' records show the same."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from tessera_agent.containers.hook_files import ContainerFiles, ContainerKey
from tessera_agent.usage.usage_counters import OpenUsageFiles
from tessera_core.node.usage_rates import DriverSample, UsageSample, is_settled

_WHOLE: Final = 5
"""Samples of which one reads the whole file: a process that ends shows nowhere else."""


class QuietContainers:
    """What was seen of them at the sample before."""

    def __init__(self) -> None:
        self._usage_files = OpenUsageFiles(0)
        self._seen: dict[ContainerKey, list[bytes | None]] = {}
        self._samples = 0

    def begin(self, keys: Collection[ContainerKey]) -> None:
        """Begin another sample, of these containers; others are forgotten."""
        self._samples += 1
        self._usage_files.keep_only(keys)
        for key in self._seen.keys() - set(keys):
            del self._seen[key]

    def go_on(
        self, number: int, key: ContainerKey, files: ContainerFiles, before: UsageSample,
        driven: Mapping[str, DriverSample], wall_ns: int,
    ) -> bool:  # fmt: skip
        """Whether the container does what it did at the sample `before`, which was nothing. Files
        are read as a whole in turns, by the container's `number`. Never raises."""
        if not is_settled(before, files.limits, driven, wall_ns):
            self._seen.pop(key, None)
            return False
        cards = files.limits.cards
        seen = [self._usage_files.record(key, files, card.uuid).data() for card in cards]
        known, self._seen[key] = self._seen.get(key), seen
        return seen == known and (number + self._samples) % _WHOLE != 0
