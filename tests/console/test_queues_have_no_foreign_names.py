"""The answer about queues on the wire: a tenant sees all numbers, and names of its own pods."""

from __future__ import annotations

from aiohttp import ClientSession
from msgspec.structs import replace

from tessera_core.gang_scheduling.view import QueueKey, QueueView, WaitingGang
from tessera_core.gangs.fair_shares import QueueShare
from tessera_core.gangs.queues import VOLCANO_QUEUE, QueueDimension
from tests.console.scene import (
    ADMIN,
    SETTINGS,
    TENANT,
    TENANT_OF,
    Scene,
    a_console,
    small_scene,
)
from tests.console.test_a_tenant_sees_its_own import calling

CARDS = QueueDimension("nvidia", "cards")


def waiting(position: int, namespace: str, name: str, reason: str = "") -> WaitingGang:
    return WaitingGang(
        id=f"volcano/{namespace}/{name}", position=position, namespace=namespace, name=name, pods=4,
        reason=reason, waits_since=1000,
    )  # fmt: skip


def queued() -> Scene:
    scene = small_scene()
    reason = "gang ml/secret-train is before it in its queue, which is fifo"
    scene.queues = (
        QueueView(
            key=QueueKey(VOLCANO_QUEUE.group, "research"), origin=VOLCANO_QUEUE, parent="",
            guarantee={}, cap={CARDS: 8}, deserved={CARDS: 4}, used={CARDS: 6},
            share=QueueShare(0.25, 1.5), by=CARDS, problem="",
            waiting=(waiting(1, "ml", "secret-train"), waiting(2, TENANT_OF, "mine", reason)),
        ),
    )  # fmt: skip
    return scene


async def test_a_tenant_sees_numbers_and_no_foreign_names() -> None:
    async with calling(TENANT, queued()) as wire:
        status, found = await wire.get("/api/queues")
    assert status == 200
    assert "secret" not in wire.text
    assert '"ml"' not in wire.text
    (queue,) = found["items"]
    assert (queue["state"]["waiting_gangs"], queue["state"]["waiting_pods"]) == (2, 8)
    assert [each["name"] for each in queue["waiting"]] == ["", "mine"]


async def test_an_administrator_sees_all_names() -> None:
    async with calling(ADMIN, queued()) as wire:
        await wire.get("/api/queues")
    assert '"secret-train"' in wire.text


async def test_without_a_token_there_is_nothing() -> None:
    async with calling("", queued()) as wire:
        status, _ = await wire.get("/api/queues")
    assert status == 401


async def test_where_nobody_serves_them_there_are_none() -> None:
    async with (
        a_console(small_scene(), replace(SETTINGS, access="open")) as console,
        ClientSession() as session,
        session.get(f"http://127.0.0.1:{console.served.port}/api/queues") as answer,
    ):
        assert answer.status == 200
        found = await answer.json()
    assert found["items"] == []
    assert "APIService is missing" in found["message"]


async def test_the_page_has_its_address() -> None:
    async with calling(TENANT, queued()) as wire, wire.session.get("/queues") as answer:
        assert answer.status == 200
        assert "text/html" in answer.headers["Content-Type"]
