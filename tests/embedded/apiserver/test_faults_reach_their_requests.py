"""Faults are met by the requests they were meant for, as often as was said, and by no others."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from msgspec import Struct

from tessera_embedded.apiserver import (
    Answer,
    ApiServer,
    Cut,
    Delay,
    Hang,
    InjectedFault,
    open_apiserver,
)
from tests.embedded.apiserver.setting import PODS, Json, a_pod

BINDING = f"{PODS}/p/binding"
TO_A_NODE: Json = {"metadata": {"name": "p", "annotations": {"k": "v"}}, "target": {"name": "n"}}


class Caller(Struct, frozen=True):
    """The administrator."""

    server: ApiServer
    session: aiohttp.ClientSession
    tls: ssl.SSLContext

    async def call(self, method: str, path: str, body: object = None) -> tuple[int, Json]:
        """One request on a connection of its own, never tried again."""
        url, tls = self.server.url + path, self.tls
        async with self.session.request(method, url, json=body, ssl=tls) as answer:
            said: Json = await answer.json()
            return answer.status, {**said, "retry": answer.headers.get("Retry-After")}


@asynccontextmanager
async def a_server(folder: Path) -> AsyncGenerator[Caller]:
    """A server with one pod."""
    async with open_apiserver(folder, keep=False) as server:
        tls = ssl.create_default_context(cafile=server.ca_path)
        headers = {"Authorization": f"Bearer {server.token}"}
        connections = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(headers=headers, connector=connections) as session:
            caller = Caller(server, session, tls)
            assert (await caller.call("POST", PODS, a_pod()))[0] == 201
            yield caller


async def bound_to(caller: Caller) -> str | None:
    """The node that the pod is on."""
    _, pod = await caller.call("GET", f"{PODS}/p")
    node: str | None = pod["spec"].get("nodeName")
    return node


@pytest.mark.parametrize(("code", "reason"), [(409, "Conflict"), (500, "InternalError")])
async def test_the_next_requests_are_refused(tmp_path: Path, code: int, reason: str) -> None:
    async with a_server(tmp_path) as caller:
        caller.server.faults.add(InjectedFault("POST", r".*/binding", Answer(code), times=2))
        other = await caller.call("GET", PODS)
        answers = [await caller.call("POST", BINDING, TO_A_NODE) for _ in range(3)]
    assert other[0] == 200
    assert [status for status, _ in answers] == [code, code, 201]
    assert answers[0][1]["reason"] == reason


async def test_a_busy_server_says_when_to_come_again(tmp_path: Path) -> None:
    async with a_server(tmp_path) as caller:
        caller.server.faults.add(InjectedFault("*", r"/api/v1/nodes", Answer(429, retry_after_s=7)))
        status, body = await caller.call("GET", "/api/v1/nodes")
        assert caller.server.faults.waiting == 0
    assert (status, body["retry"], body["details"]["retryAfterSeconds"]) == (429, "7", 7)


@pytest.mark.parametrize(("effect", "node"), [(Cut(), None), (Cut(after=True), "n")])
async def test_a_connection_is_cut_before_or_after_the_write(
    tmp_path: Path, effect: Cut, node: str | None
) -> None:
    async with a_server(tmp_path) as caller:
        caller.server.faults.add(InjectedFault("POST", r".*/binding", effect))
        with pytest.raises(aiohttp.ClientError):
            await caller.call("POST", BINDING, TO_A_NODE)
        assert await bound_to(caller) == node


async def test_a_request_may_never_be_answered(tmp_path: Path) -> None:
    async with a_server(tmp_path) as caller:
        caller.server.faults.add(InjectedFault("POST", r".*/binding", Hang()))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await caller.call("POST", BINDING, TO_A_NODE)
        assert await bound_to(caller) is None


async def test_a_request_may_be_carried_out_late(tmp_path: Path) -> None:
    async with a_server(tmp_path) as caller:
        caller.server.faults.add(InjectedFault("POST", r".*/binding", Delay(3600)))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await caller.call("POST", BINDING, TO_A_NODE)
        assert await bound_to(caller) is None
        caller.server.faults.clear()
        caller.server.faults.add(InjectedFault("POST", r".*/binding", Delay(0.01)))
        assert (await caller.call("POST", BINDING, TO_A_NODE))[0] == 201
        assert caller.server.faults.waiting == 0


async def test_watches_can_be_cut_at_once(tmp_path: Path) -> None:
    async with a_server(tmp_path) as caller:
        url = f"{caller.server.url}{PODS}?watch=true"
        async with caller.session.get(url, ssl=caller.tls) as answer:
            assert b"ADDED" in await answer.content.readline()
            caller.server.cut_watches()
            with pytest.raises(aiohttp.ClientError):
                await answer.content.readline()


async def test_faults_can_be_forgotten(tmp_path: Path) -> None:
    async with a_server(tmp_path) as caller:
        caller.server.faults.add(InjectedFault("*", ".*", Answer(500), times=100))
        caller.server.faults.clear()
        assert (await caller.call("GET", PODS))[0] == 200
