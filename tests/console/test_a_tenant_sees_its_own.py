"""What goes over the wire to a tenant: names of its own pods, sizes of others'."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from tests.console.scene import (
    ADMIN,
    NAMES,
    SETTINGS,
    TENANT,
    TENANT_OF,
    Scene,
    a_console,
    happenings,
    report,
    small_scene,
)

Json = dict[str, Any]


@asynccontextmanager
async def calling(token: str, scene: Scene, **settings: Any) -> AsyncGenerator[Wire]:
    """Requests with a token."""
    async with (
        a_console(scene, replace(SETTINGS, **settings)) as console,
        aiohttp.ClientSession(
            f"http://127.0.0.1:{console.served.port}",
            headers={"Authorization": f"Bearer {token}"} if token else {},
        ) as session,
    ):
        yield Wire(session)


class Wire:
    """What is asked, and every byte that was answered."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        self.text = ""

    async def get(self, path: str) -> tuple[int, Json]:
        async with self.session.get(path) as answer:
            text = await answer.text()
            self.text += text
            return answer.status, json.loads(text)

    async def post(self, path: str, body: Json) -> tuple[int, Json]:
        async with self.session.post(path, json=body) as answer:
            text = await answer.text()
            self.text += text
            return answer.status, json.loads(text)

    async def first(self) -> Json:
        """The whole state."""
        (found,) = await self.several(1)
        return found

    async def several(self, count: int) -> list[Json]:
        """So many messages of the stream."""
        found: list[Json] = []
        async with asyncio.timeout(60), self.session.get("/api/stream") as answer:
            assert answer.status == 200, await answer.text()
            rest = b""
            while len(found) < count:
                rest += await answer.content.readany()
                *whole, rest = rest.split(b"\n\n")
                for one in whole:
                    text = one.decode()
                    self.text += text
                    found.append(json.loads(text.removeprefix("data: ")))
        return found[:count]


def own_and_foreign(scene: Scene) -> tuple[list[str], list[str]]:
    """Names of the tenant's pods, and of all others."""
    own = [key for key in scene.pods if key.startswith(f"{TENANT_OF}/")]
    return own, [key for key in scene.pods if key not in own]


async def everything_said(scene: Scene) -> None:
    """Everything that the bus can say has been said."""
    await report(scene)
    await happenings(scene)


async def test_no_answer_has_a_foreign_name() -> None:
    scene = small_scene()
    own, foreign = own_and_foreign(scene)
    async with calling(TENANT, scene, acts=True) as wire:
        await everything_said(scene)
        for update in await wire.several(3):
            assert update["at"] > 0
        for key in (*own, *foreign):
            await wire.get(f"/api/pods/{key}")
            await wire.get(f"/api/explanations/{key}")
        for n in range(1, 7):
            for i in range(8):
                await wire.get(f"/api/cards/gpu-{n}/{i}")
        for plan in ("defragment-7f3a", "resize-19bc"):
            await wire.post(f"/api/plans/{plan}/decision", {"decision": "approved", "version": "1"})
    names = {key.partition("/")[2] for key in foreign}
    assert {name for name in names if re.search(rf"\b{name}\b(?!-)", wire.text)} == set()
    namespaces = {name for name in NAMES if name != TENANT_OF}
    assert {name for name in namespaces if f'"{name}"' in wire.text} == set()
    assert all(f'"{key.partition("/")[2]}"' in wire.text for key in own)


async def test_foreign_shares_have_a_size_and_nothing_else() -> None:
    scene = small_scene()
    async with calling(TENANT, scene) as wire:
        state = (await wire.first())["put"]
    shares = [s for key, node in state.items() if key.startswith("node/")
              for card in node["cards"] for s in card["shares"]]  # fmt: skip
    foreign = [share for share in shares if "pod" not in share]
    assert foreign
    assert {tuple(sorted(share)) for share in foreign} == {("cores", "mib", "whole")}
    own = [share for share in shares if "pod" in share]
    assert own
    assert {share["namespace"] for share in own} == {TENANT_OF}
    assert state["meta"]["waiting_hidden"] == 2
    assert not [key for key in state if key.startswith(("quota/", "plan/"))]


async def test_an_administrator_sees_all() -> None:
    scene = small_scene()
    async with calling(ADMIN, scene) as wire:
        state = (await wire.first())["put"]
    for key in scene.pods:
        assert f'"{key.partition("/")[2]}"' in wire.text
    assert state["meta"]["everything"] is True
    assert {key for key in state if key.startswith("plan/")} == {
        "plan/defragment-7f3a", "plan/resize-19bc"
    }  # fmt: skip
    assert len([key for key in state if key.startswith("quota/")]) == 3


@pytest.mark.parametrize("token", ["", "somebody's"])
async def test_without_a_token_that_counts_there_is_nothing(token: str) -> None:
    scene = small_scene()
    async with calling(token, scene) as wire:
        for path in ("stream", "pods/ml/llm-70b-0", "cards/gpu-1/0", "explanations/ml/llm-70b-0"):
            status, answer = await wire.get(f"/api/{path}")
            assert status == 401
            assert "sign in with a token" in answer["error"]
        body = {"decision": "approved", "version": "1"}
        status, _ = await wire.post("/api/plans/defragment-7f3a/decision", body)
        assert status == 401


async def test_a_right_that_is_gone_shows_nothing_after_some_seconds() -> None:
    scene = small_scene()
    rights = replace(SETTINGS.rights, cache_s=0.3)
    async with calling(TENANT, scene, rights=rights) as wire:
        before = (await wire.first())["put"]
        user = scene.store.access.user_of(TENANT)
        assert user is not None
        scene.store.access.give(TENANT, user, [])
        async with asyncio.timeout(60):
            while '"pod"' in json.dumps((await wire.first())["put"]):
                await asyncio.sleep(0.05)
    assert '"pod"' in json.dumps(before)


async def test_another_name_for_loopback_is_refused_where_access_is_open() -> None:
    scene = small_scene()
    async with calling("", scene, access="open") as wire:
        status, _ = await wire.get("/api/cards/gpu-1/0")
        assert status == 200
        async with wire.session.get(
            "/api/cards/gpu-1/0", headers={"Host": "attacker.example"}
        ) as answer:
            assert answer.status == 403
