"""One writer at a time, by a Lease, with fencing that trusts nobody's clock but our own.

    async with open_lease(kube, settings.lease, identity=host, call_s=call_s) as lease:
        await lease.held.wait()
        if lease.remaining() > call_s: ...  # a write may be sent

The holder counts its time from before the request that renewed the Lease was sent, so it stops
before anyone may take over. A candidate takes over when it has seen the Lease unchanged for all of
its duration, and for one call deadline more, in which a write that the old holder sent last may
still be done. Both measure with the loop's monotonic clock; the times written in the Lease are for
people. A process that was stopped between its look at the time and its write may act on time that
it no longer has. What must not be written then carries the `generation`, for the API server to
compare with the Lease's own.

A Lease that was never held is taken at once; one that is missing is treated as one that somebody
else has just renewed, because it may have been deleted under a living holder. So installations ship
an empty Lease.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random
from typing import Final, NoReturn

import msgspec

from tessera_runtime import logs
from tessera_runtime.clock import Clock, SystemClock
from tessera_runtime.errors import (
    ApiConflict,
    ApiNotFound,
    ApiRefused,
    BadSettings,
    TesseraError,
)  # fmt: skip
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.kube.lease_object import LeaseMeta, LeaseObject, LeaseSpec, parsed, version_of
from tessera_runtime.kube.settings import LeaseSettings

log = logs.named("tessera.kube.lease")

_NEVER: Final = float("-inf")


class Lease:
    """Whether we are the one writer; `open_lease` makes it and keeps it."""

    def __init__(
        self,
        kube: Kube,
        settings: LeaseSettings,
        *,
        identity: str,
        call_s: float,
        clock: Clock,
        random: Random,
    ) -> None:
        self.held = asyncio.Event()
        """Set while we hold it."""
        self.lost = asyncio.Event()
        """Set while we do not; what was begun under another `generation` must not be gone on
        with."""
        self.lost.set()
        self.generation = 0
        """Grows with each new holder: `leaseTransitions` of the Lease while we hold it."""
        self.holder = ""
        """Who holds it, as far as we saw."""
        self._kube, self._settings, self._clock, self._random = kube, settings, clock, random
        self._loop_time = asyncio.get_running_loop().time
        self._identity = identity
        self._call_s = call_s
        self._ends_at = _NEVER
        self._seen: LeaseObject | None = None
        self._seen_at = _NEVER

    def remaining(self) -> float:
        """Seconds for which nobody else may write; 0 when we do not hold it.

        Send a write only while this is more than the deadline of a call.
        """
        left_s = self._ends_at - self._loop_time()
        return left_s if left_s > 0 else 0.0

    async def keep(self) -> NoReturn:
        """Get it, renew it, lose it, get it again."""
        while True:
            await self._get()
            try:
                await self._renew_until_lost()
            finally:
                self._lose()

    async def release(self) -> None:
        """Let the next one have it, a call deadline from now: the last write may still be on its
        way. Failing to do so only costs time."""
        mine = self._seen
        if mine is None or mine.spec.holder_identity != self._identity:
            return
        free = LeaseSpec(
            holder_identity="",
            lease_duration_seconds=max(1, math.ceil(self._call_s)),
            renew_time=self._stamp(),
            lease_transitions=self.generation,
        )
        try:
            await self._write(mine.metadata.resource_version, free)
        except TesseraError as e:
            log.warning("lease not released", why=str(e))
        else:
            log.info("lease released", generation=self.generation)

    def _lose(self) -> None:
        if self.held.is_set():
            log.warning("lease lost", generation=self.generation, holder=self.holder)
        self._ends_at = _NEVER
        self.held.clear()
        self.lost.set()

    async def _get(self) -> None:
        while True:
            try:
                await self._poll()
                wait_s = self._free_at() - _now()
                if wait_s <= 0:
                    await self._take()
                    return
            except TesseraError as e:
                log.warning("lease not had", why=str(e))
                wait_s = self._settings.retry_s
            jitter_s = self._settings.retry_s * self._random.random() / 10
            await asyncio.sleep(min(wait_s, self._settings.retry_s) + jitter_s)

    async def _poll(self) -> None:
        """Note what the Lease says, and, if that is new to us, when we first saw it."""
        try:
            found: LeaseObject | None = parsed(await self._kube.call(Verb.GET, self._path()))
        except ApiNotFound as e:
            if e.reason != "NotFound":
                raise
            found = None
        if self._seen_at == _NEVER or version_of(found) != version_of(self._seen):
            self._seen, self._seen_at = found, _now()
        self.holder = (found and found.spec.holder_identity) or ""

    def _free_at(self) -> float:
        """Loop time from which on we may take it."""
        spec = self._seen.spec if self._seen is not None else None
        if spec is None:
            return self._seen_at + self._settings.duration_s + self._call_s
        if spec.holder_identity == self._identity:
            return _NEVER  # from a write whose answer was lost
        if not spec.holder_identity:  # released, or never held
            return self._seen_at + (spec.lease_duration_seconds or 0)
        lasts_s = spec.lease_duration_seconds or self._settings.duration_s
        return self._seen_at + lasts_s + self._call_s

    async def _take(self) -> None:
        before = self._seen.spec if self._seen is not None else LeaseSpec()
        generation = max(before.lease_transitions or 0, self.generation) + 1
        sent_at, stamp = _now(), self._stamp()
        await self._write(version_of(self._seen), self._record(stamp, stamp, generation))
        self.generation = generation
        self.holder = self._identity
        self._ends_at = sent_at + self._settings.duration_s
        self.lost.clear()
        self.held.set()
        log.info("lease held", generation=self.generation, identity=self._identity)

    async def _renew_until_lost(self) -> None:
        wait_s = self._settings.renew_s
        while True:
            try:
                async with asyncio.timeout_at(self._ends_at):
                    await asyncio.sleep(wait_s)
                    if not await self._renew():
                        return
                    wait_s = self._settings.renew_s
            except TimeoutError:
                return
            except TesseraError as e:
                log.warning("lease not renewed", why=str(e), remaining_s=round(self.remaining(), 3))
                wait_s = self._settings.retry_s

    async def _renew(self) -> bool:
        """Renew once; False when it is somebody else's, or gone."""
        mine = self._seen
        sent_at = _now()
        try:
            acquired = mine.spec.acquire_time if mine is not None else None
            await self._write(
                version_of(mine), self._record(acquired, self._stamp(), self.generation)
            )
        except (ApiConflict, ApiNotFound) as e:
            await self._poll()
            if self.holder != self._identity:
                return False
            raise ApiRefused(e.status, e.reason, f"{e.message}; it is ours still") from e
        self._ends_at = sent_at + self._settings.duration_s
        return True

    async def _write(self, version: str, record: LeaseSpec) -> None:
        """Create the Lease, or replace that version of it."""
        meta = LeaseMeta(self._settings.namespace, self._settings.name, version)
        body = msgspec.json.encode(LeaseObject(meta, record))
        if version:
            answer = await self._kube.call(Verb.PUT, self._path(), body=body)
        else:
            answer = await self._kube.call(Verb.POST, self._path(of_all=True), body=body)
        self._seen, self._seen_at = parsed(answer), _now()

    def _record(self, acquired: str | None, renewed: str, generation: int) -> LeaseSpec:
        return LeaseSpec(
            self._identity, self._settings.duration_s, acquired or renewed, renewed, generation
        )

    def _path(self, *, of_all: bool = False) -> str:
        name = "" if of_all else self._settings.name
        return paths.in_group(
            "coordination.k8s.io", "v1", "leases", namespace=self._settings.namespace, name=name
        )

    def _stamp(self) -> str:
        now = datetime.fromtimestamp(self._clock.time(), UTC)
        return now.isoformat(timespec="microseconds").replace("+00:00", "Z")


