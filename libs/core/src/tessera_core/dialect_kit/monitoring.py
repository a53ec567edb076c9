"""What an agent must know about one make of hardware to watch its cards: a value that each module
of `tessera_core.vendors` offers as `MONITORING`, next to `VENDOR`.

It decides nothing by itself: `tessera_agent` reads, `machines.health` remembers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from tessera_core.dialect_kit.readings import Readings
from tessera_schema.cards import Card

_NUMBERS: Final = re.compile(r"\d+(?:\.\d+)*")


class MinimumVersion(Struct, frozen=True, kw_only=True):
    """A version that the vendor's sharing needs."""

    of: str
    """Field of Readings: driver, api or toolkit."""
    name: str
    """What it is a version of, for messages."""
    version: str
    above: bool = False
    """True: newer than `version`; False: `version` will do."""


class CompetingPlugin(Struct, frozen=True, kw_only=True):
    """Something else that hands out the same cards."""

    name: str
    socket: str
    """Pattern of its socket's path below kubelet's folder."""


class CompetingSystem(Struct, frozen=True, kw_only=True):
    """Another system that hands out the same cards, as the API server shows it."""

    name: str
    images: tuple[str, ...] = ()
    """Parts of the image names of its DaemonSets."""
    owner: str = ""
    """Kind of the object that owns such a DaemonSet; empty = any, or none."""
    webhooks: tuple[str, ...] = ()
    """Names of webhooks by which it gives pods to its own scheduler."""
    remedy: str = ""
    """Command that removes it from nodes: `{namespace}` and `{name}` are the DaemonSet's, `{nodes}`
    those on which an agent runs as well."""
    leaves: str = ""
    """Command that takes it off one node: `{namespace}` and `{name}` as above, `{node}`."""
    returns: str = ""
    """Command that puts it back there."""


class MonitoringSpec(Struct, frozen=True, kw_only=True):
    """One make of hardware, from its agent's side."""

    vendor: str
    cards: Callable[[Readings, int], tuple[tuple[Card, ...], tuple[str, ...]]]
    """Readings and slots per card -> cards as if all were healthy, and a sentence for whatever is
    odd about them. With `counted` it returns `Readings.counted`, slots included."""
    counted: bool = False
    """True: cards are known only from what the vendor's plugin published on the node
    (`Readings.counted`), so that seeing none says nothing about them."""
    application_faults: frozenset[int] = frozenset()
    """Codes of faults that a program brings upon itself: the card is well."""
    reset_faults: frozenset[int] = frozenset()
    """Codes after which good polls prove nothing until the driver was opened again."""
    minimums: tuple[MinimumVersion, ...] = ()
    competing_plugins: tuple[CompetingPlugin, ...] = ()
    competing_systems: tuple[CompetingSystem, ...] = ()
    """The first that matches a DaemonSet says what it is."""
    hardware_signs: tuple[str, ...] = ()
    """Labels, annotations and resource names by which other programs show that a node has cards."""
    handler_setup: str = ""
    """Command that configures the runtime handler that the vendor's RuntimeClass names, on a
    node."""


def version_problems(minimums: Sequence[MinimumVersion], readings: Readings) -> tuple[str, ...]:
    """A sentence for each version that can be read and is too old."""
    problems = []
    for minimum in minimums:
        text = getattr(readings, minimum.of)
        if text and not _suffices(text, minimum):
            needed = f"newer than {minimum.version}" if minimum.above else minimum.version
            problems.append(
                f"{minimum.name} is version {text}, sharing needs {needed}"
                f"{'' if minimum.above else ' or newer'}: upgrade it"
            )
    return tuple(problems)


def _suffices(text: str, minimum: MinimumVersion) -> bool:
    found = _NUMBERS.search(text)
    if found is None:
        return True
    have, need = _numbers(found.group()), _numbers(minimum.version)
    length = max(len(have), len(need))
    padded = [v + (0,) * (length - len(v)) for v in (have, need)]
    return padded[0] > padded[1] or (padded[0] == padded[1] and not minimum.above)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part[:9]) for part in text.split("."))
