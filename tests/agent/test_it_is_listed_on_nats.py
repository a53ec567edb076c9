"""`nats service ls` and a request, with plain nats-py against a real nats-server."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
from nats.aio.client import Client
from nats.errors import NoRespondersError

from tessera_agent.main import SERVICE
from tessera_agent.nri_plugin.settings import NriSettings
from tessera_agent.settings import AgentSettings
from tessera_embedded.apiserver import open_apiserver
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Verb
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tessera_runtime.service import serve
from tests.bus.buses import by_hand, on_nats

NODE = "worker.1"
CAPACITY = {"mthreads.com/sgpu-core": "32", "mthreads.com/sgpu-memory": "192"}


async def answer_to(client: Client, subject: str) -> Any:
    """The answer, once there is anybody."""
    async with asyncio.timeout(60):
        while True:
            try:
                return json.loads((await client.request(subject, b"", timeout=20)).data)
            except NoRespondersError:
                await asyncio.sleep(0.05)


async def test_an_agent_is_listed_and_says_how_it_is(tmp_path: Path) -> None:
    async with (
        on_nats(tmp_path) as nats,
        open_apiserver(tmp_path / "api", keep=False) as server,
        open_kube(KubeSettings(kubeconfig=str(server.kubeconfig))) as kube,
        by_hand(nats.server) as client,
    ):
        node = {"metadata": {"name": NODE}, "status": {"capacity": CAPACITY}}
        await kube.call(Verb.POST, paths.NODES, body=msgspec.json.encode(node))
        settings = AgentSettings(
            node=NODE, vendor="mthreads", folder=str(tmp_path / "agent"),
            kube=KubeSettings(kubeconfig=str(server.kubeconfig)),
            bus=BusSettings(url=nats.server.url, arrange=False),
            nri=NriSettings(socket=tmp_path / "nobody.sock"),
        )  # fmt: skip
        async with asyncio.TaskGroup() as group:
            agent = group.create_task(serve(SERVICE, settings), name="agent")
            ping = await answer_to(client, "$SRV.PING.tessera-agent")
            assert (ping["name"], ping["id"]) == ("tessera-agent", "worker_1-mthreads")
            [endpoint] = (await answer_to(client, "$SRV.INFO.tessera-agent"))["endpoints"]
            assert endpoint["subject"] == "tessera.ask.default.agent.info-worker_1-mthreads"
            while (info := await answer_to(client, endpoint["subject"]))["cards"] != 2:
                await asyncio.sleep(0.05)
            assert (info["node"], info["vendor"], info["healthy"]) == (NODE, "mthreads", 2)
            assert info["held"] == []
            assert "public keys" in info["problem"]
            agent.cancel()
