"""Policy `pack` at work: which pods it is for, what came so far, and lessons from it.

The one that leads counts the pods that it binds, keeps the counts in a ConfigMap, and learns from
them now and then, in a thread. What was learned is taken up whole: it is tried on all nodes beside
what serves, and then put in its place, so a filter call never meets it cold. Until enough pods
came, pods are placed as their dialects say. Nothing here keeps a pod from being placed: an API
server that does not answer, or a text that cannot be read, costs knowledge alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, NoReturn

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from tessera_core.admission.admit import claims_on
from tessera_core.dialect_kit.hami_format.policies import CARD_POLICY, NODE_POLICY
from tessera_core.kube.host_requests import Host
from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.allocation import AllocationPhase
from tessera_core.placement.packing.demand_history import (
    HALF_LIFE_S,
    History,
    UnknownHistoryVersion,
)
from tessera_core.placement.packing.forecast import learn
from tessera_core.placement.packing.host_capacity import HostCapacity
from tessera_core.placement.packing.inferred_demand import request_from_grant
from tessera_core.placement.packing.packer import Packer
from tessera_core.registry.registry import DialectRegistry
from tessera_core.scheduling.filter import Filter
from tessera_runtime import logs
from tessera_runtime.errors import Permanent, TesseraError, Transient
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.create_or_update import Json, config_map, create_or_update
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_scheduler.metrics import SchedulerMetrics
from tessera_schema.annotation_keys import ORDER_KEY, ORDERS
from tessera_schema.kube import Pod

HISTORY: Final = "tessera-packing-history"
ENTRY: Final = "history.json"
POLICIES: Final = (NODE_POLICY, CARD_POLICY)
"""A dialect's annotations by which a pod names an order of nodes or of cards."""
PACK: Final = ORDERS[0]
DIALECT: Final = ORDERS[1]
WARM: Final = 256
"""Shapes that a lesson is tried on before it serves, those that come most."""
AT_ONCE: Final = 500
"""Grants counted without a pause."""

_log = logs.named("tessera.scheduler.packing")


class PackingSettings(Struct, frozen=True, kw_only=True):
    """Policy `pack`."""

    enabled: bool = True
    """Follow what is asked, so that pods can be packed. Off: all pods are placed by their
    dialects' own orders, whatever they ask for."""
    by_default: bool = True
    """Pack pods that name no order, once enough pods came to learn from. Off: only pods that ask
    for it (annotation `tessera.dev/order: pack`), for whoever wants plain binpack."""
    reserve: bool = False
    """Also balance cards against processor, and keep whole nodes back for pods of many cards: for
    clusters that are short of processor, elsewhere it loses a little."""
    look_s: Annotated[float, Meta(gt=0)] = 1.0
    """Seconds between two looks at what changed on the nodes: a filter call then finds little
    left to take in."""
    learn_s: Annotated[float, Meta(gt=0)] = 600.0
    """Seconds between two lessons, each some seconds of a thread: what pods ask for changes in
    days."""
    save_s: Annotated[float, Meta(gt=0)] = 300.0
    """Seconds between two writes of the history: what a crash may lose."""
    retry_s: Annotated[float, Meta(gt=0)] = 10.0
    """Seconds after which an API server that did not answer is asked again."""
    half_life_s: Annotated[float, Meta(gt=0)] = HALF_LIFE_S
    """Seconds after which a pod counts half: several rounds of a working week, and a new team's
    pods count within days."""


class PackingDependencies(Struct, frozen=True, kw_only=True):
    """What it works with."""

    kube: Kube
    namespace: str
    registry: DialectRegistry
    ledger: Ledger
    packer: Packer
    filter: Filter
    measures: SchedulerMetrics
    steady: MonotonicClock
    leads: Callable[[], bool]
    """Whether this replica answers."""


