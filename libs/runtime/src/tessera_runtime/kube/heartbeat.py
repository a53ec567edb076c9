"""A sign of life that does not need the bus: a Lease that an agent renews, as kubelet does for its
node.

    heartbeat = Heartbeat(kube, settings, lease=agent_lease_name(vendor, node), ...)
    await heartbeat.run()

Nobody else writes the Lease, so there is nothing to win or to lose: a renewal is one PUT of what is
known. The Node owns the Lease, so that it is deleted with the Node. Who reads it compares one
renewal with the next and needs no clock of the node (`tessera_core.inventory.agent_liveness`).

The cost: kubelet writes such a Lease every 10 s, a heartbeat every 20 s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Annotated, Final, NoReturn

import msgspec
from msgspec import Meta, Struct

from tessera_runtime import logs
from tessera_runtime.clock import Clock
from tessera_runtime.errors import ApiConflict, ApiNotFound, BadSettings, TesseraError
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.kube.lease_object import (
    LeaseMeta,
    LeaseObject,
    LeaseSpec,
    OwnerReference,
    parsed,
    version_of,
)

Seconds = Annotated[float, Meta(gt=0)]

AGENT_PREFIX: Final = "agent."
"""Leases of agents are called agent.<vendor>.<node>: a vendor has no dot."""
MAX_NAME: Final = 253
"""Characters of an object's name in Kubernetes."""
_JITTER: Final = 0.1
_RETRY_FIRST_S: Final = 1.0

_log = logs.named("tessera.kube.heartbeat")


class HeartbeatSettings(Struct, frozen=True, kw_only=True):
    """The Lease that says that an agent is there."""

    namespace: str = "tessera-agent-leases"
    """Where it is: apart, so that no agent's role reaches the scheduler's Lease."""
    renew_s: Seconds = 20.0
    """Seconds between renewals, less a random tenth: half as many writes as kubelets make."""
    lasts_s: Seconds = 45.0
    """Seconds for which a renewal counts; then no pod is placed on the agent's cards. More than two
    renewals, so that one may fail; less than a minute, so that few pods wait on a dead node."""

    def check(self) -> None:
        """Raises BadSettings."""
        if self.lasts_s <= 2 * self.renew_s:
            raise BadSettings(
                f"heartbeat.lasts_s: {self.lasts_s:g}: write more than twice heartbeat.renew_s "
                f"({2 * self.renew_s:g}), so that one renewal may fail"
            )


def agent_lease_name(vendor: str, node: str) -> str:
    """The name of an agent's Lease; empty where it would be longer than a name may be."""
    name = f"{AGENT_PREFIX}{vendor}.{node}"
    return name if len(name) <= MAX_NAME else ""


def agent_of_lease(name: str) -> tuple[str, str] | None:
    """Vendor and node of an agent's Lease; None for another's."""
    if not name.startswith(AGENT_PREFIX):
        return None
    vendor, _, node = name.removeprefix(AGENT_PREFIX).partition(".")
    return (vendor, node) if vendor and node else None


class Heartbeat:
    """Renews one Lease."""

    def __init__(
        self,
        kube: Kube,
        settings: HeartbeatSettings,
        *,
        lease: str,
        identity: str,
        clock: Clock,
        owner: Callable[[], OwnerReference | None],
        random: Random | None = None,
    ) -> None:
        """`lease` is its name, `identity` for people; `owner` answers the Node once it is known."""
        self.announced = asyncio.Event()
        """Set once it was renewed: from then on renewals may be expected."""
        self.since_s = 0
        """Unix time since which it was renewed without a gap that counts as silence."""
        self.resumed = asyncio.Event()
        """Set when `since_s` changes; its one waiter clears it."""
        self.renewals = 0
        self._renewed_at = float("-inf")
        self._kube = kube
        self._settings = settings
        self._name = lease
        self._identity = identity
        self._clock = clock
        self._owner = owner
        self._random = random if random is not None else Random()  # noqa: S311  (spreads load)
        self._lease: LeaseObject | None = None
        self._began = ""
        self._starts = 0

    async def run(self, alive: Callable[[], bool], *, look_s: float = 1.0) -> NoReturn:
        """Renew the Lease while `alive` says so, which is looked at every `look_s` seconds while it
        does not. Only cancellation ends it."""
        retry_s = 0.0
        while True:
            if not alive():
                await asyncio.sleep(look_s)
                continue
            try:
                await self._renew()
            except TesseraError as e:
                retry_s = min(max(retry_s * 2, _RETRY_FIRST_S), self._settings.renew_s)
                _log.warning("lease not renewed", lease=self._name, why=str(e))
                await asyncio.sleep(retry_s)
            else:
                retry_s = 0.0
                self._note_renewal()
                await asyncio.sleep(self._settings.renew_s * (1 - _JITTER * self._random.random()))

    def _note_renewal(self) -> None:
        now = asyncio.get_running_loop().time()
        self.renewals += 1
        self.announced.set()
        if now - self._renewed_at > self._settings.lasts_s:
            self.since_s = int(self._clock.time())
            self.resumed.set()
        self._renewed_at = now

    async def _renew(self) -> None:
        if self._lease is None:
            await self._read()
        try:
            await self._write()
        except (ApiConflict, ApiNotFound):  # deleted, or written by hand
            await self._read()
            await self._write()

    async def _read(self) -> None:
        """Take the Lease as it is: it may be a former process's."""
        try:
            self._lease = parsed(await self._kube.call(Verb.GET, self._path(self._name)))
        except ApiNotFound as e:
            if e.reason != "NotFound":
                raise
            self._lease = None
        if not self._began:
            former = self._lease.spec.lease_transitions if self._lease is not None else None
            self._began, self._starts = self._stamp(), (former or 0) + 1

    async def _write(self) -> None:
        owner, version = self._owner(), version_of(self._lease)
        meta = LeaseMeta(
            self._settings.namespace, self._name, version, (owner,) if owner is not None else ()
        )
        spec = LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=max(1, round(self._settings.lasts_s)),
            acquire_time=self._began,
            renew_time=self._stamp(),
            lease_transitions=self._starts,
        )
        body = msgspec.json.encode(LeaseObject(meta, spec))
        verb, name = (Verb.PUT, self._name) if version else (Verb.POST, "")
        self._lease = parsed(await self._kube.call(verb, self._path(name), body=body))

    def _path(self, name: str) -> str:
        return paths.in_group(
            "coordination.k8s.io", "v1", "leases", namespace=self._settings.namespace, name=name
        )

    def _stamp(self) -> str:
        now = datetime.fromtimestamp(self._clock.time(), UTC)
        return now.isoformat(timespec="microseconds").replace("+00:00", "Z")
