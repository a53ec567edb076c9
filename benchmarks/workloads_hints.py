"""Hints as the rebalancer makes them: what the agents would publish goes through the real smoother,
and what comes of it into the fleet that pods are placed on.

Agents publish digests of ten seconds, and hints follow within seconds. Here agents publish every
`HINT_S`, of the minute that has just passed, and that one message is believed as the six of that
minute would be: hints of the simulator are up to five minutes old.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec.structs import replace

from benchmarks.workloads_cards import FULL
from benchmarks.workloads_cluster import EPOCH_S, TICK_S, VENDOR, Run, node_name
from benchmarks.workloads_simulation import Simulation
from tessera_core.fleet.arrays import Floats
from tessera_core.placement.scoring.pressure import set_pressure
from tessera_core.usage.hints import HintBuilder
from tessera_core.usage.lending_terms import GrantedShare, granted_shares_of
from tessera_core.usage.smoothed import SmoothingConstants, SmoothNode
from tessera_core.usage.smoother import Smoother
from tessera_schema.messages.device_reports import CardLoad, CardUse, ContainerUse, NodeUsage
from tessera_schema.messages.hints import NodeHints

HINT_S: Final = 300.0
CONSTANTS: Final = SmoothingConstants(load_s=SmoothingConstants().load_s / 3)
"""A mean over the last minute, as with the default and six messages of ten seconds."""
Key = tuple[str, str, str]


class Hints:
    """A part of a policy."""

    def __init__(self, *, scoring: bool = True, prices: bool = False) -> None:
        """Without `scoring` they are only for others to read. Without `prices` they are those of a
        rebalancer before them, and placement goes by pressure."""
        self.published: dict[str, NodeHints] = {}
        """By node."""
        self.most: dict[tuple[str, str], float] = {}
        """Pod and card -> how far lending may take it."""
        self._scoring, self._prices = scoring, prices
        self._smoother, self._hinting = Smoother(CONSTANTS), HintBuilder()
        self._holders: dict[Key, GrantedShare] = {}
        self._known: dict[str, Run] = {}
        self._due = 0.0

    def before(self, world: Simulation, wants: Floats) -> None:
        """Nothing: hints are messages of what was."""

    def after(self, world: Simulation, wants: Floats, got: Floats) -> None:
        """The agents publish, and the rebalancer what follows from it."""
        if world.now < self._due:
            return
        self._due = world.now + HINT_S
        self._learn_holders(world)
        now = EPOCH_S + world.now
        for usage in usages(world, wants, got):
            self._smoother.take(usage, now)
            self._publish(world, usage.node, now)

    def _publish(self, world: Simulation, node: str, now: float) -> None:
        seen = self._smoother.node(node, now)
        if seen is None:
            return
        published = self.published[node] = self._built(seen)
        for bound in published.bounds:
            self.most[bound.uid, bound.card] = bound.most_cores_percent
        if self._scoring:
            set_pressure(world.ledger.fleet, published)

    def _built(self, seen: SmoothNode) -> NodeHints:
        cards = {card.card for card in seen.cards}
        holders = {key: held for key, held in self._holders.items() if key[2] in cards}
        built = self._hinting.build(seen, holders)
        if self._prices:
            return built
        return replace(built, cards=tuple(replace(card, prices=()) for card in built.cards))

    def _learn_holders(self, world: Simulation) -> None:
        """Who holds what, in step with who runs."""
        running = {run.request.uid: run for run in world.running.values()}
        for uid in running.keys() - self._known.keys():
            run = running[uid]
            if run.grant is not None:
                self._holders |= granted_shares_of(
                    run.grant, run.pod, world.registry, run.job.owner or run.job.group
                )
        if self._known.keys() - running.keys():
            self._holders = {k: held for k, held in self._holders.items() if k[0] in running}
            self.most = {k: most for k, most in self.most.items() if k[0] in running}
        self._known = running


def usages(world: Simulation, wants: Floats, got: Floats) -> list[NodeUsage]:
    """What each node's agent publishes of the tick that has passed."""
    seats = world.seats
    limits = seats.limits() + seats.lent
    held = np.where(wants > limits, 1 - limits / np.maximum(wants, 1e-9), 0) * FULL
    limits = np.where(limits < FULL, limits, 0)
    demand = np.minimum(wants, np.where(limits > 0, limits, FULL))
    room = world.model.capacity(demand, seats.load)
    got = np.where(seats.spare, 0.0, got)
    busy = (FULL * got.sum(1) / room).clip(0, FULL).tolist()
    used = seats.memory_in_use(world.now)
    rows = [column.tolist() for column in (seats.job, seats.memory, used, got, limits, held)]
    published, number = [], 0
    for node, cards in enumerate(world.cards):
        containers: list[ContainerUse] = []
        loads = []
        for card in cards:
            loads.append(CardLoad(card=card.id, cores_percent=busy[number]))
            containers += [
                _use(world.running[job], card.id, memory, *measured)
                for job, memory, *measured in zip(*(row[number] for row in rows), strict=True)
                if job >= 0 and job in world.running and world.running[job].grant is not None
            ]
            number += 1
        published.append(
            NodeUsage(
                node=node_name(node), vendor=VENDOR, at=EPOCH_S + world.now, interval_s=TICK_S,
                containers=tuple(containers), cards=tuple(loads),
            )
        )  # fmt: skip
    return published


def _use(run: Run, card: str, memory: int, *measured: float) -> ContainerUse:
    used, got, limit, held = measured
    request = run.request
    use = CardUse(
        card=card, memory_bytes=int(used), memory_limit_bytes=memory,
        cores_percent=got, cores_limit_percent=limit, throttled_percent=held, processes=1,
    )  # fmt: skip
    return ContainerUse(
        namespace=request.namespace, pod=request.name, uid=request.uid, container="main",
        cards=(use,),
    )  # fmt: skip
