"""`nats service ls` and a request, with plain nats-py against a real nats-server."""

import asyncio
import json
from pathlib import Path
from typing import Any

from nats.aio.client import Client
from nats.errors import NoRespondersError

from tessera_core.trust.grants import Signer, new_key
from tessera_embedded.apiserver import open_apiserver
from tessera_quota.main import SERVICE
from tessera_quota.settings import QuotaSettings, UsageCountSettings
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.http.server import HttpSettings
from tessera_runtime.kube.api import Verb
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tessera_runtime.service import serve
from tests.bus.buses import by_hand, on_nats
from tests.quota.cluster import CRDS, DEFINITION, HOME, keys_of

QUOTAS = "/apis/tessera.dev/v1alpha1/namespaces/default/acceleratorquotas"


async def answer_of(client: Client, subject: str) -> Any:
    """The answer, once there is anybody."""
    async with asyncio.timeout(60):
        while True:
            try:
                return json.loads((await client.request(subject, b"", timeout=20)).data)
            except NoRespondersError:
                await asyncio.sleep(0.05)


async def test_the_monitor_is_listed_and_says_how_it_is(tmp_path: Path) -> None:
    async with (
        on_nats(tmp_path) as nats,
        open_apiserver(tmp_path / "api", keep=False) as server,
        open_kube(KubeSettings(kubeconfig=str(server.kubeconfig))) as kube,
        by_hand(nats.server) as client,
    ):
        await kube.call(Verb.POST, CRDS, body=json.dumps(DEFINITION).encode())
        home = {"metadata": {"name": HOME}}
        await kube.call(Verb.POST, "/api/v1/namespaces", body=json.dumps(home).encode())
        keys = json.dumps(keys_of(Signer(new_key()))).encode()
        await kube.call(Verb.POST, f"/api/v1/namespaces/{HOME}/configmaps", body=keys)
        quota = {
            "apiVersion": "tessera.dev/v1alpha1", "kind": "AcceleratorQuota",
            "metadata": {"name": "q"}, "spec": {"hard": {"cards": 2}},
        }  # fmt: skip
        await kube.call(Verb.POST, QUOTAS, body=json.dumps(quota).encode())
        settings = QuotaSettings(
            kube=KubeSettings(kubeconfig=str(server.kubeconfig)),
            bus=BusSettings(url=nats.server.url, arrange=False),
            count=UsageCountSettings(every_s=0.1, look_s=0.1),
            http=HttpSettings(),
        )
        async with asyncio.TaskGroup() as group:
            monitor = group.create_task(serve(SERVICE, settings), name="quota")
            ping = await answer_of(client, "$SRV.PING.tessera-quota")
            assert (ping["name"], ping["id"]) == ("tessera-quota", "quota")
            [endpoint] = (await answer_of(client, "$SRV.INFO.tessera-quota"))["endpoints"]
            while (info := await answer_of(client, endpoint["subject"]))["problem"]:
                await asyncio.sleep(0.05)
            assert (info["quotas"], info["exceeded"]) == (1, [])
            monitor.cancel()
