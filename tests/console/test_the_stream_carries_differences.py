"""The whole state first, then what has changed; after a break the whole state again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from tessera_runtime.errors import BadSettings
from tests.cli.card_cluster import holding_pod, part
from tests.console.scene import SETTINGS, a_console, report, small_scene
from tests.console.test_a_tenant_sees_its_own import calling

OPEN = replace(SETTINGS, access="open")


@asynccontextmanager
async def stream(base: str) -> AsyncGenerator[AsyncIterator[dict[str, Any]]]:
    """Messages as they come."""

    async def messages() -> AsyncIterator[dict[str, Any]]:
        rest = b""
        async for chunk in answer.content.iter_any():
            *whole, rest = (rest + chunk).split(b"\n\n")
            for one in whole:
                yield json.loads(one.removeprefix(b"data: "))

    async with (
        aiohttp.ClientSession() as session,
        asyncio.timeout(60),
        session.get(f"{base}/api/stream") as answer,
    ):
        yield messages()


def base_of(port: int) -> str:
    return f"http://127.0.0.1:{port}"


async def until_put(found: AsyncIterator[dict[str, Any]], key: str) -> dict[str, Any]:
    async for update in found:
        if key in update.get("put", {}):
            return update
    raise AssertionError("the stream ended")


async def test_only_what_changed_is_sent() -> None:
    scene = small_scene()
    async with a_console(scene, OPEN) as console, stream(base_of(console.served.port)) as found:
        first = await anext(found)
        assert first["full"] is True
        assert {f"node/gpu-{n}" for n in range(1, 7)} <= set(first["put"])
        scene.pod(holding_pod("web", "late", part("gpu-6", 0, 4, 10)))
        update = await until_put(found, "node/gpu-6")
        assert not update.get("full", False)
        assert "node/gpu-1" not in update["put"]
        assert [s["pod"] for s in update["put"]["node/gpu-6"]["cards"][0]["shares"]] == ["late"]


async def test_what_is_gone_is_dropped() -> None:
    scene = small_scene()
    async with a_console(scene, OPEN) as console, stream(base_of(console.served.port)) as found:
        await anext(found)
        scene.store.handle("DELETE", "/api/v1/nodes/gpu-6")
        async for update in found:
            if "node/gpu-6" in update.get("drop", ()):
                break


async def test_use_is_apart_from_the_cards() -> None:
    scene = small_scene()
    async with a_console(scene, OPEN) as console, stream(base_of(console.served.port)) as found:
        await anext(found)
        await report(scene)
        update = await until_put(found, "use/gpu-1")
        assert "node/gpu-1" not in update["put"]
        used_mib, used_percent, shares = update["put"]["use/gpu-1"][0]
        assert used_mib > 0
        assert used_percent > 0
        assert len(shares[0]) == 7


async def test_after_a_break_the_whole_state_comes_again() -> None:
    scene = small_scene()
    async with a_console(scene, OPEN) as console:
        port = console.served.port
        async with stream(base_of(port)) as found:
            await anext(found)
    async with a_console(scene, OPEN, port=port), stream(base_of(port)) as found:
        again = await anext(found)
    assert again["full"] is True
    assert "node/gpu-1" in again["put"]


async def test_pages_are_bounded() -> None:
    settings = replace(OPEN, stream=replace(OPEN.stream, most=1))
    async with a_console(small_scene(), settings) as console:
        base = base_of(console.served.port)
        async with stream(base) as found:
            await anext(found)
            async with aiohttp.ClientSession() as session, session.get(f"{base}/api/stream") as no:
                assert no.status == 503
                assert "too many pages" in (await no.json())["error"]


async def test_a_bus_that_is_away_is_said() -> None:
    scene = small_scene()
    async with calling("", scene, access="open") as wire:
        scene.bus.away()
        async with asyncio.timeout(60):
            while not (found := (await wire.first())["put"]["meta"]["problems"]):
                await asyncio.sleep(0.1)
    assert "The message bus does not answer" in found[0]


def test_open_access_is_for_loopback_alone() -> None:
    with pytest.raises(BadSettings, match=r"access: 'open' with http.host '0\.0\.0\.0'"):
        replace(OPEN, http=replace(OPEN.http, host="0.0.0.0")).check()  # noqa: S104