class Packing:
    """Counts, learns and serves. `run` does what takes time."""

    def __init__(self, around: PackingDependencies, settings: PackingSettings) -> None:
        """Knows nothing yet."""
        self._around = around
        self._settings = settings
        self._place = config_map(around.namespace, HISTORY)
        self._packer = around.packer
        self._learned = self._began = self._keeps = False
        self._begin_at = self._learn_at = self._save_at = 0.0
        self._unsaved = False
        self._counted: set[str] = set()
        """Pods in the history before it was begun."""
        self.history = History(settings.half_life_s)
        gauge = around.measures.registry.gauge
        gauge("packing_serves", "1 while pods that name no order are placed by pack").set_function(
            lambda: float(self.serves)
        )
        gauge("packing_history_pods", "Pods that pack learns from, old ones less").set_function(
            lambda: self.history.pods(around.steady.time())
        )

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
        """To be told what hosts have, and what pods hold of them."""
        return self._packer.hosts

    # -- told by others, in the path of their calls

    def look(self, pod: Pod) -> None:
        """A pod is about to be placed."""
        order = self._order(pod)
        if order:
            self._packer.named(pod.metadata.uid, pack=order == PACK)
        else:
            self._packer.forget(pod.metadata.uid)

    def bound(self, uid: str) -> None:
        """A pod is bound; one that was filtered too long ago is not counted."""
        ask = self._around.filter.filtered_pod(uid)
        if self._settings.enabled and ask is not None:
            host = Host(ask.request.cpu_milli, ask.request.memory_bytes)
            self.history.add(ask.request, self._around.steady.time())
            entry = self._around.ledger.entry(uid)
            if entry is not None:  # its own event comes later
                self.hosts.hold(uid, entry.grant.node, host)
            self._unsaved = True
            if not self._began:
                self._counted.add(uid)

    def gone(self, uid: str) -> None:
        """A pod has ended."""
        self._packer.forget(uid)

    def _order(self, pod: Pod) -> str:
        """The order that the pod, or the options of a dialect that it speaks, names; empty where
        nobody does. What the pod itself says counts first."""
        notes, registry = pod.metadata.annotations, self._around.registry
        own = notes.get(ORDER_KEY, "")
        if own:
            return own
        if any(notes.get(key, "").strip() for key in POLICIES):
            return DIALECT
        if registry.ordered and not registry.ordered.isdisjoint(claims_on(registry, pod)):
            return DIALECT
        return ""

    # -- in the background

    async def run(self) -> NoReturn:
        """Read, learn and write, while this replica leads."""
        while True:
            await asyncio.sleep(self._settings.look_s)
            if not self._settings.enabled:
                continue
            if self._around.leads():
                await self._turn()
            elif self._began:
                self._began = False
                self.history = History(self._settings.half_life_s)

    async def _turn(self) -> None:
        settings, now = self._settings, self._around.steady.time()
        if not self._began:
            if now < self._begin_at:
                return
            self._begin_at = now + settings.retry_s
            await self._begin()
        if self._unsaved and self._keeps and now >= self._save_at:
            self._save_at = now + settings.save_s
            await self._save()
        if now >= self._learn_at or not self._learned:
            self._learn_at = now + settings.learn_s
            await self._learn(now)
        if self._learned:
            fleet = self._around.ledger.fleet
            self._packer.state.follow(fleet, self.hosts.columns(fleet))

    async def _begin(self) -> None:
        """Take up what the one that led before has written."""
        try:
            there = await create_or_update(self._around.kube, self._place, lambda _: None)
        except Transient as e:
            _log.warning("history not read yet", why=str(e))
            return
        except Permanent as e:
            _log.warning("history neither read nor kept", why=str(e))
            saved, self._keeps = None, False
        else:
            saved = self._decoded(there)
        if saved is None:
            saved = await self._of_those_that_run()
        saved.absorb(self.history, self._around.steady.time())
        self.history = saved
        self._counted.clear()
        self._began = True

    def _decoded(self, there: Mapping[str, Any]) -> History | None:
        """None where nothing can be read. What a newer release wrote is left alone."""
        text = (there.get("data") or {}).get(ENTRY)
        self._keeps = True
        if text is None:
            return None
        try:
            return History.decode(text, self._settings.half_life_s)
        except UnknownHistoryVersion as e:
            self._keeps = False
            _log.warning("history left as it is", why=str(e))
        except (msgspec.DecodeError, TypeError) as e:
            _log.warning("history begun anew", why=f"data[{ENTRY}]: {e}")
        return None

    async def _of_those_that_run(self) -> History:
        history, now = History(self._settings.half_life_s), self._around.steady.time()
        entries = self._around.ledger.entries()
        grants = [entry.grant for entry in entries if entry.phase is AllocationPhase.BOUND]
        for number, grant in enumerate(grants, 1):
            if grant.uid not in self._counted:
                cpu, memory = self.hosts.held(grant.uid)
                history.add(
                    replace(request_from_grant(grant), cpu_milli=cpu, memory_bytes=memory), now
                )
                self._unsaved = True
            if not number % AT_ONCE:
                await asyncio.sleep(0)
        return history

    async def _learn(self, now: float) -> None:
        """The lesson is tried on all nodes before it serves; some milliseconds for each shape."""
        if not self.history.enough(now):
            self._learned = self._packer.by_default = False
            return
        fleet, former = self._around.ledger.fleet, self._packer.state
        lesson = former.lesson(fleet, self.history, now, self.hosts.columns(fleet))
        outlook = await asyncio.to_thread(learn, *lesson)
        fresh = former.apart()
        fresh.adopt(outlook)
        shapes = sorted(self.history.wishes.items(), key=lambda item: -item[1])
        for wish, _ in shapes[:WARM]:
            fresh.follow(fleet, self.hosts.columns(fleet))
            fresh.warm(fleet, [wish])
            await asyncio.sleep(0)
        self._packer.state = fresh
        if not self._learned:
            _log.info("pods can be packed", shapes=len(shapes))
        self._learned = True
        self._packer.by_default = self._settings.by_default

    async def _save(self) -> None:
        text = self.history.encode(self._around.steady.time()).decode()

        def written(there: Json | None) -> Json:
            return {**(there or self._place.object()), "data": {ENTRY: text}}

        self._unsaved = False
        try:
            await create_or_update(self._around.kube, self._place, written)
        except TesseraError as e:
            self._unsaved = True
            _log.warning("history not written", why=str(e))
