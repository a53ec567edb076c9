"""The Lease that goes from node to node: it does not run out, and a failure stops all nodes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tessera_agent.containerd.turn import FAILED, NodeTurn
from tessera_runtime.errors import ApiConflict, ApiNotFound
from tessera_runtime.kube.api import Body, Verb
from tessera_testing.clock import LoopClock
from tessera_testing.kube import FakeKube, a_store

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
NAME = "tessera-containerd"


class Turns:
    """A Lease and the nodes that want it."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.kube = FakeKube(a_store(self.clock))

    async def ship(self) -> None:
        """The Lease as it is installed."""
        lease = {"metadata": {"name": NAME, "namespace": "default"}, "spec": {}}
        await self.kube.call(Verb.POST, LEASES, body=msgspec.json.encode(lease))

    def of(self, node: str) -> NodeTurn:
        """A node's process that has just started."""
        return NodeTurn(self.kube, "default", NAME, node, self.clock)

    async def lease(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(
            await self.kube.call(Verb.GET, f"{LEASES}/{NAME}")
        )
        return found

    async def resolve(self) -> None:
        """What `kubectl annotate lease ... tessera.dev/failed-` does."""
        body = msgspec.json.encode({"metadata": {"annotations": {FAILED: None}}})
        await self.kube.call(
            Verb.PATCH, f"{LEASES}/{NAME}", body=body, kind=Body.MERGE_PATCH
        )  # fmt: skip


async def test_it_goes_from_one_node_to_the_next() -> None:
    turns = Turns()
    await turns.ship()
    one, two = turns.of("one"), turns.of("two")
    assert await one.take() == ""
    assert await two.take() == "it is the turn of node one"
    assert await turns.of("one").take() == ""  # after a restart of its process
    await two.release()
    assert (await turns.lease())["spec"]["holderIdentity"] == "one"
    await one.release()
    assert await two.take() == ""


async def test_one_of_two_that_try_at_once_has_it() -> None:
    turns = Turns()
    await turns.ship()
    one, two = turns.of("one"), turns.of("two")
    lease = await one.read()
    assert await two.take() == ""
    with pytest.raises(ApiConflict):
        await one.change(lease, {"spec": {"holderIdentity": "one"}})


async def test_a_failure_stops_every_node_until_it_is_resolved() -> None:
    turns = Turns()
    await turns.ship()
    one, two = turns.of("one"), turns.of("two")
    await one.take()
    await one.fail("containerd did not start")
    stopped = "stopped: one: containerd did not start. Then: kubectl -n default annotate lease"
    for node in (one, two, turns.of("one")):
        assert (await node.take()).startswith(stopped)
    await turns.resolve()
    assert await two.take() == "it is the turn of node one"
    assert await one.take() == ""
    await one.release()
    assert await two.take() == ""


async def test_a_node_that_was_mended_by_hand_lets_the_others_go_on() -> None:
    turns = Turns()
    await turns.ship()
    one = turns.of("one")
    await one.take()
    await one.fail("no")
    await turns.of("one").release()
    assert await turns.of("two").take() == ""
    assert FAILED not in ((await turns.lease())["metadata"].get("annotations") or {})


async def test_nobody_is_changed_without_the_lease() -> None:
    with pytest.raises(ApiNotFound):
        await Turns().of("one").take()


async def test_a_node_that_never_had_it_reads_it_once() -> None:
    turns = Turns()
    await turns.ship()
    one = turns.of("one")
    for _ in range(3):
        await one.release()
    assert sum(verb is Verb.GET for verb, _ in turns.kube.calls) == 1
