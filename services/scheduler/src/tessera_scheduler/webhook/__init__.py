"""The admission webhook: pods that ask for shares become complete manifests, or are refused with a
sentence that says what would do. Only pods that name one of Tessera's resources or keys come here.

    async with open_webhook(settings.webhook, kube=kube, ...) as served:
        ...  # it answers at served.url, and the API server calls it
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, nullcontext

from tessera_core.gangs.gates import GatedPods
from tessera_core.quota.allowance import Allowance
from tessera_core.registry.registry import DialectRegistry
from tessera_runtime.clock import Clock
from tessera_runtime.http import server
from tessera_runtime.http.tls import TlsSettings, open_tls
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.authorization import own_name
from tessera_runtime.kube.create_or_update import retry_until_answered
from tessera_runtime.metrics import MetricsRegistry as Metrics
from tessera_scheduler.webhook.certificates import open_certificates
from tessera_scheduler.webhook.handler import Webhook
from tessera_scheduler.webhook.namespaces import NamespacePolicies
from tessera_scheduler.webhook.registration import RegistrationInput, open_registration
from tessera_scheduler.webhook.rules import always, rules_of
from tessera_scheduler.webhook.settings import WebhookSettings

__all__ = ["WebhookSettings", "open_webhook"]


@asynccontextmanager
async def open_webhook(  # noqa: PLR0913  (keyword-only: each is another part of the service)
    settings: WebhookSettings,
    *,
    kube: Kube,
    namespace: str,
    registry: DialectRegistry,
    allowance: Callable[[str], Allowance],
    clock: Clock,
    metrics: Metrics,
    ports: server.PortReporter = server.NO_PORTS,
    whole_gangs: bool = False,
    gated: GatedPods = GatedPods.NONE,
    others_wait: Callable[[], bool] = always,
) -> AsyncGenerator[server.HttpServer]:
    """Serve `/mutate` and `/validate` over TLS, and have the API server call them, until left.

    `namespace` is the scheduler's own: its Secrets are there, and its service accounts may write
    result keys. `allowance` gives what a namespace may use, `whole_gangs` says whether gangs start
    whole, `gated` which pods get the scheduling gate then, and `others_wait` whether any wait now.
    Raises BadSettings, ApiRefused and what `open_certificates` raises.
    """
    writers = await _writers(kube, namespace, settings)
    rules = rules_of(
        registry,
        take_default=settings.take_default,
        writers=writers,
        schedulers=settings.schedulers,
        whole_gangs=whole_gangs,
        gated=gated,
        others_wait=others_wait,
    )
    namespaces = NamespacePolicies(kube, rules.namespace_keys, settings.namespace_s, settings.ask_s)
    webhook = Webhook(rules, namespaces, allowance, metrics)
    app = server.application(settings.http)
    names = settings.registration.names(namespace)
    async with open_certificates(
        kube, namespace, names, settings.certificate, clock
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
                app, settings.http, name="webhook", tls=tls, ports=ports,
                answers=webhook.answers(), patient=True,
            ) as served,
        ):  # fmt: skip
            wanted = RegistrationInput(
                namespace=namespace, settings=settings.registration, writers=writers,
                port=served.port, scope=rules.scope, whole_gangs=whole_gangs,
            )  # fmt: skip
            async with (
                open_registration(
                    kube, registry, wanted, lambda: certificates.bundle
                )
                if settings.registration.enabled
                else nullcontext()
            ):  # fmt: skip
                yield served


async def _writers(kube: Kube, namespace: str, settings: WebhookSettings) -> frozenset[str]:
    """Who may write result keys: this process, whatever its name is, among them."""
    own = await retry_until_answered(lambda: own_name(kube), settings.registration.retry_s)
    named = (f"system:serviceaccounts:{namespace}", own, *settings.writers)
    return frozenset(name for name in named if name)
