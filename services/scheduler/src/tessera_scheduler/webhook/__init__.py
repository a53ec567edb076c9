"""The admission webhook: pods that ask for shares become complete manifests, or are refused with
a sentence that says what would do. Only pods that name one of our resources or keys come here.

    async with open_webhook(world, settings.webhook) as served:
        ...  # it answers at served.url, and the API server calls it
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, nullcontext

from msgspec import Struct

from tessera_core.quota.allowance import Allowance
from tessera_core.registry.registry import DialectRegistry
from tessera_runtime.clock import Clock
from tessera_runtime.http import server
from tessera_runtime.http.tls import TlsSettings, open_tls
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.create_or_update import retry_until_answered
from tessera_runtime.metrics import MetricsRegistry as Metrics
from tessera_scheduler.http.authorization import own_name
from tessera_scheduler.webhook.certificates import open_certificates
from tessera_scheduler.webhook.handler import Webhook
from tessera_scheduler.webhook.namespaces import NamespacePolicies
from tessera_scheduler.webhook.registration import RegistrationInput, open_registration
from tessera_scheduler.webhook.rules import rules_of
from tessera_scheduler.webhook.settings import WebhookSettings

__all__ = ["WebhookEnvironment", "WebhookSettings", "open_webhook"]


class WebhookEnvironment(Struct, frozen=True, kw_only=True):
    """What the webhook shares with the rest of the scheduler."""

    kube: Kube
    namespace: str
    """Ours: where our Secrets are, and whose service accounts may write result keys."""
    registry: DialectRegistry
    allowance: Callable[[str], Allowance]
    """Namespace -> what it may use: the ledger's."""
    clock: Clock
    metrics: Metrics
    ports: server.PortReporter = server.NO_PORTS


@asynccontextmanager
async def open_webhook(
    world: WebhookEnvironment, settings: WebhookSettings
) -> AsyncGenerator[server.HttpServer]:
    """Serve `/mutate` and `/validate` over TLS, and have the API server call them, until
    left. Raises BadSettings, ApiRefused and what `open_certificates` raises."""
    writers = await _writers(world, settings)
    rules = rules_of(
        world.registry,
        take_default=settings.take_default,
        writers=writers,
        schedulers=settings.schedulers,
    )
    namespaces = NamespacePolicies(
        world.kube, rules.namespace_keys, settings.namespace_s, settings.ask_s
    )
    webhook = Webhook(rules, namespaces, world.allowance, world.metrics)
    app = server.application(settings.http)
    names = settings.registration.names(world.namespace)
    async with open_certificates(
        world.kube, world.namespace, names, settings.certificate, world.clock
    ) as certificates:
        files = TlsSettings(
            cert_file=certificates.cert_file,
            key_file=certificates.key_file,
            client_ca_file=settings.client_ca_file,
            reload_s=settings.certificate.refresh_s,
        )
        async with (
            open_tls(files) as tls,
            server.serving(
                app, settings.http, name="webhook", tls=tls, ports=world.ports,
                answers=webhook.answers(), patient=True,
            ) as served,
        ):  # fmt: skip
            terms = RegistrationInput(
                namespace=world.namespace, settings=settings.registration, writers=writers,
                port=served.port, scope=rules.scope,
            )  # fmt: skip
            async with (
                open_registration(
                    world.kube, world.registry, terms, lambda: certificates.bundle
                )
                if settings.registration.enabled
                else nullcontext()
            ):  # fmt: skip
                yield served


async def _writers(world: WebhookEnvironment, settings: WebhookSettings) -> frozenset[str]:
    """Who may write result keys: we ourselves, whatever we are called, among them."""
    ours = await retry_until_answered(lambda: own_name(world.kube), settings.registration.retry_s)
    named = (f"system:serviceaccounts:{world.namespace}", ours, *settings.writers)
    return frozenset(name for name in named if name)
