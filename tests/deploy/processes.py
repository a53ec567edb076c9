"""The services as processes, with no other permissions than their ServiceAccounts'."""

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

from tessera_embedded.parent import ends_with_parent
from tests.contract.client import Json
from tests.deploy.installed import Installed
from tests.deploy.manifests import KUSTOMIZE, containers, environment, overlay

PATIENCE_S = 60.0
HOOKS = "/apis/admissionregistration.k8s.io/v1"
VENDOR = "mthreads"
"""Its cards are read from the node alone, so that it needs no hardware here."""


class Service:
    """A running process, and what it said."""

    def __init__(self, process: Process, folder: Path) -> None:
        self.process = process
        self._folder = folder

    def log(self) -> list[Json]:
        lines = (self._folder / "log").read_text().rpartition("\n")[0].splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    async def url(self, server: str = "http") -> str:
        """Of one of its servers, once it listens."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    port = json.loads((self._folder / "ports").read_text())[server]
                except (FileNotFoundError, KeyError):
                    assert self.process.returncode is None, self.log()[-5:]
                    await asyncio.sleep(0.1)
                else:
                    return f"http://127.0.0.1:{port}"

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
        "TESSERA_HTTP_PORT": "0", "TESSERA_BUS_URL": "nats://127.0.0.1:1",
        "TESSERA_DIALECTS_FILE": str(KUSTOMIZE / "base/dialects/dialects.yaml"), **more,
    }  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", f"tessera_{name}", stdin=DEVNULL, stdout=log, stderr=log, env=env,
            preexec_fn=ends_with_parent(),
        )  # fmt: skip
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
async def a_scheduler(
    installed: Installed, folder: Path, more: Mapping[str, str]
) -> AsyncGenerator[Service]:
    settings = {
        "TESSERA_EXTENDER_PORT": "0",
        "TESSERA_WEBHOOK_HTTP_HOST": "127.0.0.1", "TESSERA_WEBHOOK_HTTP_PORT": "0",
        "TESSERA_VISIBILITY_HTTP_HOST": "127.0.0.1", "TESSERA_VISIBILITY_HTTP_PORT": "0",
        "TESSERA_WEBHOOK_REGISTRATION_HOST": "127.0.0.1",
        # A Lease that nobody held is waited for, too.
        "TESSERA_LEASE_DURATION_S": "10", "TESSERA_LEASE_RENEW_S": "0.5",
        "TESSERA_LEASE_RETRY_S": "0.2", "TESSERA_KUBE_CALL_S": "4",
        "TESSERA_WEBHOOK_REGISTRATION_TIMEOUT_S": "30",
        "TESSERA_BOOKS_CUSTOM_S": "1", "TESSERA_BOOKS_AUDIT_S": "1",
        "TESSERA_PACKING_LEARN_S": "1", "TESSERA_PACKING_SAVE_S": "1", **more,
    }  # fmt: skip
    async with installed.clients() as clients:
        try:
            async with running(installed, "scheduler", folder, settings) as service:
                yield service
        finally:
            for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
                await clients["admin"].delete(f"{HOOKS}/{kind}/tessera")


def nothing_was_forbidden(service: Service) -> None:
    said = [line for line in service.log() if "orbidden" in json.dumps(line)]
    assert said == []
