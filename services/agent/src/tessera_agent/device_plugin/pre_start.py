"""Whether a container may start that was allocated its cards: kubelet asks before each start, and
tries again where it is refused.

Only now does kubelet say, to whoever asks, which container has which ids. So this is where it shows
whether Allocate answered for the right one; and where room beside what runs is judged.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tessera_agent.admission.admission import Judge
from tessera_agent.admission.prepare import Preparing, Unprepared
from tessera_agent.api.pods import NodePods
from tessera_agent.containers.holdings import Holdings, Stage
from tessera_agent.device_plugin.allocations import NOT_KNOWN, Allocated, Allocations
from tessera_agent.device_plugin.pod_match import Named, disagreement, listed
from tessera_agent.events import Alarm, Teller
from tessera_core.node.container_admission import Deny, Give, Refuse, Why
from tessera_kubelet.device_plugin.types import Refused
from tessera_kubelet.errors import KubeletError
from tessera_kubelet.nri.types import Sandbox
from tessera_kubelet.pod_resources import PodHolding, PodResources
from tessera_runtime.clock import Clock


class Tools(Struct, frozen=True, kw_only=True):
    """What starts are judged by."""

    judge: Judge
    preparing: Preparing
    holdings: Holdings
    pods: NodePods
    allocations: Allocations
    resources: PodResources
    teller: Teller
    clock: Clock


class Starting:
    """Judges starts."""

    def __init__(self, tools: Tools) -> None:
        """Nothing was asked."""
        self._do = tools

    async def pre_start(self, resource: str, ids: Sequence[str]) -> Refused | None:
        """Whether the container that has these ids may start now."""
        if not self._do.allocations.known.is_set():
            return Refused(NOT_KNOWN)
        try:
            holdings = await self._do.resources.list()
        except KubeletError as e:
            return Refused(f"kubelet does not say whose these are: {e}")
        mine = self._do.allocations.of(resource, ids)
        if refused := self._disagrees(mine, holdings, resource, ids):
            return refused
        return await self._start(self._starting(mine))

    def _disagrees(
        self, mine: Sequence[Allocated], holdings: Sequence[PodHolding], resource: str,
        ids: Sequence[str],
    ) -> Refused | None:  # fmt: skip
        theirs = listed(holdings, resource, ids)
        problem = disagreement(mine, holdings, resource, ids) or next(
            (
                f"we gave them to pod {one.namespace}/{one.pod} ({one.uid}), which is gone"
                for one in mine if self._is_gone(one)
            ), "" if mine else "we gave them to nobody",
        )  # fmt: skip
        if problem:
            message = f"ids of {resource}: {problem}: delete the pod"
            self._tell(mine, theirs, message)
            return Refused(message)
        if not theirs and not any(map(self._is_init, mine)):
            return Refused(f"ids of {resource}: kubelet does not say yet whose they are")
        return None

    def _tell(self, mine: Sequence[Allocated], theirs: Sequence[Named], message: str) -> None:
        """On every pod that either of us means."""
        about = {(one.namespace, one.pod, one.container): one.sandbox for one in mine}
        shown = {(pod.namespace, pod.name): pod for pod in self._do.pods}
        for namespace, name, container in theirs:
            pod = shown.get((namespace, name))
            found = Sandbox(
                id="", name=name, uid=pod.uid if pod else "", namespace=namespace
            )  # fmt: skip
            about.setdefault((namespace, name, container), found)
        for (_, _, container), sandbox in about.items():
            self._do.teller.alarm(sandbox, container, Alarm.MISMATCH, message)

    def _is_gone(self, one: Allocated) -> bool:
        held = self._do.holdings.get(one.key)
        return self._do.pods.is_gone(one.uid, held.since if held else float("-inf"))

    def _is_init(self, one: Allocated) -> bool:
        shown = self._do.pods.get(one.uid)
        container = shown.get(one.container) if shown else None
        return container is not None and container.init

    def _starting(self, mine: Sequence[Allocated]) -> Allocated:
        """Of containers of a pod that have the same ids the one that has not started yet, or does
        not run. Where that is not the one, its status puts it right."""
        order = {Stage.ALLOCATED: 0, Stage.ENDED: 1, Stage.CREATED: 2, Stage.RUNNING: 3}

        def rank(one: Allocated) -> int:
            held = self._do.holdings.get(one.key)
            return order[held.stage] if held else 0

        return min(mine, key=rank)

    async def _start(self, one: Allocated) -> Refused | None:
        do, held = self._do, self._do.holdings.get(one.key)
        pod = held.pod if held else one.sandbox
        match do.judge.verdict(pod, one.container):
            case Refuse(why=why, message=message):
                return self._refused(pod, one.container, why, message)
            case Give() as given:
                answered = do.preparing.prepare(pod, one.info, given, lambda _env, _files: None)
                if isinstance(answered, Unprepared):
                    return Refused(f"{answered.why}: {answered.message}")
            case Deny():
                pass
        try:
            await do.allocations.put(replace(one, started_at=do.clock.time()))
        except OSError as e:
            message = f"that it starts cannot be written down: {e}: see the agent's folder"
            return self._refused(pod, one.container, Why.NOT_PREPARED, message)
        return None

    def _refused(self, pod: Sandbox, container: str, why: Why, message: str) -> Refused:
        told = self._do.preparing.refused(pod, container, why, message)
        return Refused(f"{told.why}: {told.message}")
