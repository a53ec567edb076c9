"""The webhook's certificate: made here and kept in a Secret that all replicas share, or given in
files that another program makes (cert-manager).

Replicas agree: the first one writes the Secret, the others take what is there. The
certificate is handed on as a file, which `tessera_runtime.http.tls` follows.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from tessera_runtime import atomic_write, logs
from tessera_runtime.background import running_in_background
from tessera_runtime.clock import Clock
from tessera_runtime.errors import BadSettings
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.create_or_update import (
    Json,
    UnexpectedContent,
    create_or_update,
    from_secret,
    repeat_until_cancelled,
    retry_until_answered,
    secret,
    to_secret,
)
from tessera_scheduler.webhook.certificate_authority import CertificateLifetimes, Issued, due
from tessera_schema.json_codec import decoder

SECRET: Final = "tessera-webhook-certificate"  # noqa: S105  (the Secret's name)
ENTRY: Final = "issued.json"
_DAY: Final = 86400.0

_log = logs.named("tessera.scheduler.certificates")
_decode = decoder(Issued)


class CertificateSettings(Struct, frozen=True, kw_only=True):
    """Where the webhook's certificate comes from, and how long it is valid."""

    cert_file: Path | None = None
    """A certificate made by others, PEM, with its issuers; none = one is made and kept in a
    Secret."""
    key_file: Path | None = None
    """The private key that belongs to it."""
    ca_file: Path | None = None
    """What it is checked with, PEM; none = the program that makes it writes caBundle too, as
    cert-manager's injector does."""
    authority_s: float = 1825 * _DAY
    """Seconds that an authority made here is valid: five years; the next is published when a third
    is left."""
    serving_s: float = 90 * _DAY
    """Seconds that a certificate made here is valid."""
    overlap_s: float = 3600.0
    """Seconds that an authority is published before it issues: many times what replicas and API
    servers take to learn of it."""
    refresh_s: float = 60.0
    """Seconds between two reads of the Secret or the files."""
    retry_s: float = 1.0
    """Seconds between two attempts of the first read: nothing is served without it."""

    def check(self) -> None:
        """Raises BadSettings."""
        if (self.cert_file is None) != (self.key_file is None):
            raise BadSettings(
                "certificates.cert_file and certificates.key_file: only one of them is set: set "
                "both, or neither to have a certificate made"
            )
        if not 2 * self.refresh_s <= self.overlap_s <= self.serving_s / 3:
            raise BadSettings(
                f"certificates.overlap_s: {self.overlap_s:g}: write at least twice "
                f"certificates.refresh_s ({self.refresh_s:g}) and at most a third of "
                f"certificates.serving_s ({self.serving_s:g})"
            )
        if self.serving_s > self.authority_s / 3:
            raise BadSettings(
                f"certificates.serving_s: {self.serving_s:g}: write at most a third of "
                f"certificates.authority_s ({self.authority_s:g})"
            )


class WebhookCertificates(Struct, kw_only=True):
    """The certificate that is served now."""

    cert_file: Path
    key_file: Path
    bundle: bytes = b""
    """What the certificate is checked with, PEM; empty where another program gives it to the
    API server."""


@asynccontextmanager
async def open_certificates(
    kube: Kube, namespace: str, names: Sequence[str], settings: CertificateSettings, clock: Clock
) -> AsyncGenerator[WebhookCertificates]:
    """A certificate for these host names and addresses, renewed until left. Raises
    UnexpectedContent, ApiRefused, and BadSettings for files that cannot be read."""
    if settings.cert_file is not None and settings.key_file is not None:
        given = WebhookCertificates(cert_file=settings.cert_file, key_file=settings.key_file)
        async with _given(given, settings) as certificates:
            yield certificates
        return
    folder = await asyncio.to_thread(
        tempfile.TemporaryDirectory, prefix="tessera-webhook-", ignore_cleanup_errors=True
    )
    try:
        file = Path(folder.name) / "served.pem"
        made = WebhookCertificates(cert_file=file, key_file=file)
        stored = _StoredCertificate(kube, namespace, tuple(names), settings, clock)

        async def refresh() -> None:
            await stored.refresh(made)

        await retry_until_answered(refresh, settings.retry_s)
        refreshing = repeat_until_cancelled(refresh, settings.refresh_s)
        async with running_in_background(refreshing, "webhook certificate"):
            yield made
    finally:
        await asyncio.to_thread(folder.cleanup)


class _StoredCertificate:
    """The certificate in the Secret."""

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        names: tuple[str, ...],
        settings: CertificateSettings,
        clock: Clock,
    ) -> None:
        self._kube = kube
        self._secret = secret(namespace, SECRET)
        self._names = names
        self._clock = clock
        self._lives = CertificateLifetimes(
            authority_s=settings.authority_s, serving_s=settings.serving_s,
            overlap_s=settings.overlap_s,
        )  # fmt: skip
        self._now: Issued | None = None

    async def refresh(self, made: WebhookCertificates) -> None:
        """Take what the Secret has, renewed where that is due."""
        issued = self._read(await create_or_update(self._kube, self._secret, self._with_due))
        if issued is None:
            raise UnexpectedContent(f"{self._what}: it is empty although it was just written")
        if issued == self._now:
            return
        await asyncio.to_thread(atomic_write.replace, made.cert_file, issued.served.encode(), 0o600)
        made.bundle = issued.bundle.encode()
        self._now = issued
        _log.info(
            "webhook certificate", valid_s=round(issued.until - self._clock.time()),
            authorities=len(issued.authorities),
        )  # fmt: skip

    def _with_due(self, there: Json | None) -> Json | None:
        had = self._read(there) if there else None
        try:
            issued = due(had, self._names, self._clock.time(), self._lives)
        except ValueError as e:
            raise self._unreadable(str(e)) from e
        if issued is had:
            return None
        data = {ENTRY: to_secret(msgspec.json.encode(issued))}
        return {**(there or self._secret.object(type="Opaque")), "data": data}

    def _read(self, found: Json | None) -> Issued | None:
        raw = from_secret(self._secret, found or {}, ENTRY)
        if raw is None:
            return None
        try:
            return _decode(raw)
        except msgspec.DecodeError as e:
            raise self._unreadable(str(e)) from e

    @property
    def _what(self) -> str:
        return f"Secret {self._secret.namespace}/{self._secret.name}"

    def _unreadable(self, problem: str) -> UnexpectedContent:
        return UnexpectedContent(
            f"{self._what}: data[{ENTRY}]: {problem}: delete the Secret, and another is made"
        )


@asynccontextmanager
async def _given(
    given: WebhookCertificates, settings: CertificateSettings
) -> AsyncGenerator[WebhookCertificates]:
    """Files of others. Only the bundle is read here; the rest is followed where it is served."""

    async def refresh() -> None:
        if settings.ca_file is not None:
            given.bundle = await asyncio.to_thread(_bundle, settings.ca_file)

    await refresh()
    refreshing = repeat_until_cancelled(refresh, settings.refresh_s)
    async with running_in_background(refreshing, "webhook certificate"):
        yield given


def _bundle(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as e:
        raise BadSettings(f"certificates.ca_file: {file}: {e.strerror or e}") from e
