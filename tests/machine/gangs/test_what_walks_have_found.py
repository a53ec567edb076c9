"""What the walks of gangs have found, each in as few steps as show it."""

from __future__ import annotations

from random import Random

from tessera_core.gang_scheduling.incomplete_gangs import LATELY_S
from tests.machine.gangs.calm import Calm
from tests.machine.gangs.gang_simulation import GangSimulation
from tests.machine.gangs.invariants import Invariants
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


def test_a_once_satisfied_gang_that_has_not_started_does_not_go_one_by_one() -> None:
    """Somebody else binds a pod of it, another one is deleted and made again."""
    world = GangSimulation(Random(1), nodes=2, reserves=False)  # noqa: S311  (a walk that can be repeated)
    invariants = Invariants(world)
    try:
        world.start()

        async def what_happens() -> None:
            await world.until("somebody leads", lambda: world.leader, 60)
            truth, kube_scheduler = world.cluster.truth, world.kube_scheduler
            kube_scheduler.stopped = True
            world.create_gang(GANGS["k"], 3, gated=False)
            uids = {pod.metadata.name: uid for uid, pod in truth.pods.items()}
            await world.advance(1)
            world.bind_elsewhere(uids["k-0"], "n0")
            await world.advance(1)
            world.cluster.delete(uids["k-1"], 0)
            await world.advance(1)
            kube_scheduler.stopped = False
            await world.advance(5)
            assert not truth.pods[uids["k-2"]].spec.node_name
            world.create_gang(GANGS["k"], 3, gated=True)
            await world.until(
                "all have a node", lambda: all(p.spec.node_name for p in truth.pods.values()), 60
            )
            invariants.check()

        world.do(what_happens())
    finally:
        world.close()


def test_a_pod_that_runs_in_a_gang_and_names_another_one_goes_on() -> None:
    """A start of the other gang has not failed: nobody evicts what has started."""
    world = GangSimulation(Random(1), nodes=2, reserves=False)  # noqa: S311  (a walk that can be repeated)
    calm = Calm(world, Invariants(world))
    try:
        world.start()

        async def what_happens() -> None:
            await world.until("somebody leads", lambda: world.leader, 60)
            truth = world.cluster.truth
            world.create_gang(GANGS["a"], 2, gated=True)
            await world.until(
                "all have a node", lambda: all(p.spec.node_name for p in truth.pods.values()), 60
            )
            await world.advance(LATELY_S + 5)
            uid = next(iter(truth.pods))
            notes = {"scheduling.k8s.io/group-name": "b"}
            world.cluster.call(
                "PATCH", world.cluster.path(uid), {"metadata": {"annotations": notes}}
            )
            await calm.comes()
            assert uid in truth.pods

        world.do(what_happens())
    finally:
        world.close()
