"""The API `visibility.tessera.dev`: why pods wait, for everybody who may view their namespace.

It is an aggregated API, as metrics-server's: clients call the cluster's API server, which passes
the request on with the name of the user. Nothing of it is stored.

    async with open_visibility(settings.visibility, settings.webhook, kube=kube, ...):
        ...
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tessera_runtime import atomic_write
from tessera_runtime.background import running_in_background
from tessera_runtime.http import server
from tessera_runtime.http.tls import TlsSettings, open_tls
from tessera_runtime.kube.api import Kube
from tessera_runtime.metrics import MetricsRegistry as Metrics
from tessera_scheduler.explain.explanation import Explainer
from tessera_scheduler.visibility.apiservice import Address
from tessera_scheduler.visibility.handler import QueueSource, Visibility
from tessera_scheduler.visibility.registration import ApiServiceReconciler
from tessera_scheduler.visibility.settings import VisibilitySettings
from tessera_scheduler.webhook.certificates import open_certificates
from tessera_scheduler.webhook.settings import WebhookSettings

__all__ = ["VisibilitySettings", "open_visibility"]


@asynccontextmanager
async def open_visibility(
    settings: VisibilitySettings,
    webhook: WebhookSettings,
    *,
    kube: Kube,
    namespace: str,
    explainer: Explainer,
    metrics: Metrics,
    ports: server.PortReporter = server.NO_PORTS,
    queues: QueueSource | None = None,
) -> AsyncGenerator[server.HttpServer | None]:
    """Serve it over TLS, with the webhook's certificate, and have the API server pass requests on,
    until left; None where it is not enabled. The Service is in `namespace`; without `queues` there
    are none.

    Raises BadSettings and what `open_certificates` raises. That a cluster passes nothing on is
    logged, and checked again.
    """
    if not settings.enabled:
        yield None
        return
    folder = await asyncio.to_thread(
        tempfile.TemporaryDirectory, prefix="tessera-visibility-", ignore_cleanup_errors=True
    )
    try:
        trusted = Path(folder.name) / "front-proxy.pem"
        await asyncio.to_thread(atomic_write.replace, trusted, b"", 0o600)
        visibility = Visibility(kube, explainer, settings, metrics, queues)
        certificates = open_certificates(
            kube, namespace, webhook.registration.names(namespace), webhook.certificate,
            explainer.clock,
        )  # fmt: skip
        async with certificates as certificate:
            tls_settings = TlsSettings(
                cert_file=certificate.cert_file,
                key_file=certificate.key_file,
                reload_s=webhook.certificate.refresh_s,
                client_ca_file=trusted,
            )
            app = server.application(settings.http)
            app.add_routes(visibility.routes())
            async with (
                open_tls(tls_settings) as tls,
                server.serving(
                    app, settings.http, name="visibility", tls=tls, ports=ports
                ) as served,
            ):  # fmt: skip
                address = Address(
                    namespace=namespace, name=webhook.registration.service,
                    port=settings.service_port, owner=webhook.registration.owner,
                )  # fmt: skip
                reconciler = ApiServiceReconciler(
                    kube, settings, visibility, tls, trusted, address, certificate
                )
                async with running_in_background(reconciler.run(), "visibility"):
                    yield served
    finally:
        await asyncio.to_thread(folder.cleanup)
