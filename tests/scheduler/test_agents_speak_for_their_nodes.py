"""All agents are one user of the message bus: who tells of a node's cards proves that it is that
node's, by the key that the node shows."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tessera_core.trust.grants import new_key
from tessera_core.trust.messages import MessageSigner, sender_problem
from tessera_runtime.bus.outbox import Sign, open_outbox
from tessera_schema.messages.device_reports import DeviceState, encode
from tessera_schema.node_cards import NodeCardsAnnotation, encode_node_cards
from tessera_schema.subjects import DEVICES_BUCKET
from tests.scheduler.world import CARDS, World, cards_on, doubted, leading, standing_by, until

OURS, ANOTHER = MessageSigner(new_key()), MessageSigner(new_key())
ORDER = (1, 7)


def shows(world: World, node: str, speaker: MessageSigner = OURS) -> None:
    """The node's agent has published its cards, and the key that it speaks by."""
    told = NodeCardsAnnotation(cards=tuple(cards_on(node)), speaks=speaker.public)
    world.note(f"/api/v1/nodes/{node}", {CARDS: encode_node_cards(told)})


async def tell(world: World, node: str, sign: Sign | None) -> None:
    """Somebody tells that the node has lost its cards."""
    state = DeviceState(node=node, vendor="nvidia")
    async with open_outbox(world.bus, world.clock, "agent", node, sign=sign) as outbox:
        outbox.publish_state(DEVICES_BUCKET, f"{node}.nvidia", "dev.tessera.device", encode(state))
    await asyncio.sleep(0.1)


@pytest.mark.looptime
@pytest.mark.parametrize(("sign", "reason"), [(None, "unsigned"), (ANOTHER.sign, "signature")])
async def test_nobody_takes_the_cards_of_another_node(sign: Sign | None, reason: str) -> None:
    world = World(1)
    world.pod("a", 4000)
    shows(world, "n0")
    async with leading(world) as scheduler:
        await tell(world, "n0", sign)
        assert doubted(scheduler) == {reason: 1}
        assert world.filter(scheduler, "a").node_names == ("n0",)
        await tell(world, "n0", OURS.sign)
        assert not world.filter(scheduler, "a").node_names
        assert doubted(scheduler) == {reason: 1}


@pytest.mark.looptime
async def test_what_was_told_before_is_judged_when_nodes_are_known() -> None:
    world = World(1)
    world.pod("a", 4000)
    shows(world, "n0")
    await tell(world, "n0", ANOTHER.sign)
    async with standing_by(world) as scheduler:
        await until(lambda: scheduler.leadership.leads)
        assert world.filter(scheduler, "a").node_names == ("n0",)
        assert doubted(scheduler) == {"signature": 1}


@pytest.mark.looptime
async def test_an_agent_of_an_older_release_is_believed_until_it_shows_a_key() -> None:
    world = World(1)
    world.pod("a", 4000)
    async with leading(world) as scheduler:
        await tell(world, "n0", None)
        assert not world.filter(scheduler, "a").node_names
        shows(world, "n0")
        await asyncio.sleep(120)
        await tell(world, "n0", None)
        assert world.filter(scheduler, "a").node_names == ("n0",)


@pytest.mark.looptime
async def test_a_state_that_is_told_again_is_signed_again() -> None:
    world = World(1)
    world.pod("a", 4000)
    shows(world, "n0")
    async with (
        leading(world) as scheduler,
        open_outbox(world.bus, world.clock, "agent", "n0", sign=OURS.sign) as outbox,
    ):
        state = DeviceState(node="n0", vendor="nvidia")
        outbox.publish_state(DEVICES_BUCKET, "n0.nvidia", "dev.tessera.device", encode(state))
        await asyncio.sleep(0.1)
        world.bus.away()
        await asyncio.sleep(1)
        world.bus.back()
        await asyncio.sleep(60)
        assert not world.filter(scheduler, "a").node_names
        assert doubted(scheduler) == {}


def test_a_signature_is_of_one_message_and_one_key() -> None:
    signature = OURS.sign(ORDER, b"x")
    assert sender_problem(OURS.public, signature, ORDER, b"x") == ""
    assert "not signed" in sender_problem(OURS.public, "", ORDER, b"x")
    for order, data, key in (
        ((1, 8), b"x", OURS), ((2, 7), b"x", OURS), (ORDER, b"y", OURS), (ORDER, b"x", ANOTHER),
    ):  # fmt: skip
        assert "not by the key" in sender_problem(key.public, signature, order, data)
    for shown, made in (("?", signature), (OURS.public, "?"), ("QUJD", signature)):
        assert "base64" in sender_problem(shown, made, ORDER, b"x")


def test_a_node_shows_a_key_only_where_there_is_one() -> None:
    assert "speaks" not in msgspec.json.decode(encode_node_cards(NodeCardsAnnotation()))
