"""How long processes kept a card busy since the last reading, from a driver's figures that only
grow.

Each reader of the figures has counters of its own, so that what one has taken is not missing to the
other. A driver that is opened again counts from 0: what it had not reported by then is lost.
"""

from __future__ import annotations

from tessera_core.dialect_kit.readings import CardReading


class GpuBusyCounters:
    """One reader's counters, of all cards."""

    def __init__(self) -> None:
        self._sampled_us: dict[str, int] = {}
        self._busy_ns: dict[str, dict[int, int]] = {}

    def since(self, card: CardReading) -> dict[int, int] | None:
        """Nanoseconds by process since the reading that was given before, which must be an earlier
        one; None where there is none, or no sample is newer."""
        before_us, before_ns = self._sampled_us.get(card.id), self._busy_ns.get(card.id, {})
        self._sampled_us[card.id] = card.sampled_us
        self._busy_ns[card.id] = {process.pid: process.busy_ns for process in card.processes}
        if before_us is None or card.sampled_us <= before_us:
            return None
        return {
            process.pid: _grown(max(before_ns.get(process.pid, 0), 0), process.busy_ns)
            for process in card.processes
        }


def _grown(before_ns: int, now_ns: int) -> int:
    """A smaller figure is that of another process."""
    return now_ns - before_ns if now_ns >= before_ns else max(now_ns, 0)
