"""The services as processes, with no other permissions than their ServiceAccounts', on a real API
server: they come up, do their work, and are refused nothing."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import yaml

from tests.contract.client import Client, Json
from tests.contract.objects import a_pod
from tests.contract.real import Program, free_port, programs
from tests.deploy.installed import NAMESPACE, PODS, Installed
from tests.deploy.manifests import KUSTOMIZE, containers, environment, overlay

PATIENCE_S = 60.0
HOOKS = "/apis/admissionregistration.k8s.io/v1"
QUOTAS = "/apis/tessera.dev/v1alpha1/namespaces/default/acceleratorquotas"
VENDOR = "mthreads"
"""Its cards are read from the node alone, so that it needs no hardware here."""
CAPACITY = {"mthreads.com/sgpu-core": "32", "mthreads.com/sgpu-memory": "192"}


class Service:
    """A running process, and what it said."""

    def __init__(self, process: Process, folder: Path) -> None:
        self.process = process
        self._folder = folder

    def log(self) -> list[Json]:
        lines = (self._folder / "log").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    async def ready(self) -> None:
        """Wait until /readyz says so."""
        async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession() as session:
            while not await self._is_ready(session):
                assert self.process.returncode is None, self.log()[-5:]
                await asyncio.sleep(0.2)

    async def _is_ready(self, session: aiohttp.ClientSession) -> bool:
        try:
            port = json.loads((self._folder / "ports").read_text())["http"]
            async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                return answer.status == 200
        except (FileNotFoundError, KeyError, aiohttp.ClientError):
            return False


@asynccontextmanager
async def running(
    installed: Installed, name: str, folder: Path, more: Mapping[str, str]
) -> AsyncGenerator[Service]:
    """A service of the overlay `dev`, as it is configured there but for addresses and folders."""
    await asyncio.to_thread(folder.mkdir)
    (folder / "token").write_text(installed.tokens[name])
    env = {
        "PATH": os.defpath, "TMPDIR": str(folder), **deployed(name),
        "TESSERA_KUBE_URL": installed.plane.url,
        "TESSERA_KUBE_TOKEN_FILE": str(folder / "token"),
        "TESSERA_KUBE_CA_FILE": str(installed.plane.ca_path),
        "TESSERA_PROCESS_PORTS_FILE": str(folder / "ports"), "TESSERA_HTTP_HOST": "127.0.0.1",
        "TESSERA_HTTP_PORT": "0", "TESSERA_BUS_URL": "nats://127.0.0.1:1", **more,
    }  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", f"tessera_{name}", stdin=DEVNULL, stdout=log, stderr=log, env=env
        )
    service = Service(process, folder)
    try:
        yield service
        process.terminate()
        async with asyncio.timeout(PATIENCE_S):
            assert await process.wait() == 0, service.log()[-5:]
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def deployed(name: str) -> dict[str, str]:
    """Its variables in the overlay, with the vendor whose cards are here."""
    objects = overlay("dev")
    for container in containers(objects):
        env = environment(container, objects)
        if container.spec["name"] == name and env.get("TESSERA_VENDOR", VENDOR) == VENDOR:
            return env
    raise AssertionError(name)


@asynccontextmanager
async def a_scheduler(installed: Installed, folder: Path) -> AsyncGenerator[Service]:
    more = {
        "TESSERA_DIALECTS_FILE": str(KUSTOMIZE / "base/scheduler/dialects.yaml"),
        "TESSERA_EXTENDER_PORT": "0",
        "TESSERA_WEBHOOK_HTTP_HOST": "127.0.0.1", "TESSERA_WEBHOOK_HTTP_PORT": "0",
        "TESSERA_WEBHOOK_REGISTRATION_HOST": "127.0.0.1",
        # A Lease that nobody held is waited for, too.
        "TESSERA_LEASE_DURATION_S": "10", "TESSERA_LEASE_RENEW_S": "0.5",
        "TESSERA_LEASE_RETRY_S": "0.2", "TESSERA_KUBE_CALL_S": "4",
        "TESSERA_WEBHOOK_REGISTRATION_TIMEOUT_S": "30",
        "TESSERA_BOOKS_CUSTOM_S": "1", "TESSERA_BOOKS_AUDIT_S": "1",
    }  # fmt: skip
    async with installed.clients() as clients:
        try:
            async with running(installed, "scheduler", folder, more) as service:
                yield service
        finally:
            for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
                await clients["admin"].delete(f"{HOOKS}/{kind}/tessera")


def nothing_was_forbidden(service: Service) -> None:
    said = [line for line in service.log() if "orbidden" in json.dumps(line)]
    assert said == []


async def cards_of(admin: Client, node: str) -> str:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            metadata = (await admin.get(f"/api/v1/nodes/{node}")).done["metadata"]
            text: str = metadata.get("annotations", {}).get(f"cards.tessera.dev/{VENDOR}", "")
            if text:
                return text
            await asyncio.sleep(0.2)


async def phase_of_a_quota(admin: Client) -> str:
    """What the quota monitor writes on one."""
    quota: Json = {
        "apiVersion": "tessera.dev/v1alpha1", "kind": "AcceleratorQuota",
        "metadata": {"name": "counted"}, "spec": {"hard": {"cards": 1}},
    }  # fmt: skip
    (await admin.post(QUOTAS, quota)).done  # noqa: B018  (checks)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                seen = (await admin.get(f"{QUOTAS}/counted")).done
                if phase := seen.get("status", {}).get("phase", ""):
                    return str(phase)
                await asyncio.sleep(0.2)
    finally:
        await admin.delete(f"{QUOTAS}/counted")


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_they_come_up_and_do_their_work(installed: Installed, tmp_path: Path) -> None:
    async with installed.clients() as clients:
        admin = clients["admin"]
        capacity: Json = {"status": {"capacity": CAPACITY}}
        await admin.patch("/api/v1/nodes/one/status", capacity)
        async with a_scheduler(installed, tmp_path / "scheduler") as scheduler:
            await scheduler.ready()
            pod = a_pod("asks", limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"})
            admitted = (await admin.post(PODS, pod)).done
            assert admitted["spec"]["schedulerName"] == "tessera-scheduler"
            agent_more = {
                "TESSERA_NODE": "one", "TESSERA_FOLDER": str(tmp_path / "files"),
                "TESSERA_NRI_SOCKET": str(tmp_path / "no-runtime"),
                "TESSERA_BUS_PASSWORD_FILE": str(tmp_path / "none"),
            }  # fmt: skip
            async with running(installed, "agent", tmp_path / "agent", agent_more) as agent:
                await agent.ready()
                assert VENDOR in await cards_of(admin, "one")
                nothing_was_forbidden(agent)
            async with running(installed, "quota", tmp_path / "quota", {}) as quota:
                await quota.ready()
                assert await phase_of_a_quota(admin) == "Within"
                nothing_was_forbidden(quota)
            async with running(installed, "rebalancer", tmp_path / "rebalancer", {}) as rebalancer:
                await rebalancer.ready()
                nothing_was_forbidden(rebalancer)
            nothing_was_forbidden(scheduler)
        keys = f"/api/v1/namespaces/{NAMESPACE}"
        made = (await admin.get(f"{keys}/configmaps/tessera-grant-keys")).done
        assert made["data"]
        for name in ("tessera-grant-signing", "tessera-webhook-certificate"):
            (await admin.get(f"{keys}/secrets/{name}")).done  # noqa: B018  (checks)
        await admin.delete(f"{PODS}/asks", gracePeriodSeconds="0")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("folder", ["base/scheduler", "components/scheduler-aliases"])
async def test_kube_scheduler_runs_with_our_configuration_and_account(
    installed: Installed, tmp_path: Path, folder: str
) -> None:
    """It binds a pod that asks for no share by itself, as nobody answers as its extender."""
    config = yaml.safe_load((KUSTOMIZE / folder / "kube-scheduler.yaml").read_text())
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(a_kubeconfig(installed, "scheduler")))
    config["clientConnection"]["kubeconfig"] = str(kubeconfig)
    (tmp_path / "config").write_text(json.dumps(config))
    (container,) = [c for c in containers(overlay("dev")) if c.name.endswith("/kube-scheduler")]
    flags = [f for f in container.spec["command"][1:] if not f.startswith(("--config", "--secure"))]
    log = tmp_path / "log"
    program = Program(
        [
            programs() / "kube-scheduler", f"--config={tmp_path / 'config'}", *flags,
            f"--secure-port={free_port()}", "--bind-address=127.0.0.1",
            f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}",
        ],
        log,
    )  # fmt: skip
    name = f"plain-{folder.rpartition('/')[2]}"
    async with installed.clients() as clients:
        pod = a_pod(name, schedulerName="tessera-scheduler")
        (await clients["admin"].post(PODS, pod)).done  # noqa: B018  (checks)
        await asyncio.to_thread(program.start)
        try:
            async with asyncio.timeout(PATIENCE_S):
                while "nodeName" not in (await clients["admin"].get(f"{PODS}/{name}")).done["spec"]:
                    await asyncio.to_thread(program.check)
                    await asyncio.sleep(0.2)
        finally:
            await asyncio.to_thread(program.stop)
            await clients["admin"].delete(f"{PODS}/{name}", gracePeriodSeconds="0")
    assert [line for line in log.read_text().splitlines() if "orbidden" in line] == []


def a_kubeconfig(installed: Installed, who: str) -> Json:
    cluster = {"server": installed.plane.url, "certificate-authority": str(installed.plane.ca_path)}
    return {
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "it", "user": {"token": installed.tokens[who]}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    }  # fmt: skip
