"""Settings of preemption per card."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from tessera_core.preemption.potential_victims import PreemptionRules

Seconds = Annotated[float, Meta(gt=0)]


class PreemptionSwitch(StrEnum):
    """What the scheduler does for a pod that waits for cards of pods of lower priority."""

    OFF = "off"
    SHOW = "show"


class PreemptionSettings(Struct, frozen=True, kw_only=True):
    """Whether it is worked out who would have to go for a pod that waits."""

    mode: PreemptionSwitch = PreemptionSwitch.SHOW
    """`show`: `tessera explain` says who would have to go, and nobody is evicted. `off`: nothing is
    kept of running pods for it."""
    protect_s: Annotated[float, Meta(ge=0)] = 60.0
    """Seconds after its start in which a pod is no victim."""
    search_s: Seconds = 10.0
    """Seconds after which the search for one pod is given up. It goes in slices of some
    milliseconds, between which kube-scheduler is answered."""

    @property
    def enabled(self) -> bool:
        """Whether it is worked out at all."""
        return self.mode is not PreemptionSwitch.OFF

    @property
    def rules(self) -> PreemptionRules:
        """The same for the search."""
        return PreemptionRules(protect_s=self.protect_s)
