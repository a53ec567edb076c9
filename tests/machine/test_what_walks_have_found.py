"""What the walks have found, each in as few steps as show it."""

from tests.machine import checking
from tests.machine.cluster import container_of
from tests.machine.simulation import Simulation

ONE = {"containers": [container_of("c", gpu=1, gpumem=4000)]}


def test_a_pod_that_another_leader_bound_elsewhere_is_not_said_to_be_bound() -> None:
    world = Simulation(nodes=2, cards=1, replicas=2)
    try:

        async def what_happens() -> None:
            await world.until("somebody leads", lambda: world.leader, 60)
            first = world.leader
            assert first is not None
            uid = world.cluster.create("a", "default", ONE)
            first.line.stops_it = True
            world.placing.show(uid)
            assert world.placing.filter(first, uid, ["n0"]) == ("n0",)
            world.placing.bind(first, world.placing.offers[-1])
            await world.advance(0.1)
            assert first.process.stopped
            await world.until("another one leads", lambda: world.leader, 60)
            second = world.leader
            assert second is not None
            assert world.placing.filter(second, uid, ["n1"]) == ("n1",)
            world.placing.bind(second, world.placing.offers[-1])
            await world.advance(1)
            assert world.placing.promised == {uid: "n1"}
            first.go_on()
            await world.advance(1)
            assert world.placing.promised == {uid: "n1"}
            checking.always(world)
            await checking.at_rest(world, bus=True)

        world.do(what_happens())
    finally:
        world.close()


def test_a_pod_that_somebody_else_bound_is_not_granted_by_one_who_leads_no_more() -> None:
    world = Simulation(nodes=1, cards=1, replicas=2)
    try:

        async def what_happens() -> None:
            await world.until("somebody leads", lambda: world.leader, 60)
            first = world.leader
            assert first is not None
            uid = world.cluster.create("a", "default", ONE)
            first.line.stops_it = True
            world.placing.show(uid)
            world.placing.filter(first, uid, ["n0"])
            world.placing.bind(first, world.placing.offers[-1])
            await world.advance(0.1)
            assert first.process.stopped
            await world.until("another one leads", lambda: world.leader, 60)
            body = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n0"}}
            world.cluster.call("POST", f"{world.cluster.path(uid)}/binding", body)
            first.go_on()
            await world.advance(1)
            assert world.placing.promised == {}
            await checking.at_rest(world, bus=True)
            assert uid not in world.cluster.truth.bound

        world.do(what_happens())
    finally:
        world.close()
