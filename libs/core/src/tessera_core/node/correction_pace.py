"""How often a hook gets what the driver measured of its container's GPU time.

Each answer of the driver is a chance to correct the hook. Where both count the same, a correction
changes nothing; so it is left to a later answer, which then has the sum. An error that matters is
corrected by the answer that shows it, and by each of the next ones: a hook takes an error in by
parts, and learns from several what its own event times are worth.
"""

from __future__ import annotations

from typing import Final, NamedTuple

TOLERATED_NS: Final = 40_000_000
"""Nanoseconds between the two figures that a correction waits for: 1 % of a card in the four
seconds that it waits at most. Launches under way and the driver's samples move either figure by as
much."""
SETTLING: Final = 6
"""Answers without an error that matters after which the hook is right by itself: three seconds'
worth, in which it has learnt from most of what it remembers."""
MOST_SKIPPED: Final = 3
"""Answers between two corrections, at most."""


class CorrectionPace(NamedTuple):
    """Of one container on one card."""

    agreed: int = 0
    """Answers one after another without an error that matters, up to `SETTLING`."""
    skips: int = 0
    """Answers between the last correction and the next."""
    skipped: int = 0
    """Those of them that have passed."""

    @property
    def settled(self) -> bool:
        """Whether the hook was right for so long that corrections may wait."""
        return self.agreed >= SETTLING

    @property
    def urgent(self) -> bool:
        """Whether the hook has just begun, or was wrong twice within few answers, so that the next
        answer should come soon."""
        return self.agreed < SETTLING // 2

    def after(self, error_ns: int) -> CorrectionPace:
        """After one more answer. `error_ns`: what the driver measured since the last correction
        less what the hook counted."""
        if abs(error_ns) > TOLERATED_NS:
            return CorrectionPace(SETTLING // 2 if self.settled else 0)
        return self._replace(agreed=min(self.agreed + 1, SETTLING), skipped=self.skipped + 1)

    @property
    def due(self) -> bool:
        """Whether the last answer is to correct the hook."""
        return not self.settled or self.skipped > self.skips

    def corrected(self) -> CorrectionPace:
        """After a correction."""
        skips = min(2 * self.skips + 1, MOST_SKIPPED) if self.settled else 0
        return CorrectionPace(self.agreed, skips)
