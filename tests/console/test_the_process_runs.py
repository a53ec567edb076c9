"""The console as a process of its own, with an API server's sockets and a real nats-server on the
other side: a tenant's token, use from the bus, and what happens when it is killed."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tessera_embedded.apiserver import Account, ApiServer, Rule, open_apiserver
from tessera_embedded.nats_server import open_nats
from tessera_embedded.parent import ends_with_parent
from tessera_runtime.bus.client import open_bus
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.kube.api import Body, Kube, Verb
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tests.cli.card_cluster import (
    a100,
    card_node,
    holding_pod,
    node_usage,
    part,
    signed,
    use,
)

LOOK_S = 0.1


@asynccontextmanager
async def a_process(environ: Mapping[str, str], log: Path) -> AsyncGenerator[None]:
    with log.open("ab") as lines:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tessera_console", env=environ, stderr=lines,
            preexec_fn=ends_with_parent(),
        )  # fmt: skip
    try:
        yield
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def port_of(file: Path) -> int:
    async with asyncio.timeout(60):
        while not file.exists():  # noqa: ASYNC240  (the test's own file)
            await asyncio.sleep(LOOK_S)
    found: int = json.loads(file.read_bytes())["http"]  # noqa: ASYNC240
    return found


async def state(port: int, token: str, key: str) -> Any:
    """The document, once the stream has it."""
    url, headers = f"http://127.0.0.1:{port}/api/stream", {"Authorization": f"Bearer {token}"}
    async with asyncio.timeout(60), aiohttp.ClientSession(headers=headers) as session:
        while True:
            try:
                found = await _of_stream(session, url, key)
            except aiohttp.ClientError:
                found = None
            if found is not None:
                return found
            await asyncio.sleep(LOOK_S)


async def _of_stream(session: aiohttp.ClientSession, url: str, key: str) -> Any:
    async with session.get(url) as answer:
        if answer.status != 200:
            assert answer.status == 503, await answer.text()
            return None
        rest = b""
        async for chunk in answer.content.iter_any():
            *whole, rest = (rest + chunk).split(b"\n\n")
            for one in whole:
                document = json.loads(one.removeprefix(b"data: ")).get("put", {}).get(key)
                if document is not None and (not key.startswith("use/") or document[0][1]):
                    return document
    return None


async def a_pod(kube: Kube, namespace: str, name: str, gib: float) -> dict[str, Any]:
    item = holding_pod(namespace, name, part("n1", 0, gib, 20))
    path = f"/api/v1/namespaces/{namespace}/pods"
    made = json.loads(await kube.call(Verb.POST, path, body=json.dumps(item).encode()))
    meta, uid = item["metadata"], made["metadata"]["uid"]
    notes = {key: text.replace(meta["uid"], uid) for key, text in meta["annotations"].items()}
    meta |= {"uid": uid, "annotations": notes}
    for below, body in (("", {"metadata": {"annotations": notes}}),
                        ("/status", {"status": {"phase": "Running"}})):  # fmt: skip
        await kube.call(
            Verb.PATCH, f"{path}/{name}{below}", body=json.dumps(body).encode(),
            kind=Body.MERGE_PATCH,
        )  # fmt: skip
    return item


def environment(server: ApiServer, ports: Path, nats: str, port: int = 0) -> dict[str, str]:
    return {
        "KUBECONFIG": str(server.kubeconfig), "TESSERA_PROCESS_PORTS_FILE": str(ports),
        "TESSERA_BUS_URL": nats, "TESSERA_HTTP_PORT": f"{port}", "TESSERA_STREAM_EVERY_S": "0.2",
    }  # fmt: skip


@pytest.mark.slow
async def test_a_tenant_and_a_console_that_is_killed(tmp_path: Path) -> None:
    tenant = Account("tenant", (Rule(("list",), ("pods",), namespaces=("a",)),))
    log, ports = tmp_path / "log", tmp_path / "ports"
    async with (
        open_nats(tmp_path / "nats") as nats,
        open_apiserver(tmp_path / "api", accounts=[tenant], keep=False) as server,
        open_kube(KubeSettings(kubeconfig=str(server.kubeconfig))) as kube,
        open_bus(BusSettings(url=nats.url), "test", "agents") as bus,
    ):
        for name in ("a", "b"):
            body = json.dumps({"metadata": {"name": name}}).encode()
            await kube.call(Verb.POST, "/api/v1/namespaces", body=body)
        node = json.dumps(card_node("n1", [a100("n1", 0)])).encode()
        await kube.call(Verb.POST, "/api/v1/nodes", body=node)
        own, foreign = await a_pod(kube, "a", "own", 24), await a_pod(kube, "b", "foreign", 16)
        token = server.tokens["tenant"]
        async with a_process(environment(server, ports, nats.url), log):
            port = await port_of(ports)
            card = (await state(port, token, "node/n1"))["cards"][0]
            assert [share.get("pod") for share in card["shares"]] == ["own", None]
            reported = asyncio.Event()

            async def reports() -> None:
                sequence = 0
                while not reported.is_set():
                    sequence += 1
                    of_node = node_usage("n1", use(own, 12, 10), use(foreign, 8, 9))
                    await bus.publish(*signed(of_node, "default", sequence))
                    await asyncio.sleep(LOOK_S)

            async with asyncio.TaskGroup() as group:
                group.create_task(reports(), name="an agent")
                used = (await state(port, token, "use/n1"))[0]
                reported.set()
            assert used[0] == 20 * 1024
            assert used[2][1] == 0  # a foreign pod's use is nobody else's
        ports.unlink()
        async with a_process(environment(server, ports, nats.url, port), log):
            again = (await state(await port_of(ports), token, "node/n1"))["cards"][0]
        assert again == card
    assert "Traceback" not in log.read_text()
