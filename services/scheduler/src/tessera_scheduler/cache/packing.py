"""Policy `pack` at work: what pods came so far, and lessons from it.

The leader counts the pods that it binds, stores the counts in a ConfigMap, and learns from them
periodically, in a thread. A lesson is taken up whole: it is tried on all nodes next to the one that
serves, and then put in its place, so a filter call never meets it cold. Until enough pods came,
pods are placed as their dialects say. Nothing here keeps a pod from being placed: an API server
that does not answer, or a text that cannot be read, costs history alone."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Annotated, Final, NoReturn

from msgspec import Meta, Struct
from msgspec.structs import replace

from tessera_core.kube.host_requests import Host
from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import AllocationPhase
from tessera_core.placement.packing.demand_history import HALF_LIFE_S, History
from tessera_core.placement.packing.forecast import learn
from tessera_core.placement.packing.host_capacity import HostCapacity
from tessera_core.placement.packing.inferred_demand import request_from_grant
from tessera_core.placement.packing.packer import Packer
from tessera_core.scheduling.filter import Filter
from tessera_runtime import logs
from tessera_runtime.errors import TesseraError, Transient
from tessera_runtime.metrics import MetricsRegistry
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_scheduler.cache.packing_history import HistoryConfigMap
from tessera_scheduler.leadership.leader import Leadership
from tessera_schema.grants import Grant

WARM: Final = 256
"""Shapes that a lesson is tried on before it serves, those that come most."""
AT_ONCE: Final = 500
"""Grants counted without a pause."""

_log = logs.named("tessera.scheduler.packing")


class ReserveMode(StrEnum):
    """When policy B places, which packs more where hosts are short of processor."""

    AUTO = "auto"
    """While what pods ask for would leave hosts short."""
    ALWAYS = "true"
    NEVER = "false"

    @property
    def reserve(self) -> bool | None:
        """As `PackingState` has it."""
        return {ReserveMode.ALWAYS: True, ReserveMode.NEVER: False}.get(self)


class PackingSettings(Struct, frozen=True, kw_only=True):
    """How policy `pack` learns, and which pods it places."""

    enabled: bool = True
    """Count what pods request, so that they can be packed. Off: all pods are placed by their
    dialects' own orders, whatever they ask for."""
    by_default: bool = True
    """Pack pods that name no order, once enough pods came to learn from. Off: only pods that ask
    for it (annotation `tessera.dev/order: pack`), for clusters that want plain binpack."""
    reserve: ReserveMode = ReserveMode.AUTO
    """Also balance cards against processor, and keep whole nodes back for pods of many cards."""
    look_s: Annotated[float, Meta(gt=0)] = 1.0
    """Seconds between two updates by what changed on the nodes: a filter call then has little left
    to take in."""
    learn_s: Annotated[float, Meta(gt=0)] = 600.0
    """Seconds between two lessons, each some seconds of a thread: what pods ask for changes in
    days."""
    save_s: Annotated[float, Meta(gt=0)] = 300.0
    """Seconds between two writes of the history: what a crash may lose."""
    retry_s: Annotated[float, Meta(gt=0)] = 10.0
    """Seconds after which an API server that did not answer is called again."""
    half_life_s: Annotated[float, Meta(gt=0)] = HALF_LIFE_S
    """Seconds after which a pod counts half: several rounds of a working week, and a new team's
    pods count within days."""


