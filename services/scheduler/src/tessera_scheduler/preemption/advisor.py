"""Says who would have to go so that a pod that waits fits. Nobody is evicted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from msgspec.structs import replace

from tessera_core.gangs.quorum import minimum_members
from tessera_core.gangs.scratch import MemberRequest
from tessera_core.preemption.eviction_trials import Preemptor
from tessera_core.preemption.messages import NOT_DONE, sentence
from tessera_core.preemption.preemption import (
    NoPreemption,
    Preemption,
    PreemptionPlanner,
    PreemptionView,
)
from tessera_core.preemption.victim_columns import VictimColumns
from tessera_core.preemption.victim_units import gang_priority, priority_of
from tessera_core.rebalance.disruption_budgets import Disruption
from tessera_core.slices import Slices
from tessera_runtime import logs
from tessera_runtime.clock import Clock
from tessera_runtime.errors import TesseraError
from tessera_runtime.informers.disruption_budgets import list_budgets
from tessera_runtime.kube.api import Kube
from tessera_runtime.slice_runner import in_slices
from tessera_scheduler.gangs.scheduling import GangScheduling
from tessera_scheduler.preemption.cluster_views import ClusterViews
from tessera_scheduler.preemption.settings import PreemptionSettings
from tessera_schema.kube import Pod
from tessera_schema.requests import PodRequest

ClosedNodes = Callable[[PodRequest, int], Collection[str]]
"""The nodes that a pod of this priority has to leave to others."""
_NEVER: Final = "Never"
_NO_BUDGETS: Final = "; disruption budgets could not be read"
_log: Final = logs.named("tessera.scheduler.preemption")


class PreemptionAdvisor:
    """Answers for pods that fit nowhere."""

    def __init__(
        self,
        kube: Kube,
        views: ClusterViews,
        gangs: GangScheduling | None,
        closed: ClosedNodes,
        clock: Clock,
        *,
        settings: PreemptionSettings,
    ) -> None:
        """`closed` are the nodes that are kept for others than a pod."""
        self._kube = kube
        self._views = views
        self._gangs = gangs
        self._closed = closed
        self._clock = clock
        self._settings = settings
        self._columns = VictimColumns(settings.rules)
        self._one_by_one = asyncio.Lock()
        """Answers share the columns."""

    async def advice(self, pod: Pod, request: PodRequest) -> str:
        """Who would have to go for the pod, or for its gang, in a sentence."""
        found, unread = await self.find(pod, request)
        done = "" if self._settings.evicts else f"; {NOT_DONE}"
        return f"{sentence(found)}{unread}{done}"

    async def find(self, pod: Pod, request: PodRequest) -> tuple[Preemption | NoPreemption, str]:
        """Who would have to go, and what could not be read for that."""
        try:
            budgets, unread = tuple(await list_budgets(self._kube)), ""
        except TesseraError as e:
            _log.warning("disruption budgets not read", why=str(e))
            budgets, unread = (), _NO_BUDGETS
        try:
            async with asyncio.timeout(self._settings.search_s), self._one_by_one:
                return await in_slices(self._search(pod, request, budgets)), unread
        except TimeoutError:
            text = f"the search took longer than {self._settings.search_s:g} s"
            return NoPreemption(text), unread

    def _search(
        self, pod: Pod, request: PodRequest, budgets: tuple[Disruption, ...]
    ) -> Slices[Preemption | NoPreemption]:
        if pod.spec.preemption_policy == _NEVER:
            return NoPreemption(f"its spec.preemptionPolicy is {_NEVER}")
        view = yield from self._views.view(budgets)
        preemptor = self._preemptor(pod, request, view)
        if isinstance(preemptor, str):
            return NoPreemption(preemptor)
        closed = self._closed(request, preemptor.priority)
        planner = PreemptionPlanner(view, self._clock.time(), columns=self._columns)
        opened = self._gangs.may_use_reserved(pod) if self._gangs else frozenset[str]()
        promised = view.ledger.withheld_from(self._whose(pod), preemptor.priority, all_gone=True)
        preemptor = replace(preemptor, closed=frozenset(closed), opened=opened, withheld=promised)
        return (yield from planner.search(preemptor))

    def _whose(self, pod: Pod) -> Collection[str]:
        """The pod, and its gang, to which cards may be promised."""
        uid = pod.metadata.uid
        gang_id = "" if self._gangs is None else self._gangs.registry.gang_of(uid)
        if self._gangs is None or not gang_id:
            return {uid}
        return {uid, *self._gangs.registry.bundle(gang_id).ids}

    def _preemptor(self, pod: Pod, request: PodRequest, view: PreemptionView) -> Preemptor | str:
        """The pod, or the members of its gang that have to start together."""
        gang_id = "" if self._gangs is None else self._gangs.registry.gang_of(pod.metadata.uid)
        if self._gangs is not None and gang_id:
            bundle = self._gangs.registry.bundle(gang_id)
            if bundle.needed:
                chosen = [each for members in bundle.gangs for each in minimum_members(members)]
                waiting = [each for each in chosen if not each.pod.spec.node_name]
                members = self._gangs.places.requests(waiting)
                if bundle.lacks or isinstance(members, str):
                    return bundle.lacks or str(members)
                return Preemptor(
                    members=tuple(members), priority=max(map(gang_priority, bundle.gangs)),
                    queue=view.queue_of(pod), domains=self._gangs.places.domains(bundle),
                )  # fmt: skip
        return Preemptor(
            members=(MemberRequest(pod, request),), priority=priority_of(pod, view.catalog),
            queue=view.queue_of(pod),
        )  # fmt: skip
