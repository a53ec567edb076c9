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
    ON = "on"


class PreemptionSettings(Struct, frozen=True, kw_only=True):
    """Whether it is worked out who would have to go for a pod that waits."""

    mode: PreemptionSwitch = PreemptionSwitch.SHOW
    """`show`: `tessera explain` says who would have to go, and nobody is evicted. `off`: nothing is
    kept of running pods for it. `on`: they are evicted, by plans (docs/preemption.md); the
    component `preemption` gives the rights."""
    reclaim: bool = False
    """Whether pods count as well, of any priority, of queues that use more than they deserve, for
    one of another queue of their tree (docs/preemption.md). Queues are read where gangs start
    whole."""
    protect_s: Annotated[float, Meta(ge=0)] = 60.0
    """Seconds after its start in which a pod is no victim."""
    after_s: Seconds = 5.0
    """Seconds that a pod has waited for room before others are evicted for it."""
    evict_s: Seconds = 60.0
    """Seconds for which an eviction is tried again that a disruption budget does not allow."""
    promise_s: Seconds = 900.0
    """Seconds from the start of a plan for which cards are promised to the pod that waits."""
    preemptors: tuple[str, ...] = ("tessera-scheduler",)
    """`schedulerName` of the pods for which others are evicted."""
    search_s: Seconds = 10.0
    """Seconds after which the search for one pod is given up. It goes in slices of some
    milliseconds, between which kube-scheduler is answered."""

    @property
    def enabled(self) -> bool:
        """Whether it is worked out at all."""
        return self.mode is not PreemptionSwitch.OFF

    @property
    def evicts(self) -> bool:
        """Whether pods are evicted."""
        return self.mode is PreemptionSwitch.ON

    @property
    def rules(self) -> PreemptionRules:
        """The same for the search."""
        return PreemptionRules(protect_s=self.protect_s)