class Packing:
    """Counts, learns and serves. `run` does what takes time."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        packer: Packer,
        filter_: Filter,
        leadership: Leadership,
        stored: HistoryConfigMap,
        clock: MonotonicClock,
        settings: PackingSettings,
    ) -> None:
        """`filter_` has the pods as they were filtered, `packer` places by what is learned."""
        self._ledger = ledger
        self._packer = packer
        self._filter = filter_
        self._leadership = leadership
        self._stored = stored
        self._clock = clock
        self._settings = settings
        self._learned = self._began = False
        self._begin_at = self._learn_at = self._save_at = 0.0
        self._unsaved = False
        self._counted: set[str] = set()
        """Pods in the history before it was begun."""
        self.history = stored.empty()

    def publish(self, metrics: MetricsRegistry) -> None:
        """Publish what it does as metrics, computed when they are scraped."""
        metrics.gauge(
            "packing_serves", "1 while pods that name no order are placed by pack"
        ).set_function(lambda: float(self.serves))
        metrics.gauge(
            "packing_history_pods", "Pods that pack learns from, old ones less"
        ).set_function(lambda: self.history.pods(self._clock.time()))

    @property
    def serves(self) -> bool:
        """Whether pods that name no order are placed by it."""
        return self._packer.by_default

    @property
    def learned(self) -> bool:
        """Whether enough pods came to learn from."""
        return self._learned

    @property
    def hosts(self) -> HostCapacity:
        """What hosts have, and what pods hold of them."""
        return self._packer.hosts

    def on_bound(self, grant: Grant) -> None:
        """Count a pod that is bound; one that was filtered too long ago is not counted."""
        filtered = self._filter.filtered_pod(grant.uid)
        if not self._settings.enabled or filtered is None:
            return
        request = filtered.request
        self.history.add(request, self._clock.time())
        # the pod's own event comes later
        self.hosts.hold(grant.uid, grant.node, Host(request.cpu_milli, request.memory_bytes))
        self._unsaved = True
        if not self._began:
            self._counted.add(grant.uid)

    async def run(self) -> NoReturn:
        """Read, learn and write, while this replica leads."""
        while True:
            await asyncio.sleep(self._settings.look_s)
            if not self._settings.enabled:
                continue
            if self._leadership.leads:
                await self._turn()
            elif self._began:
                self._began = False
                self.history = self._stored.empty()

    async def _turn(self) -> None:
        settings, now = self._settings, self._clock.time()
        if not self._began:
            if now < self._begin_at:
                return
            self._begin_at = now + settings.retry_s
            await self._begin()
        if self._unsaved and self._stored.writable and now >= self._save_at:
            self._save_at = now + settings.save_s
            await self._save()
        if now >= self._learn_at or not self._learned:
            self._learn_at = now + settings.learn_s
            await self._learn(now)
        if self._learned:
            fleet = self._ledger.fleet
            self._packer.state.follow(fleet, self.hosts.columns(fleet))

    async def _begin(self) -> None:
        """Take up what the former leader has written."""
        try:
            history = await self._stored.read()
        except Transient as e:
            _log.warning("history not read yet", why=str(e))
            return
        if history is None:
            history = await self._of_bound_pods()
        history.absorb(self.history, self._clock.time())
        self.history = history
        self._counted.clear()
        self._began = True

    async def _of_bound_pods(self) -> History:
        history, now = self._stored.empty(), self._clock.time()
        entries = self._ledger.entries()
        grants = [entry.grant for entry in entries if entry.phase is AllocationPhase.BOUND]
        for number, grant in enumerate(grants, 1):
            if grant.uid not in self._counted:
                cpu, memory = self.hosts.of_pod(grant.uid)
                history.add(
                    replace(request_from_grant(grant), cpu_milli=cpu, memory_bytes=memory), now
                )
                self._unsaved = True
            if not number % AT_ONCE:
                await asyncio.sleep(0)
        return history

    async def _learn(self, now: float) -> None:
        """Learn, and try the lesson on all nodes before it serves: some milliseconds for each
        shape."""
        if not self.history.enough(now):
            self._learned = self._packer.by_default = False
            return
        fleet, former = self._ledger.fleet, self._packer.state
        lesson = former.lesson(fleet, self.history, now, self.hosts.columns(fleet))
        forecast = await asyncio.to_thread(learn, *lesson)
        fresh = former.apart()
        fresh.adopt(forecast)
        shapes = sorted(self.history.demands.items(), key=lambda item: -item[1])
        for shape, _ in shapes[:WARM]:
            fresh.follow(fleet, self.hosts.columns(fleet))
            fresh.warm(fleet, [shape])
            await asyncio.sleep(0)
        self._packer.state = fresh
        if not self._learned:
            _log.info("pods can be packed", shapes=len(shapes))
        self._learned = True
        self._packer.by_default = self._settings.by_default

    async def _save(self) -> None:
        self._unsaved = False
        try:
            await self._stored.write(self.history, self._clock.time())
        except TesseraError as e:
            self._unsaved = True
            _log.warning("history not written", why=str(e))