@asynccontextmanager
async def open_lease(
    kube: Kube,
    settings: LeaseSettings,
    *,
    identity: str,
    call_s: float,
    clock: Clock | None = None,
    random: Random | None = None,
) -> AsyncGenerator[Lease]:
    """Stand for the Lease until left; then release it, unless the body failed.

    `identity` is for people, a host's or pod's name; a random part is added, so that a process that
    was restarted is not taken for its former self. `call_s` is the deadline of a call.
    Raises BadSettings where the numbers cannot work.
    """
    if settings.duration_s <= settings.renew_s + call_s:
        raise BadSettings(
            f"lease.duration_s: {settings.duration_s}: write more than lease.renew_s and "
            f"kube.call_s together ({settings.renew_s + call_s:g})"
        )
    lease = Lease(
        kube,
        settings,
        identity=f"{identity}_{secrets.token_hex(4)}",
        call_s=call_s,
        clock=clock if clock is not None else SystemClock(),
        random=random if random is not None else Random(),  # noqa: S311  (spreads load)
    )
    clean = False
    try:
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(lease.keep(), name="lease keeper")
            try:
                yield lease
                clean = True
            except asyncio.CancelledError:
                clean = True
                raise
            finally:
                keeping.cancel()
    finally:
        if clean:
            await lease.release()


def _now() -> float:
    return asyncio.get_running_loop().time()
