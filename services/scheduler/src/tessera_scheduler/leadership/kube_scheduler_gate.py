"""Which kube-scheduler works: the one in the pod of the replica that leads.

Where there are several replicas, each has a kube-scheduler in its pod that stands for a Lease of
its own, named after the pod (`--leader-elect`). This replica holds that Lease as long as another
one leads, so that its kube-scheduler waits; it lets go of it to lead. A kube-scheduler that has
lost its Lease ends, and its container starts again and stands for the Lease again. So a replica
that stands by is up and ready, and a rollout need not wait for it to lead.

It is no fence: for a moment after a change two kube-schedulers may work, of which the extender
refuses one. While nobody is known to lead, the Lease is left as it is: a service that has
restarted while its kube-scheduler works does not stop it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Annotated, Final, NoReturn

from msgspec import Meta, Struct

from tessera_runtime import logs
from tessera_runtime.background import running_in_background
from tessera_runtime.clock import Clock
from tessera_runtime.errors import TesseraError
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.create_or_update import Json, ObjectLocation, create_or_update
from tessera_scheduler.leadership.leader import Leadership

LONG_S: Final = 10 * 365 * 86400
"""Seconds for which a closed gate holds: nobody needs to renew it."""
MARK: Final = "another-replica-leads"
"""Who holds a closed gate."""

_log = logs.named("tessera.scheduler.gate")


class GateSettings(Struct, frozen=True, kw_only=True):
    """The Lease that the kube-scheduler in this replica's pod stands for."""

    enabled: bool = False
    """Whether it stands for one, named as this replica; if not, it works as soon as it runs."""
    pod_uid: str = ""
    """The pod's uid, so that the Lease goes when the pod does; empty = it stays."""
    look_s: Annotated[float, Meta(gt=0)] = 0.25
    """Seconds between two checks of who leads, which cost nothing."""
    check_s: Annotated[float, Meta(gt=0)] = 10.0
    """Seconds between two reads of the Lease, which a user may have deleted."""


class _State(Enum):
    OPEN = auto()
    CLOSED = auto()
    AS_IT_IS = auto()
    """Closed where there is no Lease: kube-scheduler must not create it first."""


class KubeSchedulerGate:
    """Opens and closes the Lease. Made by `open_gate`."""

    def __init__(
        self,
        kube: Kube,
        place: ObjectLocation,
        settings: GateSettings,
        leadership: Leadership,
        clock: Clock,
    ) -> None:
        """Nothing is known of the Lease yet."""
        self._kube, self._place, self._settings = kube, place, settings
        self._leadership, self._clock = leadership, clock
        self._at: _State | None = None
        self._check_at = 0.0

    def problem(self) -> str:
        """Why kube-scheduler must not start; empty when it may."""
        return "" if self._at else f"Lease {self._place.name} is not looked after yet"

    async def run(self) -> NoReturn:
        """Open and close it, until cancelled."""
        while True:
            try:
                await self._reconcile()
            except TesseraError as e:
                _log.warning("gate not moved", lease=self._place.name, why=str(e))
            await asyncio.sleep(self._settings.look_s)

    async def _reconcile(self) -> None:
        wanted, now = self._wanted(), asyncio.get_running_loop().time()
        if wanted is self._at and now < self._check_at:
            return
        change = {
            _State.OPEN: self._opened,
            _State.CLOSED: self._closed,
            _State.AS_IT_IS: self._unchanged,
        }
        await create_or_update(self._kube, self._place, change[wanted])
        if wanted is not self._at:
            _log.info("gate", lease=self._place.name, state=wanted.name.lower())
        self._at, self._check_at = wanted, now + self._settings.check_s

    def _wanted(self) -> _State:
        if self._leadership.leads:
            return _State.OPEN
        another = self._leadership.other_than(self._place.name)
        return _State.CLOSED if another else _State.AS_IT_IS

    def _opened(self, there: Json | None) -> Json | None:
        if there is not None and _holder(there) != MARK:
            return None
        return self._lease(there, "", 1)

    def _closed(self, there: Json | None) -> Json | None:
        if there is not None and _holder(there) == MARK:
            return None
        return self._lease(there, MARK, LONG_S)

    def _unchanged(self, there: Json | None) -> Json | None:
        return self._closed(None) if there is None else None

    def _lease(self, there: Json | None, holder: str, lasts_s: int) -> Json:
        """The Lease with another holder."""
        made = self._place.object() if there is None else there
        metadata: Json = dict(made["metadata"])
        if self._settings.pod_uid:
            metadata["ownerReferences"] = [{
                "apiVersion": "v1", "kind": "Pod", "name": self._place.name,
                "uid": self._settings.pod_uid,
            }]  # fmt: skip
        stamp = datetime.fromtimestamp(self._clock.time(), UTC).isoformat(timespec="microseconds")
        stamp = stamp.replace("+00:00", "Z")
        spec = {
            "holderIdentity": holder, "leaseDurationSeconds": lasts_s,
            "acquireTime": stamp, "renewTime": stamp,
            "leaseTransitions": int(made.get("spec", {}).get("leaseTransitions") or 0) + 1,
        }  # fmt: skip
        return {**made, "metadata": metadata, "spec": spec}


def _holder(there: Json) -> str:
    return str(there.get("spec", {}).get("holderIdentity") or "")


@asynccontextmanager
async def open_gate(
    kube: Kube,
    namespace: str,
    replica: str,
    settings: GateSettings,
    leadership: Leadership,
    clock: Clock,
) -> AsyncGenerator[KubeSchedulerGate | None]:
    """Look after the Lease until left, and leave it as it is then; None where there is none."""
    if not settings.enabled:
        yield None
        return
    place = ObjectLocation(
        collection=paths.in_group("coordination.k8s.io", "v1", "leases", namespace=namespace),
        api_version="coordination.k8s.io/v1",
        kind="Lease",
        name=replica,
        namespace=namespace,
    )
    gate = KubeSchedulerGate(kube, place, settings, leadership, clock)
    async with running_in_background(gate.run(), "gate"):
        yield gate
