"""The webhook, and an API server that calls it over TLS: the embedded one, or the real one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import msgspec

from tessera_core.quota.allowance import NO_LIMITS
from tessera_core.registry.registry import DialectRegistry
from tessera_runtime.clock import Clock, SystemClock
from tessera_runtime.http.server import HttpServer, HttpSettings
from tessera_runtime.kube.api import NONE, Body, Kube, Verb
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tessera_runtime.metrics import MetricsRegistry as Metrics
from tessera_scheduler.webhook import WebhookSettings, open_webhook
from tessera_scheduler.webhook.registration import RegistrationSettings
from tessera_schema.annotation_keys import SCHEDULER
from tests.contract.client import Client, open_client
from tests.contract.embedded import embedded_control_plane
from tests.contract.real import real_control_plane
from tests.contract.session_fixtures import or_skip
from tests.webhook.setting import REGISTRY

KINDS = ("embedded", "real")
HOME = "tessera-system"
SETTINGS = WebhookSettings(
    http=HttpSettings(), registration=RegistrationSettings(host="127.0.0.1", refresh_s=0.2)
)


class Cluster(msgspec.Struct, frozen=True):
    """A control plane with the namespaces `team` and `tessera-system`, and its administrator."""

    admin: Client
    kube: Kube
    tokens: Mapping[str, str]
    """User -> token: `reader` may read pods, `nobody` may not."""


class Named:
    """A client with the administrator's rights that the API server knows by another name, so that
    the administrator can be somebody else."""

    def __init__(self, kube: Kube, name: str = "tessera") -> None:
        self._kube, self._name = kube, name

    async def call(
        self, verb: Verb, path: str, *, query: Mapping[str, str] = NONE, body: bytes = b"",
        kind: Body = Body.JSON,
    ) -> bytes:  # fmt: skip
        """See `Kube.call`."""
        if path.endswith("/selfsubjectreviews"):
            return msgspec.json.encode({"status": {"userInfo": {"username": self._name}}})
        return await self._kube.call(verb, path, query=query, body=body, kind=kind)

    def stream(
        self, path: str, *, query: Mapping[str, str] = NONE
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """See `Kube.stream`."""
        return self._kube.stream(path, query=query)


@asynccontextmanager
async def open_cluster(kind: str, folder: Path) -> AsyncGenerator[Cluster]:
    """A control plane of its own; skipped where the real one cannot be had."""
    plane = embedded_control_plane(folder) if kind == "embedded" else real_control_plane(folder)
    with or_skip():
        async with plane as server:
            token = folder / "admin-token"
            token.write_text(server.token)
            settings = KubeSettings(url=server.url, token_file=token, ca_file=server.ca_path)
            async with (
                open_client(server.url, server.ca_path, server.token) as admin,
                open_kube(settings) as kube,
            ):
                for name in (HOME, "team"):
                    body = {"metadata": {"name": name}}
                    (await admin.post("/api/v1/namespaces", body)).done  # noqa: B018  (checks)
                yield Cluster(admin, kube, server.tokens)


@asynccontextmanager
async def the_webhook(
    cluster: Cluster,
    *,
    kube: Kube | None = None,
    settings: WebhookSettings = SETTINGS,
    clock: Clock | None = None,
    registry: DialectRegistry = REGISTRY,
) -> AsyncGenerator[HttpServer]:
    """The webhook, registered with the cluster."""
    async with open_webhook(
        settings, kube=kube or Named(cluster.kube), namespace=HOME, registry=registry,
        clock=clock if clock is not None else SystemClock(),
        allowance=lambda _: NO_LIMITS, metrics=Metrics("scheduler"),
    ) as served:  # fmt: skip
        await _called(cluster)
        yield served


async def _called(cluster: Cluster) -> None:
    """API servers take a moment to learn of a registration."""
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    probe = {"metadata": {"name": "probe"}, "spec": {"containers": [container]}}
    async with asyncio.timeout(60):
        while True:
            answer = await cluster.admin.post("/api/v1/namespaces/team/pods", probe, dryRun="All")
            if answer.body.get("spec", {}).get("schedulerName") == SCHEDULER:
                return
            await asyncio.sleep(0.05)
