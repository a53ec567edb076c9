"""What the walks of gangs have found, each in as few steps as show it."""

from __future__ import annotations

from random import Random

from tests.machine.gangs.gang_simulation import GangSimulation
from tests.machine.gangs.users_gangs import GANGS


def test_a_bundle_that_lost_a_gang_before_its_start_does_not_go_one_by_one() -> None:
    """`q` has its minimum by itself, and starts with `p` only."""
    world = GangSimulation(Random(1), nodes=2, reserves=False)  # noqa: S311  (a walk that can be repeated)
    try:
        world.start()

        async def what_happens() -> None:
            await world.until("somebody leads", lambda: world.leader, 60)
            truth, kube_scheduler = world.cluster.truth, world.kube_scheduler
            kube_scheduler.stopped = True
            world.create_gang(GANGS["p"], 2, gated=False)
            world.create_gang(GANGS["q"], 2, gated=False)
            uids = {pod.metadata.name: uid for uid, pod in truth.pods.items()}
            world.bind_elsewhere(uids["q-0"], "n0")
            await world.advance(1)
            for name in ("p-0", "p-1"):
                world.cluster.delete(uids[name], 0)
            await world.advance(1)
            kube_scheduler.stopped = False
            await world.advance(20)
            assert not truth.pods[uids["q-1"]].spec.node_name
            world.create_gang(GANGS["p"], 2, gated=False)
            await world.until(
                "all have a node", lambda: all(p.spec.node_name for p in truth.pods.values()), 60
            )

        world.do(what_happens())
    finally:
        world.close()
