"""The scheduler as a process of its own, with a real API server's sockets on the other side."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError, ClientSession

from tessera_embedded.apiserver import ApiServer, open_apiserver
from tessera_embedded.parent import ends_with_parent
from tessera_runtime import dialect_config
from tessera_runtime.errors import BadSettings
from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tessera_schema.grants import GRANT_KEY
from tessera_schema.node_cards import NodeCardsAnnotation, encode_node_cards
from tests.scheduler.fake_cluster import CARDS, HOME, LEASE, cards_on

LIMITS = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000"}
PODS = "/api/v1/namespaces/default/pods"


def environment(server: ApiServer, ports: Path) -> dict[str, str]:
    """Ports that are free, and a Lease that is waited out soon, but not lost on a machine that has
    much else to do."""
    return {
        "KUBECONFIG": str(server.kubeconfig),
        "TESSERA_PROCESS_PORTS_FILE": str(ports),
        "TESSERA_KUBE_CALL_S": "4",
        "TESSERA_LEASE_DURATION_S": "10",
        "TESSERA_LEASE_RENEW_S": "0.5",
        "TESSERA_LEASE_RETRY_S": "0.2",
        "TESSERA_BUS_URL": "nats://127.0.0.1:1",
        "TESSERA_EXTENDER_PORT": "0",
        "TESSERA_HTTP_PORT": "0",
        "TESSERA_WEBHOOK_HTTP_PORT": "0",
        "TESSERA_WEBHOOK_HTTP_HOST": "127.0.0.1",
        "TESSERA_VISIBILITY_HTTP_PORT": "0",
        "TESSERA_VISIBILITY_HTTP_HOST": "127.0.0.1",
        "TESSERA_WEBHOOK_REGISTRATION_HOST": "127.0.0.1",
        "TESSERA_WEBHOOK_REGISTRATION_TIMEOUT_S": "30",
    }


@asynccontextmanager
async def a_process(
    environ: Mapping[str, str], log: Path
) -> AsyncGenerator[asyncio.subprocess.Process]:
    with log.open("ab") as lines:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tessera_scheduler", env=environ, stderr=lines,
            preexec_fn=ends_with_parent(),
        )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def ready(ports: Path) -> dict[str, str]:
    """The servers' URLs, once it leads."""
    async with ClientSession() as session, asyncio.timeout(60):
        while True:
            await asyncio.sleep(0.05)
            if not ports.exists():  # noqa: ASYNC240  (the test's own file)
                continue
            found = json.loads(ports.read_bytes())  # noqa: ASYNC240  (the test's own file)
            if found.keys() < {"http", "extender", "webhook"}:
                continue
            urls = {name: f"http://127.0.0.1:{port}" for name, port in found.items()}
            try:
                async with session.get(f"{urls['http']}/readyz") as response:
                    if response.status == 200:
                        return urls
            except ClientError:
                continue


async def make(kube: Kube, path: str, body: object) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(
        await kube.call(Verb.POST, path, body=json.dumps(body).encode())
    )
    return made


async def prepare(kube: Kube) -> None:
    await make(kube, "/api/v1/namespaces", {"metadata": {"name": HOME}})
    await make(kube, LEASE, {"metadata": {"name": "tessera-scheduler"}})
    cards = encode_node_cards(NodeCardsAnnotation(cards=tuple(cards_on("n0"))))
    node = {"metadata": {"name": "n0", "annotations": {CARDS: cards}}}
    await make(kube, "/api/v1/nodes", node)


async def place(kube: Kube, urls: Mapping[str, str], name: str) -> dict[str, Any]:
    """The pod after filter and bind."""
    container = {"name": "c", "image": "i", "resources": {"limits": LIMITS}}
    pod = await make(kube, PODS, {"metadata": {"name": name}, "spec": {"containers": [container]}})
    binding = {
        "PodName": name, "PodNamespace": "default", "PodUID": pod["metadata"]["uid"], "Node": "n0",
    }  # fmt: skip
    async with ClientSession(urls["extender"]) as session:
        async with session.post("/filter", json={"Pod": pod, "NodeNames": ["n0"]}) as response:
            assert (await response.json())["NodeNames"] == ["n0"]
        async with session.post("/bind", json=binding) as response:
            assert (await response.json())["Error"] == ""
    found: dict[str, Any] = json.loads(await kube.call(Verb.GET, f"{PODS}/{name}"))
    return found


@pytest.mark.slow
async def test_it_admits_places_survives_kill_and_ends_cleanly(tmp_path: Path) -> None:
    ports, log = tmp_path / "ports.json", tmp_path / "log"
    async with (
        open_apiserver(tmp_path / "api", keep=False) as server,
        open_kube(KubeSettings(kubeconfig=str(server.kubeconfig))) as kube,
    ):
        await prepare(kube)
        environ = environment(server, ports)
        async with a_process(environ, log) as process:
            pod = await place(kube, await ready(ports), "a")
            assert pod["spec"]["nodeName"] == "n0"
            assert pod["spec"]["schedulerName"] == "tessera-scheduler"
            assert pod["metadata"]["annotations"][GRANT_KEY]
            process.kill()
            await process.wait()
        ports.unlink()
        async with a_process(environ, log) as process:
            urls = await ready(ports)
            async with ClientSession() as session, session.get(f"{urls['http']}/metrics") as answer:
                assert 'tessera_scheduler_grants{phase="bound"} 1.0' in await answer.text()
            after = await place(kube, urls, "b")
            assert after["spec"]["nodeName"] == "n0"
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(60):
                assert await process.wait() == 0


@pytest.mark.slow
async def test_settings_that_make_no_sense_stop_it_with_a_sentence(tmp_path: Path) -> None:
    async with open_apiserver(tmp_path / "api", keep=False) as server:
        environ = environment(server, tmp_path / "ports.json")
        for name, value, problem in (
            ("TESSERA_BOOKS_RESERVATION_S", "3", "books.reservation_s: 3: write more than"),
            ("TESSERA_BOOKS_MIGRATE", "true", "TESSERA_BOOKS_MIGRATE: nothing reads it"),
            ("TESSERA_DIALECTS_FILE", str(tmp_path / "no"), "name a file to read"),
        ):
            log = tmp_path / name
            async with a_process(environ | {name: value}, log) as process:
                async with asyncio.timeout(60):
                    assert await process.wait() == 2
            assert problem in log.read_text()


def test_the_dialects_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "dialects.yaml"
    file.write_text("volcano: {enabled: false}\n")
    assert "volcano" not in dialect_config.load(file).dialects
    for text, problem in (
        ("hami: {nonsense: 1}", "dialects.hami: "),
        ("nobody: {}", "no such dialect"),
        ("[1]", "Expected"),
        ("a: [", ""),
    ):
        file.write_text(text)
        with pytest.raises(BadSettings, match=r"^dialects\.file: ") as caught:
            dialect_config.load(file)
        assert problem in str(caught.value)
