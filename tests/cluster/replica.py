"""One scheduler service as a process, on ports that it keeps over restarts."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import aiohttp

from tessera_core.registry.kube_scheduler_config import configuration, profiles
from tessera_core.registry.registry import DialectRegistry, load
from tests.cluster.plane import HOME, Plane, a_program
from tests.contract.client import Json
from tests.contract.real import Program

REGISTRY: Final[DialectRegistry] = load()
CALLS_S: Final = 2
LEASE_S: Final = 4
PATIENCE: Final = {
    "TESSERA_KUBE_CALL_S": "5",
    "TESSERA_LEASE_DURATION_S": "15",
    "TESSERA_LEASE_RENEW_S": "3",
    "TESSERA_LEASE_RETRY_S": "1",
}
"""The times of an installation."""
_HASTE: Final = {
    "TESSERA_KUBE_CALL_S": str(CALLS_S),
    "TESSERA_LEASE_DURATION_S": str(LEASE_S),
    "TESSERA_LEASE_RENEW_S": "1",
    "TESSERA_LEASE_RETRY_S": "0.3",
}
PORTS: Final = ("extender", "http", "webhook", "visibility")
"""What it listens for."""
_REVIEWS: Final = "tessera_scheduler_admissions_total"


class Replica:
    """One scheduler service; the kube-scheduler in the same pod calls it and no other."""

    def __init__(
        self, name: str, plane: Plane, folder: Path, bus: str, ports: Sequence[int], *,
        alone: bool = True, gated: bool = False, more: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """Not started yet. `ports` are those of `PORTS`, which stay free for it. Replicas that are
        not alone have no Service before them here, so each of them soon overwrites where the
        webhook is. The kube-scheduler of a `gated` one works only where it lets it, as in the
        component `ha`. `more` are further settings; they go before its own."""
        self.name = name
        self.kube_scheduler: Program | None = None
        """The one that calls it, while it runs."""
        self._gated = gated
        self._more = more or {}
        self._register_s = 60 if alone else 2
        self.ports = dict(zip(PORTS, ports, strict=True))
        self._service = a_program(
            [sys.executable, "-m", "tessera_scheduler"],
            folder / f"{name}.log",
            self._environment(plane, bus),
        )

    def _environment(self, plane: Plane, bus: str) -> dict[str, str]:
        local = "127.0.0.1"
        return {
            **plane.account,
            "TESSERA_INSTANCE": self.name,
            "TESSERA_BUS_URL": bus,
            **_HASTE,
            "TESSERA_EXTENDER_PORT": str(self.ports["extender"]),
            "TESSERA_HTTP_PORT": str(self.ports["http"]),
            "TESSERA_WEBHOOK_HTTP_HOST": local,
            "TESSERA_WEBHOOK_HTTP_PORT": str(self.ports["webhook"]),
            "TESSERA_VISIBILITY_HTTP_HOST": local,
            "TESSERA_VISIBILITY_HTTP_PORT": str(self.ports["visibility"]),
            "TESSERA_VISIBILITY_SERVICE_PORT": str(self.ports["visibility"]),
            "TESSERA_VISIBILITY_REGISTER": "false",  # There is no Service before it.
            "TESSERA_WEBHOOK_REGISTRATION_HOST": local,
            "TESSERA_WEBHOOK_REGISTRATION_REFRESH_S": str(self._register_s),
            "TESSERA_GATE_ENABLED": str(self._gated).lower(),
            **self._more,
        }

    @property
    def configuration(self) -> Json:
        """The configuration of its kube-scheduler."""
        url = f"http://127.0.0.1:{self.ports['extender']}"
        made = configuration(REGISTRY, url, profiles(REGISTRY), timeout_s=10)
        elect: Json = {"leaderElect": False}
        if self._gated:
            elect = {
                "leaderElect": True, "resourceName": self.name, "resourceNamespace": HOME,
                "resourceLock": "leases", "retryPeriod": "1s",
                # One that was stopped would end before the test does, and nothing starts it again.
                "leaseDuration": "120s", "renewDeadline": "100s",
            }  # fmt: skip
        return {**made, "leaderElection": elect, "podMaxBackoffSeconds": 2}

    def start(self) -> None:
        """Start the service."""
        self._service.start()

    def kill(self) -> None:
        """End it as a machine that fails would."""
        self._service.stop(signal.SIGKILL)

    def pause(self) -> None:
        """Let it do nothing; connections stay."""
        self._service.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Go on where `pause` came."""
        self._service.send(signal.SIGCONT)

    def stop(self) -> None:
        """Ask it to end."""
        self._service.stop()

    def check(self) -> None:
        """Say its last words if it is not running."""
        self._service.check()

    @property
    def pid(self) -> int:
        """The service's process."""
        return self._service.pid

    def said(self) -> str:
        """Its log."""
        return self._service.log.read_text(errors="replace")

    async def ready(self) -> bool:
        """Whether it answers kube-scheduler now."""
        return await self._well("/readyz")

    async def warm(self) -> bool:
        """Whether it admits pods, and could lead at any moment."""
        return await self._well("/warmz")

    async def _well(self, path: str) -> bool:
        try:
            return (await self.get(path))[0] == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def metric(self, name: str) -> float:
        """A metric, all its labels together."""
        _, text = await self.get("/metrics")
        rows = [line for line in text.splitlines() if line.startswith((f"{name} ", f"{name}{{"))]
        return sum(float(row.rpartition(" ")[2]) for row in rows)

    async def reviews(self) -> dict[str, str]:
        """How often its webhook was asked, by phase and outcome."""
        _, text = await self.get("/metrics")
        rows = (line for line in text.splitlines() if line.startswith(_REVIEWS))
        return dict(row.removeprefix(_REVIEWS).split() for row in rows)

    async def get(self, path: str) -> tuple[int, str]:
        """What its status server says."""
        url = f"http://127.0.0.1:{self.ports['http']}{path}"
        timeout = aiohttp.ClientTimeout(total=CALLS_S)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as answer:
            return answer.status, await answer.text()
