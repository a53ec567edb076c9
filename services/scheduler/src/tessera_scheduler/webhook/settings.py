"""Settings of the webhook."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, field

from tessera_runtime.http.server import HttpSettings
from tessera_scheduler.webhook.certificates import CertificateSettings
from tessera_scheduler.webhook.registration import RegistrationSettings


class WebhookSettings(Struct, frozen=True, kw_only=True):
    """The admission webhook, and the TLS server that answers `explain` too."""

    http: HttpSettings = HttpSettings(host="0.0.0.0", port=8443, body_bytes=8 * 2**20)  # noqa: S104  (the API server comes from elsewhere)
    """Where it listens. A review holds an object twice, of at most 3 MiB (the API server's own
    limit)."""
    certificate: CertificateSettings = field(default_factory=CertificateSettings)
    """What it proves itself with."""
    client_ca_file: Path | None = None
    """Certificates of those who sign the API servers' client certificates, PEM; with it, clients
    that show none may send small bodies only
    (`tessera_runtime.http.fast_path.STRANGER_BODY_MOST`)."""
    registration: RegistrationSettings = field(default_factory=RegistrationSettings)
    """How the API server learns of it."""
    schedulers: tuple[str, ...] = ()
    """Names of scheduler profiles that Tessera's kube-scheduler serves, besides its own; none = all
    names that the dialects' manifests use. Pods that name another scheduler are left alone."""
    take_default: bool = True
    """Whether pods of default-scheduler that ask for shares become Tessera's. Without it they are
    left alone, as with HAMi's forceOverwriteDefaultScheduler=false."""
    writers: tuple[str, ...] = ()
    """Users and groups, besides the scheduler and the service accounts of its
    namespace, that may write
    result keys on pods that exist: vendors' own node plugins, and other systems during a
    migration."""
    namespace_s: Annotated[float, Meta(gt=0)] = 10.0
    """Seconds for which the labels of a namespace are remembered."""
    ask_s: Annotated[float, Meta(gt=0)] = 1.0
    """Seconds that an answer waits for the labels of a namespace; then the last known ones count,
    or none."""
