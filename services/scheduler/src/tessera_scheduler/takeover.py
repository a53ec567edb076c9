"""What a replica does between getting the Lease and answering."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tessera_runtime import logs
from tessera_runtime.errors import TesseraError
from tessera_runtime.kube.lease import Lease
from tessera_scheduler.alerts import Alerts
from tessera_scheduler.cache.pod_events import PodEvents
from tessera_scheduler.cache.watches import Watches
from tessera_scheduler.keys.signing_keys import SigningKeys
from tessera_scheduler.leadership.fence import FencingCheck

_log = logs.named("tessera.scheduler")


class Takeover:
    """Brings everything up to date that the former leader may have changed."""

    def __init__(
        self,
        *,
        lease: Lease,
        fencing: FencingCheck,
        keys: SigningKeys,
        watches: Watches,
        alerts: Alerts,
        pod_events: PodEvents,
        retry_s: float,
        then: Sequence[Callable[[], Awaitable[None]]] = (),
    ) -> None:
        """Keys that could not be read are read again after `retry_s` seconds. `then` is done, in
        this order, before any pod is placed."""
        self._lease = lease
        self._fencing = fencing
        self._keys = keys
        self._watches = watches
        self._alerts = alerts
        self._pod_events = pod_events
        self._retry_s = retry_s
        self._then = then

    async def run(self) -> None:
        """Wait until the API server knows this term, then read the keys and all pods."""
        self._alerts.forget()
        await self._fencing.prove(self._lease.generation)
        await self._refresh_keys()
        await self._watches.refresh_pods()
        for step in self._then:
            await step()
        self._pod_events.freed.publish()

    async def _refresh_keys(self) -> None:
        """A key that the former leader made must be known before the pods are read."""
        while True:
            try:
                await self._keys.refresh()
            except TesseraError as e:
                _log.warning("keys not read", why=str(e))
                await asyncio.sleep(self._retry_s)
            else:
                return
