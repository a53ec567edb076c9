"""The rebalancer as a process of its own, next to a real nats-server and an API server's
sockets."""

import asyncio
import json
import signal
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import ClientError, ClientSession
from msgspec.structs import replace
from nats.errors import NoRespondersError

from tessera_embedded.apiserver import open_apiserver
from tessera_embedded.nats_server import NatsServer, open_nats
from tessera_embedded.parent import ends_with_parent
from tessera_runtime.bus.api import Message, Resync
from tessera_runtime.bus.client import open_bus
from tessera_runtime.errors import BusAway
from tessera_schema.messages.hints import NodeHints, decode_hints
from tessera_schema.subjects import HINTS_BUCKET
from tests.bus.buses import PATIENCE_S, QUICK, by_hand, within
from tests.rebalancer.cluster import Agents, Objects, a_use

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@asynccontextmanager
async def a_process(
    environ: Mapping[str, str], log: Path
) -> AsyncGenerator[asyncio.subprocess.Process]:
    with log.open("ab") as lines:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tessera_rebalancer", env=environ, stderr=lines,
            preexec_fn=ends_with_parent(),
        )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def reported(hints: AsyncIterator[Message | Resync], since: float) -> tuple[NodeHints, int]:
    """The next hints of what was measured since then, and when the rebalancer began."""
    async with asyncio.timeout(PATIENCE_S):
        async for item in hints:
            if isinstance(item, Message) and (found := decode_hints(item.data)).at >= since:
                return found, item.envelope.epoch
    raise AssertionError("a watch has no end")


async def measuring(agents: Agents, uid: str) -> None:
    """What an agent does, whatever becomes of NATS."""
    while True:
        with suppress(BusAway):
            await agents.publish((uid, a_use(20)))
        await asyncio.sleep(0.1)


async def metrics(ports: Path) -> str:
    """What it shows, once it is ready."""
    async with ClientSession() as session, asyncio.timeout(PATIENCE_S):
        while True:
            await asyncio.sleep(0.05)
            if not ports.exists():  # noqa: ASYNC240  (the test's own file)
                continue
            port = json.loads(ports.read_bytes())["http"]  # noqa: ASYNC240  (the test's own file)
            try:
                async with session.get(f"http://127.0.0.1:{port}/readyz") as response:
                    if response.status != 200:
                        continue
                async with session.get(f"http://127.0.0.1:{port}/metrics") as response:
                    return await response.text()
            except ClientError:
                continue


async def listed(server: NatsServer) -> dict[str, object]:
    """Its answer to `info`, as anybody may ask, once it listens to it."""
    async with by_hand(server) as client, asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(NoRespondersError):
                answer = await client.request("tessera.ask.default.rebalancer.info", timeout=20)
                found: dict[str, object] = json.loads(answer.data)
                return found
            await asyncio.sleep(0.05)


async def test_it_says_hints_through_deaths_of_its_own_and_of_nats(tmp_path: Path) -> None:
    bus_settings = replace(QUICK, cluster="default")
    async with (
        open_nats(tmp_path / "nats") as server,
        open_bus(replace(bus_settings, url=server.url), "test", "0") as bus,
        open_apiserver(tmp_path / "api", keep=False) as api,
        bus.watch(HINTS_BUCKET) as hints,
        asyncio.TaskGroup() as group,
    ):
        await within(bus.connection_generation(0))
        objects = Objects(api.store)
        uid = objects.bound("a", 50)
        agent = group.create_task(measuring(Agents(bus, time.time), uid), name="agent")
        environ = {
            "KUBECONFIG": str(api.kubeconfig),
            "TESSERA_PROCESS_PORTS_FILE": str(tmp_path / "ports.json"),
            "TESSERA_BUS_URL": server.url, "TESSERA_HTTP_PORT": "0",
            "TESSERA_BUS_RETRY_FIRST_S": "0.05", "TESSERA_BUS_RETRY_MOST_S": "0.3",
            "TESSERA_HINTS_LOOK_S": "0.1", "TESSERA_HINTS_LEAST_S": "0.1",
            "TESSERA_HINTS_AGAIN_S": "0.5", "TESSERA_PLANS_ON": "false",
        }  # fmt: skip
        async with a_process(environ, tmp_path / "log") as process:
            first, epoch = await reported(hints, 0)
            assert first.node == "n0"
            assert [b.most_cores_percent for b in first.bounds] == [100]
            text = await metrics(tmp_path / "ports.json")
            assert "tessera_rebalancer_hinted_nodes 1.0" in text
            info = await listed(server)
            assert (info["problem"], info["nodes"]) == ("", 1)
            await server.kill()
            await server.start()
            again, same = await reported(hints, time.time())
            assert (again.node, same) == ("n0", epoch)
            process.kill()
            await process.wait()
        (tmp_path / "ports.json").unlink()
        async with a_process(environ, tmp_path / "log") as process:
            after, later = await reported(hints, time.time())
            assert (after.node, after.bounds) == ("n0", first.bounds)
            assert later > epoch
            await metrics(tmp_path / "ports.json")
            process.send_signal(signal.SIGTERM)
            assert await within(process.wait()) == 0
        agent.cancel()


async def test_settings_that_make_no_sense_stop_it_with_a_sentence(tmp_path: Path) -> None:
    environ = {"TESSERA_SMOOTHING_LOAD": "1", "TESSERA_SMOOTHING_FALL_S": "0"}
    async with a_process(environ, tmp_path / "log") as process:
        assert await within(process.wait()) == 2
    text = (tmp_path / "log").read_text()
    assert "TESSERA_SMOOTHING_LOAD: nothing reads it" in text
    environ = {"TESSERA_LENDING_STOP_PERCENT": "50"}
    async with a_process(environ, tmp_path / "more") as process:
        assert await within(process.wait()) == 2
    assert "lending.resume_percent: 85" in (tmp_path / "more").read_text()
