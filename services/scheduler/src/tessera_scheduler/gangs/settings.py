"""Settings of gangs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from tessera_core.gang_scheduling.attempt import GangTimings
from tessera_core.gangs.gates import GatedPods
from tessera_core.gangs.queue_history import DAY_S, HistoryTerms, QueueHistory

Seconds = Annotated[float, Meta(gt=0)]


class GangSwitch(StrEnum):
    """Whether the scheduler starts gangs whole."""

    OFF = "off"
    ON = "on"


class GangReserves(StrEnum):
    """Whether cards are reserved for gangs in line that have no room."""

    OFF = "off"
    ON = "on"


class GangWrite(StrEnum):
    """Whose objects' statuses the scheduler writes."""

    PROFILES = "profiles"
    """Those whose scheduler's name is one of `TESSERA_WEBHOOK_SCHEDULERS`."""
    VOLCANO = "volcano"
    """PodGroups and Queues of Volcano."""
    KOORDINATOR = "koordinator"
    """PodGroups of Koordinator."""
    ELASTIC_QUOTAS = "elastic-quotas"
    """ElasticQuotas of Koordinator. Not by default: koord-scheduler, where it goes on serving pods
    without cards, writes more of them."""
    NONE = "none"


class GangSettings(Struct, frozen=True, kw_only=True):
    """Whether pods of a gang start together, and how long a start may take."""

    scheduling: GangSwitch = GangSwitch.OFF
    """`on`: of a gang either as many pods start together as its minimum says, or none. `off`: its
    pods are placed one by one. The component `gangs` switches it on, with the right to read
    PodGroups."""
    gates: GatedPods = GatedPods.WHILE_OTHERS_WAIT
    """Which new pods get the scheduling gate `tessera.dev/admission` until it is their turn, where
    gangs start whole: `while-others-wait`, those that name a gang or a queue as long as others wait
    for room or for their turn, and members without cards always; `gangs+queues`, all that name a
    gang or a queue; `gangs`; or `none`. It costs a write for each pod, and spares kube-scheduler
    all attempts before the turn."""
    barrier_s: Seconds = 15.0
    """Seconds from the first bind call of a gang to its last. kube-scheduler gives a call up after
    the `httpTimeout` of the extender's configuration, which is 30 s: it has to be longer than this
    and the Binding together. 15 s are enough for some 1,000 members."""
    http_timeout_s: Seconds = 30.0
    """The `httpTimeout` of the extender in kube-scheduler's configuration, in seconds, as it is
    written there: the scheduler refuses to start with a barrier that kube-scheduler would not wait
    for."""
    reservation_s: Seconds = 60.0
    """Seconds for which a gang has its cards until its first bind call."""
    gather_s: Seconds = 0.05
    """Seconds for which changes are gathered before gangs are looked through."""
    dissolve_s: Annotated[float, Meta(ge=0)] = 300.0
    """Seconds after which the pods of a gang are evicted that have a node, where the others find
    none and the gang has never started; 0 = never. A RebalancePlan of the kind `Dissolve` says so
    before, and declining it keeps them."""

    reserve_in_line: GangReserves = GangReserves.ON
    """`on`: the first gang in line for each card model has the cards reserved that it will get once
    pods have ended, and others pass only where they do not delay it, where gangs start whole.
    `off`: whatever comes free is taken by what fits, so a large gang may wait for ever."""
    starve_s: Seconds = 600.0
    """Seconds that a gang waits until cards are reserved for it of which nobody knows when they
    come free. Those of which it is known are reserved at once."""

    history_weight: Annotated[float, Meta(ge=0, le=100)] = 0.0
    """How strongly what a queue has used of cards in the past counts against its weight: with 1, a
    queue that used twice its part has half of its weight left. KAI's `kValue`. 0 = not at all."""
    history_half_life_s: Annotated[float, Meta(ge=60, le=31_536_000)] = DAY_S
    """Seconds after which what was used counts half, a minute to a year. A day lets a team have the
    nights that another one had before it; use is recorded every 5 s, so less than a minute says
    little."""

    write: tuple[GangWrite, ...] = (GangWrite.PROFILES,)
    """Whose statuses are written, where gangs start whole. A list with commas between; `none` is
    written alone. Statuses of Kubernetes' and of the coscheduling plugin's PodGroups are never
    written: kube-scheduler and the plugin's controller do it."""

    @property
    def on(self) -> bool:
        """Whether gangs start whole."""
        return self.scheduling is GangSwitch.ON

    @property
    def reserves(self) -> bool:
        """Whether cards are reserved for gangs in line."""
        return self.reserve_in_line is GangReserves.ON

    @property
    def history(self) -> QueueHistory | None:
        """A history of queues that begins now; None where the past does not count."""
        if not self.history_weight:
            return None
        return QueueHistory(
            HistoryTerms(weight=self.history_weight, half_life_s=self.history_half_life_s)
        )

    @property
    def timings(self) -> GangTimings:
        """The same for the coordinator."""
        return GangTimings(reservation_s=self.reservation_s, barrier_s=self.barrier_s)
