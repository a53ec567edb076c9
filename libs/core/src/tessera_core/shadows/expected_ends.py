"""When pods are expected to end, by what they say themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from tessera_schema.annotation_keys import EXPECTED_KEY
from tessera_schema.kube import Pod

KUEUE_LABEL: Final = "kueue.x-k8s.io/max-exec-time-seconds"
LATE_S: Final = 60.0
"""Seconds that a pod which should have ended is given at least."""
UNKNOWN_S: Final = 3600.0
"""Seconds that a pod of which nobody knows is thought to go on for at least."""


MOST_S: Final = 100 * 365 * 86400.0
"""A pod that is said to go on for longer is one of which nobody knows."""


class LifeSpan(Struct, frozen=True):
    """When a pod started and how long it lasts, as `PodLifetime` has it."""

    since: float = 0
    lasts_s: float | None = None
    owner: str = ""


UNSAID: Final = LifeSpan()


class PodLifetime(Struct, frozen=True):
    """A pod that has its cards."""

    pod: Pod
    since: float
    """When it started, in seconds of the caller's clock."""
    lasts_s: float | None = None
    """Seconds from its start to its end as far as is known; None = nobody knows."""
    owner: str = ""
    """What is the same for its successors (`owner_of`); empty where that does not matter."""

    def ends(self, now: float) -> float | None:
        """When it is expected to end. One that is late ends in as many seconds as it is late, in
        `LATE_S` at least."""
        if self.lasts_s is None:
            return None
        end = self.since + self.lasts_s
        return end if end > now else now + max(now - end, LATE_S)

    def thought_to_end(self, now: float) -> float:
        """The same; one of which nobody knows goes on for as long as it has run, for `UNKNOWN_S`
        at least."""
        end = self.ends(now)
        return now + max(now - self.since, UNKNOWN_S) if end is None else end


def lasts_s(pod: Pod) -> float | None:
    """Seconds from the pod's start to its expected end: the least that is said; None where nothing
    is. What is no number of seconds, or more
    than `MOST_S`, says nothing."""
    return min(_said(pod), default=None)


def all_last_s(pods: Iterable[Pod]) -> float | None:
    """Seconds from a start of all pods until the last has ended; None where one does not say."""
    said = [lasts_s(pod) for pod in pods]
    known = [seconds for seconds in said if seconds is not None]
    return max(known, default=None) if len(known) == len(said) else None


def _said(pod: Pod) -> Iterator[float]:
    deadline = pod.spec.active_deadline_seconds
    if deadline is not None and 0 < deadline <= MOST_S:
        yield float(deadline)
    meta = pod.metadata
    for text in (meta.labels.get(KUEUE_LABEL), meta.annotations.get(EXPECTED_KEY)):
        try:
            seconds = float(text or 0)
        except ValueError:
            continue
        if 0 < seconds <= MOST_S:
            yield seconds
