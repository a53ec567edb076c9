"""`nats service ls` and a request, with plain nats-py against a real nats-server."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError

from tessera_embedded.apiserver import open_apiserver
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tests.bus.buses import by_hand, on_nats
from tests.scheduler.test_the_process_runs import a_process, environment, place, prepare, ready


async def requested(client: Client, subject: str) -> Any:
    """The answer, once there is anybody."""
    async with asyncio.timeout(60):
        while True:
            try:
                return json.loads((await client.request(subject, b"", timeout=20)).data)
            except NoRespondersError:
                await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_the_scheduler_is_listed_and_says_how_it_is(tmp_path: Path) -> None:
    ports = tmp_path / "ports.json"
    async with (
        on_nats(tmp_path) as nats,
        open_apiserver(tmp_path / "api", keep=False) as server,
        open_kube(KubeSettings(kubeconfig=str(server.kubeconfig))) as kube,
        by_hand(nats.server) as client,
    ):
        await prepare(kube)
        more = {"TESSERA_BUS_URL": nats.server.url, "TESSERA_INSTANCE": "sched.0"}
        async with a_process(environment(server, ports) | more, tmp_path / "log"):
            await place(kube, await ready(ports), "a")
            ping = await requested(client, "$SRV.PING.tessera-scheduler")
            assert (ping["name"], ping["id"]) == ("tessera-scheduler", "sched_0")
            [endpoint] = (await requested(client, "$SRV.INFO.tessera-scheduler"))["endpoints"]
            assert endpoint["subject"] == "tessera.ask.default.scheduler.info"
            info = await requested(client, endpoint["subject"])
            dialects = info.pop("dialects")
            assert info == {
                "instance": "sched.0", "leads": True, "problem": "", "nodes": 1, "grants": 1,
            }  # fmt: skip
            assert {"hami", "volcano"} <= set(dialects)
