"""Keeps up to date what the aggregated API depends on: the front proxy's authority, and the
APIService."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from tessera_runtime import atomic_write, logs
from tessera_runtime.errors import Permanent, Transient
from tessera_runtime.http.tls import Tls
from tessera_runtime.kube.api import Kube
from tessera_scheduler.visibility.apiservice import Address, keep_apiservice
from tessera_scheduler.visibility.front_proxy import front_proxy
from tessera_scheduler.visibility.handler import Visibility
from tessera_scheduler.visibility.settings import VisibilitySettings
from tessera_scheduler.webhook.certificates import WebhookCertificates

RETRY_S: Final = 2.0
"""Seconds between two attempts until one succeeds."""
_log = logs.named("tessera.scheduler.visibility")


class ApiServiceReconciler:
    """Brings both in line with the cluster, periodically."""

    def __init__(
        self, kube: Kube, settings: VisibilitySettings, visibility: Visibility, tls: Tls,
        trusted: Path, address: Address, certificates: WebhookCertificates,
    ) -> None:  # fmt: skip
        """`trusted` is the file that `tls` checks clients with."""
        self._kube, self._settings, self._visibility = kube, settings, visibility
        self._tls, self._trusted = tls, trusted
        self._address, self._certificates = address, certificates
        self._asked = False

    async def run(self) -> NoReturn:
        """Until cancelled. What goes wrong is logged, and what was known before goes on serving."""
        while True:
            wait_s = RETRY_S
            try:
                await self.reconcile()
                wait_s = self._settings.refresh_s
            except Transient as e:
                _log.warning("visibility not looked after this time", problem=str(e))
            except (Permanent, msgspec.DecodeError) as e:
                _log.alert("visibility is not served: somebody has to look", problem=str(e))
                wait_s = self._settings.refresh_s
            await asyncio.sleep(wait_s)

    async def reconcile(self) -> None:
        """Read and write what is due, once. Raises as `Kube.call` does, and msgspec.DecodeError."""
        proxy = await front_proxy(self._kube)
        if proxy != self._visibility.proxy:
            await asyncio.to_thread(atomic_write.replace, self._trusted, proxy.ca.encode(), 0o600)
            await self._tls.reload()
            self._visibility.proxy = proxy
        if not proxy.ca:
            if not self._asked:
                _log.warning(
                    "visibility is not served: the cluster's API server passes no requests on "
                    "(it runs without --requestheader-client-ca-file)"
                )
            self._asked = True
        elif self._settings.register:
            await keep_apiservice(self._kube, self._address, self._certificates.bundle)
