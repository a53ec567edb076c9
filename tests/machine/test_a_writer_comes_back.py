"""A scheduler is stopped between deciding to send a Binding and sending it, another one leads
meanwhile, and then it goes on.

The API server compares terms, and refuses the Binding. One that does not, because nobody installed
the policy, cannot distinguish it from one in time: the card is granted twice. That is counted as
soon as it is seen, and the node starts nothing that does not fit."""

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tests.machine import checking
from tests.machine.cluster import container_of
from tests.machine.replicas import Replica
from tests.machine.simulation import Simulation

MOST_OF_A_CARD = 12000
LESS_THAN_HALF = 6000


@contextmanager
def two_schedulers(*, fenced: bool) -> Generator[tuple[Simulation, Replica]]:
    """One node with one card; and who leads."""
    world = Simulation(nodes=1, cards=1, replicas=2, fenced=fenced)
    try:
        world.do(world.until("somebody leads", lambda: world.leader, 60))
        yield world, world.do(the_leader(world))
    finally:
        world.close()


async def the_leader(world: Simulation) -> Replica:
    assert world.leader is not None
    return world.leader


async def place(world: Simulation, name: str, mib: int = MOST_OF_A_CARD) -> str:
    """A pod is made and given to the replica that leads; its uid."""
    shape = {"containers": [container_of("c", gpu=1, gpumem=mib)]}
    uid = world.cluster.create(name, "default", shape)
    leader = await the_leader(world)
    world.placing.show(uid)
    if world.placing.filter(leader, uid, world.cluster.node_names()):
        world.placing.bind(leader, world.placing.offers[-1])
    await world.advance(0.1)
    return uid


async def overtaken(
    world: Simulation, first: Replica, mib: int = MOST_OF_A_CARD
) -> tuple[str, str]:
    """The pod whose Binding comes late, and the one that was placed meanwhile."""
    first.line.stops_it = True
    late = await place(world, "late", mib)
    assert first.process.stopped
    assert not world.cluster.truth.pods[late].spec.node_name
    await world.until("another one leads", lambda: world.leader, 60)
    in_time = await place(world, "in-time", mib)
    world.nodes["n0"].reconcile()
    first.go_on()
    await world.advance(1)
    checking.always(world)
    return late, in_time


def test_its_binding_is_refused_and_the_pod_waits_its_turn() -> None:
    with two_schedulers(fenced=True) as (world, first):

        async def what_happens() -> None:
            late, in_time = await overtaken(world, first)
            truth, leader = world.cluster.truth, await the_leader(world)
            assert (set(truth.bound), truth.out_of_term) == ({in_time}, 1)
            assert leader.scheduler is not None
            assert (
                "tessera_scheduler_fenced 1.0" in leader.scheduler.metrics.registry.text().decode()
            )
            world.cluster.delete(in_time, 0)
            await world.advance(5)
            assert world.placing.filter(leader, late, ["n0"])
            world.placing.bind(leader, world.placing.offers[-1])
            await world.advance(1)
            assert late in truth.bound
            await checking.at_rest(world, bus=True)

        world.do(what_happens())


def test_a_leader_that_was_cut_off_writes_again_under_its_next_term() -> None:
    """Nobody else took over: what it sent before comes too late all the same."""
    with two_schedulers(fenced=True) as (world, first):

        async def what_happens() -> None:
            for other in world.alive:
                if other is not first:
                    other.kill()
            assert first.scheduler is not None
            lease = first.scheduler.leadership
            before = lease.term()
            first.cut()
            await world.until("its term is over", lambda: not lease.holds, 60)
            first.go_on()
            await world.until("it leads again", lambda: lease.leads, 60)
            assert int(lease.term()) > int(before)
            assert await place(world, "next") in world.cluster.truth.bound
            assert world.cluster.truth.out_of_term == 0
            await checking.at_rest(world, bus=True)

        world.do(what_happens())


def test_it_does_not_start_before_there_is_room() -> None:
    with two_schedulers(fenced=False) as (world, first):

        async def what_happens() -> None:
            late, in_time = await overtaken(world, first)
            node, truth = world.nodes["n0"], world.cluster.truth
            assert truth.bound[late].overtaken
            assert truth.overfull() == {("n0", "GPU-n0-0")}
            node.reconcile()
            assert (node.runs(late), node.runs(in_time)) == (False, True)
            assert node.refused == {"GPU-n0-0": {late}}
            node.ends(in_time, well=True)
            node.reconcile()
            assert node.runs(late)
            assert not truth.overfull()

        world.do(what_happens())


def test_it_is_measured_and_nothing_more_is_placed_there() -> None:
    with two_schedulers(fenced=False) as (world, first):

        async def what_happens() -> None:
            await overtaken(world, first)
            leader = await the_leader(world)
            assert leader is not first
            assert leader.scheduler is not None
            text = leader.scheduler.metrics.registry.text().decode()
            assert "tessera_scheduler_fenced 0.0" in text
            assert "tessera_scheduler_overgranted_cards 1.0" in text
            third = await place(world, "third")
            assert third in world.placing.waiting()
            await checking.at_rest(world, bus=True)

        world.do(what_happens())


def test_it_is_harmless_where_there_is_room() -> None:
    with two_schedulers(fenced=False) as (world, first):

        async def what_happens() -> None:
            late, in_time = await overtaken(world, first, LESS_THAN_HALF)
            node = world.nodes["n0"]
            node.reconcile()
            assert world.cluster.truth.bound[late].overtaken
            assert not world.cluster.truth.overfull()
            assert node.runs(late)
            assert node.runs(in_time)
            await checking.at_rest(world, bus=True)

        world.do(what_happens())


@pytest.mark.parametrize("fenced", [True, False])
def test_a_binding_that_the_other_one_wrote_first_is_not_undone(*, fenced: bool) -> None:
    with two_schedulers(fenced=fenced) as (world, first):

        async def what_happens() -> None:
            first.line.stops_it = True
            uid = await place(world, "both")
            await world.until("another one leads", lambda: world.leader, 60)
            leader = await the_leader(world)
            world.placing.filter(leader, uid, ["n0"])
            world.placing.bind(leader, world.placing.offers[-1])
            await world.advance(0.1)
            first.go_on()
            await world.advance(1)
            assert not world.cluster.truth.bound[uid].overtaken
            await checking.at_rest(world, bus=True)

        world.do(what_happens())
