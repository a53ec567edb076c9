"""Reserves the room that a plan makes for the pod that waits, by an annotation for the scheduler.

It is written before the first pod is evicted, and again, with the same end, by the process that
goes on after a crash. It lapses at its end, and when the pod is bound or gone; a plan that fails
removes it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from tessera_runtime import logs
from tessera_runtime.clock import Clock
from tessera_runtime.errors import ApiConflict, ApiNotFound, ApiRefused, Transient
from tessera_runtime.kube import paths, timestamps
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.binding import PodKey, read_back
from tessera_runtime.kube.patches import annotate
from tessera_runtime.plans.plan_store import PlanObject
from tessera_schema.annotation_keys import RESERVE_KEY
from tessera_schema.plans import Reservation, encode_reservation

_log: Final = logs.named("tessera.plans.room")


class RoomState(StrEnum):
    """What is known of the pod that waits; the value is for messages."""

    WAITS = "it waits"
    """Or there is none: the plan is about others."""
    BOUND = "the pod that waited has a node"
    GONE = "the pod that waited is gone"


class RoomReservation:
    """Writes and removes the annotation."""

    def __init__(self, kube: Kube, clock: Clock, reserve_s: float) -> None:
        """A reservation holds for `reserve_s` from the start of its plan."""
        self._kube = kube
        self._clock = clock
        self._reserve_s = reserve_s

    async def reserve(self, plan: PlanObject) -> RoomState:
        """Reserve the room on the node that the plan empties, for `reserve_s` from the plan's
        start. Raises as `Kube.call` does."""
        waits = plan.spec.for_pod
        if waits is None:
            return RoomState.WAITS
        key = PodKey(waits.namespace, waits.name, waits.uid)
        pod = await read_back(self._kube, key)
        if pod is None or pod.metadata.deletion_timestamp:
            return RoomState.GONE
        if pod.spec.node_name:
            return RoomState.BOUND
        started = timestamps.parse_time(plan.status.started) or self._clock.time()
        reservation = Reservation(
            node=plan.spec.steps[0].pod.node, until=started + self._reserve_s,
            plan=plan.name,
        )  # fmt: skip
        text = encode_reservation(reservation)
        if pod.metadata.annotations.get(RESERVE_KEY) != text:
            try:
                await self._annotate(key, text)
            except (ApiConflict, ApiNotFound):
                return RoomState.GONE
        return RoomState.WAITS

    async def release(self, plan: PlanObject) -> None:
        """Remove the reservation; where that fails it lapses at its end."""
        waits = plan.spec.for_pod
        if waits is None:
            return
        try:
            await self._annotate(PodKey(waits.namespace, waits.name, waits.uid), None)
        except (ApiRefused, Transient) as e:
            _log.info("reservation not taken away", plan=plan.name, why=str(e))

    async def _annotate(self, key: PodKey, text: str | None) -> None:
        path = paths.pod(key.namespace, key.name)
        await annotate(self._kube, path, {RESERVE_KEY: text}, uid=key.uid)
