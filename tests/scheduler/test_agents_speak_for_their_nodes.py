"""All agents are one user of the message bus: a sender that reports a node's cards proves that it
is that node's, by the key that the node shows."""

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
from tests.scheduler.fake_cluster import (
    CARDS,
    FakeCluster,
    cards_on,
    doubted,
    leading,
    standing_by,
    until,
)

OWN, ANOTHER = MessageSigner(new_key()), MessageSigner(new_key())
ORDER = (1, 7)


def shows(cluster: FakeCluster, node: str, speaker: MessageSigner = OWN) -> None:
    """The node's agent has published its cards, and the key that it speaks by."""
    published = NodeCardsAnnotation(cards=tuple(cards_on(node)), speaks=speaker.public)
    cluster.note(f"/api/v1/nodes/{node}", {CARDS: encode_node_cards(published)})


async def report_lost(cluster: FakeCluster, node: str, sign: Sign | None) -> None:
    """A report says that the node has lost its cards."""
    state = DeviceState(node=node, vendor="nvidia")
    async with open_outbox(cluster.bus, cluster.clock, "agent", node, sign=sign) as outbox:
        outbox.publish_state(DEVICES_BUCKET, f"{node}.nvidia", "dev.tessera.device", encode(state))
    await asyncio.sleep(0.1)


@pytest.mark.looptime
@pytest.mark.parametrize(("sign", "reason"), [(None, "unsigned"), (ANOTHER.sign, "signature")])
async def test_nobody_takes_the_cards_of_another_node(sign: Sign | None, reason: str) -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 4000)
    shows(cluster, "n0")
    async with leading(cluster) as scheduler:
        await report_lost(cluster, "n0", sign)
        assert doubted(scheduler) == {reason: 1}
        assert cluster.filter(scheduler, "a").node_names == ("n0",)
        await report_lost(cluster, "n0", OWN.sign)
        assert not cluster.filter(scheduler, "a").node_names
        assert doubted(scheduler) == {reason: 1}


@pytest.mark.looptime
async def test_a_report_that_came_before_is_checked_when_nodes_are_known() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 4000)
    shows(cluster, "n0")
    await report_lost(cluster, "n0", ANOTHER.sign)
    async with standing_by(cluster) as scheduler:
        await until(lambda: scheduler.leadership.leads)
        assert cluster.filter(scheduler, "a").node_names == ("n0",)
        assert doubted(scheduler) == {"signature": 1}


@pytest.mark.looptime
async def test_an_agent_of_an_older_release_is_believed_until_it_shows_a_key() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 4000)
    async with leading(cluster) as scheduler:
        await report_lost(cluster, "n0", None)
        assert not cluster.filter(scheduler, "a").node_names
        shows(cluster, "n0")
        await asyncio.sleep(120)
        await report_lost(cluster, "n0", None)
        assert cluster.filter(scheduler, "a").node_names == ("n0",)


@pytest.mark.looptime
async def test_a_state_that_is_published_again_is_signed_again() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 4000)
    shows(cluster, "n0")
    async with (
        leading(cluster) as scheduler,
        open_outbox(cluster.bus, cluster.clock, "agent", "n0", sign=OWN.sign) as outbox,
    ):
        state = DeviceState(node="n0", vendor="nvidia")
        outbox.publish_state(DEVICES_BUCKET, "n0.nvidia", "dev.tessera.device", encode(state))
        await asyncio.sleep(0.1)
        cluster.bus.away()
        await asyncio.sleep(1)
        cluster.bus.back()
        await asyncio.sleep(60)
        assert not cluster.filter(scheduler, "a").node_names
        assert doubted(scheduler) == {}


def test_a_signature_is_of_one_message_and_one_key() -> None:
    signature = OWN.sign(ORDER, b"x")
    assert sender_problem(OWN.public, signature, ORDER, b"x") == ""
    assert "not signed" in sender_problem(OWN.public, "", ORDER, b"x")
    for order, data, key in (
        ((1, 8), b"x", OWN), ((2, 7), b"x", OWN), (ORDER, b"y", OWN), (ORDER, b"x", ANOTHER),
    ):  # fmt: skip
        assert "not by the key" in sender_problem(key.public, signature, order, data)
    for shown, made in (("?", signature), (OWN.public, "?"), ("QUJD", signature)):
        assert "base64" in sender_problem(shown, made, ORDER, b"x")


def test_a_node_shows_a_key_only_where_there_is_one() -> None:
    assert "speaks" not in msgspec.json.decode(encode_node_cards(NodeCardsAnnotation()))
