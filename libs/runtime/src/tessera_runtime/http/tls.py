"""A server's certificate, which is replaced while connections are open.

Certificates live for weeks and servers for months. The files are looked at now and then; what can
be loaded is used from the next handshake on, and what cannot (half-written, a key that does not
belong to it) is logged and tried again, while the old one goes on.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from tessera_runtime import logs
from tessera_runtime.errors import BadSettings

log = logs.named("tessera.tls")


class TlsSettings(Struct, frozen=True, kw_only=True):
    """A server's certificate."""

    cert_file: Path
    """The certificate and those of its issuers, PEM."""
    key_file: Path
    """Its private key, PEM."""
    client_ca_file: Path | None = None
    """Certificates of those who sign clients' certificates, PEM. With it, clients are asked for
    one: those that show none are strangers, and a wrong one ends the connection. While it is empty,
    every one is wrong."""
    reload_s: Annotated[float, Meta(gt=0)] = 10.0
    """Seconds between looks at the files; the kubelet itself needs a minute to bring new ones."""


class Tls:
    """The certificate in use; `open_tls` makes it and keeps it fresh."""

    def __init__(self, settings: TlsSettings, first: ssl.SSLContext, stamp: bytes) -> None:
        self.asks_clients = settings.client_ca_file is not None
        """True where a client may show a certificate."""
        self.context = first
        """What a server is given: each handshake asks it for the newest certificate."""
        self.context.sni_callback = self._newest
        self._settings = settings
        self._now = first
        self._stamp = stamp

    async def reload(self) -> None:
        """Use what the files now say, if it changed and can be used."""
        try:
            fresh, stamp = await asyncio.to_thread(_loaded, self._settings, self._stamp)
        except BadSettings as e:
            log.warning("certificate not taken", why=str(e))
            return
        if fresh is not None:
            self._now, self._stamp = fresh, stamp
            log.info("certificate taken", file=str(self._settings.cert_file))

    async def watch(self) -> None:
        """Look again and again."""
        while True:
            await asyncio.sleep(self._settings.reload_s)
            await self.reload()

    def _newest(self, connection: ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
        connection.context = self._now


@asynccontextmanager
async def open_tls(settings: TlsSettings) -> AsyncGenerator[Tls]:
    """A certificate that follows its files. Raises BadSettings where they cannot be used now."""
    first, stamp = await asyncio.to_thread(_loaded, settings, b"")
    if first is None:
        raise BadSettings(f"{settings.cert_file}: it is empty: write a certificate, PEM")
    tls = Tls(settings, first, stamp)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(tls.watch(), name="certificate watcher")
        try:
            yield tls
        finally:
            watching.cancel()


def _loaded(settings: TlsSettings, known: bytes) -> tuple[ssl.SSLContext | None, bytes]:
    """A context with what the files say, and their content; none if that is `known`."""
    authority = settings.client_ca_file
    files = [settings.cert_file, settings.key_file, *([authority] if authority else [])]
    try:
        stamp = b"".join(file.read_bytes() for file in files)
        if stamp == known:
            return None, known
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.num_tickets = 0  # the API server resumes no session: an eighth of a handshake less
        context.load_cert_chain(settings.cert_file, settings.key_file)
        if authority is not None:
            if authority.read_bytes().strip():
                context.load_verify_locations(authority)
            context.verify_mode = ssl.CERT_OPTIONAL
    except OSError as e:  # ssl.SSLError is one
        raise BadSettings(
            f"{' and '.join(map(str, files))}: {e.strerror or e}: write a certificate "
            "and the key that belongs to it, PEM"
        ) from e
    return context, stamp
