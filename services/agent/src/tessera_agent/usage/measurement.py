"""What containers use is measured, and told is what follows from it: usage, limits that do not
hold, the first use of a card, shares held by pods that are gone, every few seconds; what the driver
measured to the hooks, at each of its answers. Files of containers that are gone are cleared away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from tessera_agent.api.pods import NodePods
from tessera_agent.containers.holdings import ContainerRegistry, ContainerStage, Holding
from tessera_agent.containers.hook_files import ContainerKey, HookFiles
from tessera_agent.devices.monitor import DeviceMonitor
from tessera_agent.devices.node_annotation import CardsAnnotationWriter
from tessera_agent.events import ContainerAlert, DeviceStatePublisher, EventPublisher
from tessera_agent.metrics import AgentMetrics, GrantedAmounts, MetricsSnapshot
from tessera_agent.settings import AgentSettings
from tessera_agent.usage.hami_core import Regioned, Regions
from tessera_agent.usage.limit_correction import LimitCorrections
from tessera_agent.usage.sampler import MeasuredContainer, Moment, Sampler
from tessera_core.hook.records import uuid_key
from tessera_core.node.usage_rates import HoldingContainer, is_limited
from tessera_runtime import logs
from tessera_runtime.clock import Clock
from tessera_runtime.tracing import tracing
from tessera_schema.annotation_keys import TRACE_KEY
from tessera_schema.messages.device_reports import ContainerUse, NodeUsage, Occupied

_log: Final = logs.named("tessera.agent.measuring")
_FULL: Final = 100
_SECOND: Final = 1_000_000_000


class MeasurementDependencies(Struct, frozen=True, kw_only=True):
    """What is looked at, and where it goes."""

    settings: AgentSettings
    clock: Clock
    holdings: ContainerRegistry
    pods: NodePods
    devices: DeviceMonitor
    inventory: CardsAnnotationWriter
    sampler: Sampler
    regions: Regions
    files: HookFiles
    hooks: bool
    """Whether containers get files here; the folder may be another vendor's agent's else."""
    synchronized: Callable[[], int]
    """Times that it became known what has files."""
    teller: EventPublisher
    states: DeviceStatePublisher
    metrics: AgentMetrics


class UsageMeasurement:
    """Looks at everything every few seconds."""

    def __init__(self, tools: MeasurementDependencies) -> None:
        """Nothing has been looked at."""
        self.latest: NodeUsage | None = None
        """What was measured last."""
        self._do = tools
        self._corrections = LimitCorrections(tools.sampler.owners, tools.clock)
        self._everyone_at = float("-inf")
        self._watched: dict[ContainerKey, MeasuredContainer] = {}
        self._gaps: dict[ContainerKey, tuple[str, ...]] = {}
        self._used: set[str] = set()
        self._swept = 0

    async def run(self) -> NoReturn:
        """Look and correct, for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_driver(), name="corrections of hooks")
            await self._look_often()

    async def _look_often(self) -> NoReturn:
        loop, every_s = asyncio.get_running_loop(), self._do.settings.usage.interval_s
        while True:
            due = loop.time() + every_s
            await self.measure()
            await asyncio.sleep(max(due - loop.time(), 0))

    async def measure(self) -> None:
        """Once."""
        do, now = self._do, asyncio.get_running_loop().time
        running = {h.key: _watched(h) for h in do.holdings if h.stage is ContainerStage.RUNNING}
        # Those that ended since the last look are looked at once more.
        watched = self._watched | running
        self._watched = running
        others = [one for one in do.regions.running.all if one.key not in watched]
        usage = await asyncio.to_thread(self._measured, watched, others, now)
        do.teller.usage(usage)
        for use in usage.containers:
            self._heed(use)
        self._picture(usage)
        self.occupy()
        await self._sweep(now())
        self.latest = usage

    def _measured(
        self,
        watched: Mapping[ContainerKey, MeasuredContainer],
        others: Sequence[Regioned],
        now: Callable[[], float],
    ) -> NodeUsage:
        do, cards = self._do, self._do.devices.seen.cards
        # Not before: what containers use while this thread is waited for counts as used till now.
        at = Moment(at_s=now(), wall_ns=do.clock.time_ns())
        usage = do.sampler.sample(watched, cards, do.devices.readings, at)
        uses = do.regions.read_all(others, cards, at_s=at.at_s, now_s=at.wall_ns / _SECOND)
        return replace(usage, containers=(*usage.containers, *uses))

    async def _follow_driver(self) -> NoReturn:
        while True:
            await self._do.devices.news.wait()
            self._do.devices.news.clear()
            await self.correct()

    async def correct(self) -> None:
        """Tell the hooks what the driver's last answer says of them."""
        do, now, read = self._do, asyncio.get_running_loop().time(), self._do.devices.readings
        hooked = {
            h.key: _watched(h)
            for h in do.holdings
            if h.stage is ContainerStage.RUNNING and h.files is not None
        }
        limited = {
            uuid_key(limit.uuid)
            for one in hooked.values()
            for limit in one.held.limits.cards
            if is_limited(limit)
        }
        timed = {uuid_key(card.id) for card in read.cards if card.sampled_us}
        do.devices.closely = bool(limited & timed)
        everyone = now >= self._everyone_at
        if not hooked or not timed or not (everyone or do.devices.closely):
            return
        if everyone:
            self._everyone_at = now + do.settings.usage.interval_s
        await asyncio.to_thread(self._corrections.write, hooked, read, everyone=everyone)

    async def follow_pods(self) -> NoReturn:
        """Tell at once when a pod is gone whose containers run, for ever."""
        while True:
            await self._do.pods.news.wait()
            self._do.pods.news.clear()
            self.occupy()

    def occupy(self) -> None:
        """Tell which shares are held although their pod is gone."""
        do = self._do
        left: dict[str, list[Holding]] = {}
        for held in do.holdings:
            if held.holds and do.pods.is_gone(held.key.uid, held.since):
                left.setdefault(held.key.uid, []).append(held)
        do.states.occupy([
            Occupied(
                uid=uid, namespace=held[0].pod.namespace, name=held[0].pod.name,
                shares=tuple(share for one in held for share in one.shares),
            )
            for uid, held in sorted(left.items())
        ])  # fmt: skip

    # -- what follows from a look

    def _heed(self, use: ContainerUse) -> None:
        key = ContainerKey(uid=use.uid, container=use.container)
        held = self._do.holdings.get(key)
        if held is None:
            return
        if use.gaps and use.gaps != self._gaps.get(key):
            self._do.teller.alert(
                held.pod, key.container, ContainerAlert.NOT_ENFORCED,
                f"limits may not hold: {', '.join(use.gaps)} (docs/agent.md says what these mean)",
            )  # fmt: skip
        self._gaps[key] = use.gaps
        if held.id not in self._used and any(card.last_active for card in use.cards):
            self._first_use(held, use)

    def _first_use(self, held: Holding, use: ContainerUse) -> None:
        self._used.add(held.id)
        if held.since == float("-inf"):
            return  # it ran before this agent did
        pod, shown = held.pod, self._do.pods.get(held.key.uid)
        with tracing.span(
            "tessera.agent.first_usage",
            parent=pod.annotations.get(TRACE_KEY) or (shown.traceparent if shown else ""),
            pod=f"{pod.namespace}/{pod.name}", container=held.key.container,
            cards=",".join(card.card for card in use.cards),
        ):  # fmt: skip
            _log.info("first use", pod=f"{pod.namespace}/{pod.name}", container=use.container)

    def _picture(self, usage: NodeUsage) -> None:
        do = self._do
        do.metrics.picture = MetricsSnapshot(
            node=do.settings.node, cards=do.devices.seen.cards, usage=usage,
            requested=[_requested(h) for h in do.holdings if h.holds],
            problems=len(do.devices.state.problems), spoilt=do.sampler.spoilt + do.regions.spoilt,
            silent_polls=do.devices.silent_polls, overwritten=do.inventory.overwritten,
        )  # fmt: skip

    # -- what is cleared away

    async def _sweep(self, now: float) -> None:
        """Files of containers that are gone, and of those that went while no agent ran."""
        do = self._do
        ids = {held.id for held in do.holdings}
        self._used &= ids
        self._gaps = {key: gaps for key, gaps in self._gaps.items() if do.holdings.get(key)}
        do.pods.keep_only(do.holdings.pods())
        due = do.holdings.retired(now - do.settings.nri.keep_files_s)
        synchronized = do.synchronized()
        if self._swept != synchronized and do.hooks:
            self._swept = synchronized
            due = (*due, *await asyncio.to_thread(do.files.known))
        for key in due:
            if do.holdings.get(key) is None and not do.holdings.is_retired(key):
                self._remove(key)

    def _remove(self, key: ContainerKey) -> None:
        """On the loop: nobody may be given the files meanwhile."""
        try:
            if self._do.hooks:
                self._do.files.remove(key)
        except (OSError, ValueError) as e:
            _log.warning("files not removed", uid=key.uid, container=key.container, why=str(e))


def _watched(held: Holding) -> MeasuredContainer:
    limits = held.files.limits if held.files is not None else held.limits
    return MeasuredContainer(
        held=HoldingContainer(
            namespace=held.pod.namespace, pod=held.pod.name, uid=held.key.uid,
            container=held.key.container, limits=limits, hooked=held.hooked,
        ),
        files=held.files, id=held.id, pid=held.pid,
    )  # fmt: skip


def _requested(held: Holding) -> GrantedAmounts:
    return GrantedAmounts(
        namespace=held.pod.namespace, pod=held.pod.name, container=held.key.container,
        cards=sum(share.cores_percent for share in held.shares) / _FULL,
        memory_bytes=sum(share.memory_bytes for share in held.shares),
    )  # fmt: skip
