"""The monitor as a process of its own, with a real API server's sockets on the other side."""

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

from tessera_core.trust.grants import Signer, new_key
from tessera_embedded.apiserver import ApiServer, open_apiserver
from tessera_embedded.parent import ends_with_parent
from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tests.quota.cluster import CRDS, DEFINITION, HOME, keys_of

QUOTAS = "/apis/tessera.dev/v1alpha1/namespaces/default/acceleratorquotas"


def environment(server: ApiServer, ports: Path) -> dict[str, str]:
    return {
        "KUBECONFIG": str(server.kubeconfig),
        "TESSERA_PROCESS_PORTS_FILE": str(ports),
        "TESSERA_BUS_URL": "nats://127.0.0.1:1",
        "TESSERA_HTTP_PORT": "0",
        "TESSERA_COUNT_EVERY_S": "0.2",
        "TESSERA_COUNT_LOOK_S": "0.2",
        "TESSERA_STATUS_WRITE_S": "0.2",
    }


@asynccontextmanager
async def a_process(
    environ: Mapping[str, str], log: Path
) -> AsyncGenerator[asyncio.subprocess.Process]:
    with log.open("ab") as lines:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tessera_quota", env=environ, stderr=lines,
            preexec_fn=ends_with_parent(),
        )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def status_of(kube: Kube) -> dict[str, Any]:
    """The quota's status, once it is written."""
    async with asyncio.timeout(60):
        while True:
            found = json.loads(await kube.call(Verb.GET, f"{QUOTAS}/q"))
            if found.get("status"):
                status: dict[str, Any] = found["status"]
                return status
            await asyncio.sleep(0.05)


async def metrics(ports: Path) -> str:
    """What it shows, once it is ready."""
    async with ClientSession() as session, asyncio.timeout(60):
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


@pytest.mark.slow
async def test_it_writes_statuses_is_ready_and_ends_cleanly(tmp_path: Path) -> None:
    ports, log = tmp_path / "ports.json", tmp_path / "log"
    async with (
        open_apiserver(tmp_path / "api", keep=False) as server,
        open_kube(KubeSettings(kubeconfig=str(server.kubeconfig))) as kube,
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
        async with a_process(environment(server, ports), log) as process:
            assert (await status_of(kube))["phase"] == "Within"
            assert 'tessera_quota_used_cards{namespace="default",quota="q"} 0.0' in (
                await metrics(ports)
            )
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(60):
                assert await process.wait() == 0


@pytest.mark.slow
async def test_settings_that_make_no_sense_stop_it_with_a_sentence(tmp_path: Path) -> None:
    environ = {"TESSERA_THROTTLE_AFTER": "1", "TESSERA_THROTTLE_CORES_PERCENT": "500"}
    async with a_process(environ, tmp_path / "log") as process, asyncio.timeout(60):
        assert await process.wait() == 2
    reported = (tmp_path / "log").read_text()
    assert "TESSERA_THROTTLE_AFTER: nothing reads it" in reported
    assert "throttle.cores_percent" in reported.lower() or "THROTTLE_CORES_PERCENT" in reported
