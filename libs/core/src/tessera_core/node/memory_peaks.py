"""The most memory that a container had on a card, by hours: 24 numbers for each."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

DAY_HOURS: Final = 24


class HourlyPeaks(Struct, frozen=True):
    """The last hours' peaks, the running one among them."""

    hour: int = 0
    """Since 1970: that of the first."""
    most_bytes: tuple[int, ...] = ()
    """The newest hour first; at most `DAY_HOURS`."""

    def moved_to(self, hour: int) -> HourlyPeaks:
        """The same at a later hour. After a clock was turned back, the peaks are those of the hours
        before the one that it says."""
        passed = hour - self.hour
        if not passed:
            return self
        if passed < 0 or not self.most_bytes:
            return HourlyPeaks(hour, self.most_bytes)
        passed = min(passed, DAY_HOURS)
        return HourlyPeaks(hour, ((0,) * passed + self.most_bytes)[:DAY_HOURS])

    def noted(self, hour: int, memory_bytes: int) -> HourlyPeaks:
        """With so much in one of the hours up to the running one; older ones are left out."""
        ago = self.hour - hour
        if not 0 <= ago < DAY_HOURS:
            return self
        most = [*self.most_bytes, *(0,) * (ago + 1 - len(self.most_bytes))]
        if most[ago] >= memory_bytes and len(most) == len(self.most_bytes):
            return self
        most[ago] = max(most[ago], memory_bytes)
        return HourlyPeaks(self.hour, tuple(most))

    def peak_bytes(self, hours: int = DAY_HOURS) -> int:
        """The most of the running hour and the `hours - 1` before it."""
        return max(self.most_bytes[:hours], default=0)
