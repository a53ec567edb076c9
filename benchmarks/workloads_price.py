"""Hints with prices: what a pod more would cost those that hold a card (docs/hints.md).

A hint follows a placement within seconds, so the nodes on which pods came or went are published
again in every tick, with the last measurements. Pods that are placed within one tick are not yet
counted in any hint, as pods are that are placed within a second.
"""

from __future__ import annotations

from benchmarks.workloads_cluster import EPOCH_S
from benchmarks.workloads_hints import Hints
from benchmarks.workloads_simulation import Simulation
from tessera_core.fleet.arrays import Floats


class PricedHints(Hints):
    """A part of a policy."""

    def __init__(self) -> None:
        """Nothing is known of any pod."""
        super().__init__(prices=True)
        self._nodes: dict[str, str] = {}
        """Uid -> node, of the pods that the hints count."""

    def before(self, world: Simulation, wants: Floats) -> None:
        """Publish what pods that came or went change."""
        running = {run.request.uid: run.grant.node for run in world.running.values() if run.grant}
        changed = {node for _, node in running.items() ^ self._nodes.items()}
        self._nodes = running
        if changed:
            self._learn_holders(world)
        for node in sorted(changed):
            self._publish(world, node, EPOCH_S + world.now)
