"""One AcceleratorQuota through time: its phase, since when, and the hours it has used.

Grace is measured by the loop's clock. The status says what of it had passed before a restart, so
that a restart neither lengthens nor shortens it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from tessera_core.machines.throttle import (
    Event,
    Exceeded,
    GraceExpired,
    ReturnedBelow,
    ThrottlePhase,
    advance,
)
from tessera_runtime.kube import timestamps
from tessera_schema.quotas import Hours, QuotaStatus

MOST_HOURS: Final = 10_000_000_000
"""Of cards: 100,000 of them for eleven years. A status that says more is not counted on."""


class PhaseChange(StrEnum):
    """What an evaluation changed."""

    NOTHING = "nothing"
    EXCEEDED = "exceeded"
    THROTTLED = "throttled"
    RESTORED = "restored"


_CHANGES = {
    ThrottlePhase.GRACE: PhaseChange.EXCEEDED,
    ThrottlePhase.THROTTLED: PhaseChange.THROTTLED,
    ThrottlePhase.WITHIN: PhaseChange.RESTORED,
}


class QuotaState:
    """The phase and the counted hours of one quota."""

    def __init__(self, before: QuotaStatus, *, wall: float, now: float) -> None:
        """`before` is the status that the object carries; `wall` is Unix time, `now` the loop's."""
        self.phase = ThrottlePhase.WITHIN
        since = timestamps.parse_time(before.phase_since)
        for event in _how_to_reach(before.phase):
            self.phase = advance(self.phase, event)
        known = since is not None and self.phase.value == before.phase
        self.since = min(since, wall) if known and since is not None else wall
        """Unix time at which the phase began."""
        self._began = now - (wall - self.since)
        hours = before.hours if _sensible(before.hours) else Hours()
        self._hours_since = timestamps.parse_time(hours.since) or wall
        self._granted_h, self._seen_h = hours.granted, hours.seen
        self._counted_at = now
        self._gpu_seconds: float | None = None

    def evaluate(
        self, over: str, after_s: float, *, throttles: bool, wall: float, now: float
    ) -> PhaseChange:
        """Enter the phase that follows from `over`, what is used beyond the quota (empty =
        nothing). Grace lasts `after_s`; without `throttles` no throttle follows it."""
        before = self.phase
        self._advance(Exceeded() if over else ReturnedBelow(), wall, now)
        if self.phase is ThrottlePhase.GRACE and throttles and now - self._began >= after_s:
            self._advance(GraceExpired(), wall, now)
        if self.phase is before:
            return PhaseChange.NOTHING
        return _CHANGES[self.phase]

    def count(self, parts: float, gpu_seconds: float, now: float) -> None:
        """Add hours: `parts` cards have been held since the last count, and `gpu_seconds` were
        measured since this process began."""
        self._granted_h += parts * (now - self._counted_at) / 3600
        if self._gpu_seconds is not None:
            self._seen_h += max(gpu_seconds - self._gpu_seconds, 0) / 3600
        self._counted_at, self._gpu_seconds = now, gpu_seconds

    @property
    def hours(self) -> Hours:
        """The hours so far, rounded to 0.0001."""
        return Hours(
            since=timestamps.format_time(self._hours_since), granted=round(self._granted_h, 4),
            seen=round(self._seen_h, 4),
        )  # fmt: skip

    def _advance(self, event: Event, wall: float, now: float) -> None:
        phase = advance(self.phase, event)
        if phase is not self.phase:
            self.phase, self.since, self._began = phase, wall, now


def _sensible(hours: Hours) -> bool:
    return 0 <= hours.granted <= MOST_HOURS and 0 <= hours.seen <= MOST_HOURS


def _how_to_reach(phase: str) -> tuple[Event, ...]:
    match phase:
        case ThrottlePhase.GRACE:
            return (Exceeded(),)
        case ThrottlePhase.THROTTLED:
            return (Exceeded(), GraceExpired())
        case _:
            return ()
