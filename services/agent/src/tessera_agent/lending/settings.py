"""What can be set of lending."""

from __future__ import annotations

from msgspec import Struct

from tessera_runtime.errors import BadSettings
from tessera_runtime.kube.settings import Seconds


class LendingSettings(Struct, frozen=True, kw_only=True):
    """Idle cores, lent on the card (docs/lending.md)."""

    enabled: bool = True
    """Whether idle cores are lent, and whether containers of low priority wait for others."""
    tick_s: Seconds = 0.1
    """Seconds between looks: an owner that launches has its cores back with the next one."""
    loan_s: Seconds = 1.0
    """Seconds after which a loan, or a hold, that is not renewed ends by itself."""
    idle_s: Seconds = 0.5
    """Seconds without a launch after which all of a container's cores are lent."""
    active_s: Seconds = 3.0
    """Seconds after a launch for which a container holds those of lower priority."""
    most_percent: float = 100.0
    """Of a card, up to which a container may be lent to where nothing else says; below what it
    was granted, nothing is."""
    bounds_s: Seconds = 90.0
    """Seconds for which the rebalancer's bounds count: it publishes them again every 30."""

    def check(self) -> None:
        """Raises BadSettings."""
        if self.loan_s < 2 * self.tick_s:
            raise BadSettings(
                f"lending.loan_s: {self.loan_s:g}: write at least twice lending.tick_s "
                f"({self.tick_s:g}), or loans would end between two looks"
            )
