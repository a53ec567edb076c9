"""The API `visibility.tessera.dev`: why pods wait, for everybody who may view their namespace.

It is an aggregated API, as metrics-server's: clients ask the cluster's API server, which says here
who they are. Nothing of it is stored.

    async with open_visibility(world, settings.visibility, settings.webhook):
        ...
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from tessera_runtime import atomic_write
from tessera_runtime.background import running_in_background
from tessera_runtime.http import server
from tessera_runtime.http.tls import TlsSettings, open_tls
from tessera_runtime.kube.api import Kube
from tessera_runtime.metrics import MetricsRegistry as Metrics
from tessera_scheduler.explain.explanation import ExplanationSources
from tessera_scheduler.visibility.apiservice import Address
from tessera_scheduler.visibility.handler import Visibility
from tessera_scheduler.visibility.registration import ApiServiceReconciler
from tessera_scheduler.visibility.settings import VisibilitySettings
from tessera_scheduler.webhook.certificates import open_certificates
from tessera_scheduler.webhook.settings import WebhookSettings

__all__ = ["VisibilityEnvironment", "VisibilitySettings", "open_visibility"]


class VisibilityEnvironment(Struct, frozen=True, kw_only=True):
    """What the API shares with the rest of the scheduler."""

    kube: Kube
    namespace: str
    """Ours, where the Service is."""
    books: ExplanationSources
    metrics: Metrics
    ports: server.PortReporter = server.NO_PORTS


@asynccontextmanager
async def open_visibility(
    world: VisibilityEnvironment, settings: VisibilitySettings, webhook: WebhookSettings
) -> AsyncGenerator[server.HttpServer | None]:
    """Serve it over TLS, with the webhook's certificate, and have the API server pass requests on,
    until left; None where it is not enabled. Raises BadSettings and what `open_certificates`
    raises. That a cluster passes nothing on is said in the log, and looked at again."""
    if not settings.enabled:
        yield None
        return
    folder = await asyncio.to_thread(
        tempfile.TemporaryDirectory, prefix="tessera-visibility-", ignore_cleanup_errors=True
    )
    try:
        trusted = Path(folder.name) / "front-proxy.pem"
        await asyncio.to_thread(atomic_write.replace, trusted, b"", 0o600)
        async with _listening(world, settings, webhook, trusted) as served:
            yield served
    finally:
        await asyncio.to_thread(folder.cleanup)


@asynccontextmanager
async def _listening(
    world: VisibilityEnvironment,
    settings: VisibilitySettings,
    webhook: WebhookSettings,
    trusted: Path,
) -> AsyncGenerator[server.HttpServer]:
    visibility = Visibility(world.kube, world.books, settings, world.metrics)
    app = server.application(settings.http)
    app.add_routes(visibility.routes())
    names = webhook.registration.names(world.namespace)
    address = Address(
        namespace=world.namespace, name=webhook.registration.service, port=settings.service_port
    )
    async with open_certificates(
        world.kube, world.namespace, names, webhook.certificate, world.books.clock
    ) as certificates:
        shown = TlsSettings(
            cert_file=certificates.cert_file,
            key_file=certificates.key_file,
            reload_s=webhook.certificate.refresh_s,
            client_ca_file=trusted,
        )
        async with (
            open_tls(shown) as tls,
            server.serving(
                app, settings.http, name="visibility", tls=tls, ports=world.ports
            ) as served,
        ):  # fmt: skip
            keeper = ApiServiceReconciler(
                world.kube, settings, visibility, tls, trusted, address, certificates
            )
            async with running_in_background(keeper.run(), "visibility"):
                yield served
