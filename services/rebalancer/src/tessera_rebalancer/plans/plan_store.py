"""RebalancePlans as they are seen, and their statuses as we write them.

One that makes no sense is left alone, and told in the log.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from tessera_core.machines.plan import OVER
from tessera_core.rebalance.plan_budget import Former
from tessera_runtime import logs
from tessera_runtime.errors import ApiConflict, ApiNotFound, ApiRefused
from tessera_runtime.kube import timestamps
from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.kube.lists import Identity, identity
from tessera_runtime.kube.patches import JsonPatchOperation, add, json_patch, require
from tessera_runtime.kube.reflector import ListWatch, WatchEventType
from tessera_schema.json_codec import decoder
from tessera_schema.plans import PLAN_KIND, PLANS, PlanPhase, PlanSpec, PlanStatus

_log: Final = logs.named("tessera.rebalancer.plans")
_CHANGED: Final = (409, 422)
"""Answers to a patch whose preconditions do not hold."""
_encode: Final = msgspec.json.Encoder().encode


class PlanGone(Exception):
    """The plan's object is no more, is another one by that name, or was changed meanwhile."""


class _Meta(Struct, frozen=True, rename="camel"):
    creation_timestamp: str | None = None


class _Whole(Struct, frozen=True):
    spec: PlanSpec
    metadata: _Meta = _Meta()
    status: Raw = Raw(b"{}")


_whole = decoder(_Whole)
_status = decoder(PlanStatus)


class PlanObject(Struct, frozen=True, kw_only=True):
    """One RebalancePlan."""

    of: Identity
    created: float
    """Unix time."""
    spec: PlanSpec
    status: PlanStatus = PlanStatus()

    @property
    def name(self) -> str:
        """The object's."""
        return self.of.name

    @property
    def over(self) -> bool:
        """True when nothing more becomes of it."""
        return self.status.phase in OVER

    @property
    def former(self) -> Former:
        """As budgets and gains see it."""
        return Former(
            name=self.name, spec=self.spec, status=self.status,
            started=timestamps.parse_time(self.status.started) or 0,
            ended=timestamps.parse_time(self.status.ended) or 0,
        )  # fmt: skip


def read_plan(raw: bytes) -> PlanObject:
    """Raises msgspec.DecodeError."""
    whole = _whole(raw)
    return PlanObject(
        of=identity(raw), spec=whole.spec, status=_status(bytes(whole.status)),
        created=timestamps.parse_time(whole.metadata.creation_timestamp) or 0,
    )  # fmt: skip


def watched() -> ListWatch[PlanObject]:
    """Where they are."""
    return ListWatch(PLANS, read_plan)


class PlanStore:
    """All of them; a sink, and the only writer of their statuses."""

    def __init__(self, kube: Kube) -> None:
        """None is known."""
        self.known: dict[str, PlanObject] = {}
        self.news = asyncio.Event()
        """Set by each change; whoever waits for it clears it."""
        self._kube = kube

    @property
    def formers(self) -> list[Former]:
        """As budgets and gains see them."""
        return [sight.former for sight in self.known.values()]

    def in_phase(self, phase: PlanPhase) -> list[PlanObject]:
        """The plans in this phase, the oldest first."""
        found = [sight for sight in self.known.values() if sight.status.phase is phase]
        return sorted(found, key=lambda sight: (sight.created, sight.name))

    # -- what is seen

    def on_list(self, items: list[PlanObject], started: float, now: float) -> None:
        """See `Handler.on_list`."""
        del started, now
        self.known = {item.name: item for item in items}
        self.news.set()

    def on_event(self, change: WatchEventType, item: PlanObject, now: float) -> None:
        """See `Handler.on_event`."""
        del now
        if change is WatchEventType.DELETED:
            self.known.pop(item.name, None)
        else:
            self._take(item)
        self.news.set()

    # -- what is written

    async def create(self, name: str, spec: PlanSpec) -> bool:
        """Propose it; False when there is one by that name. Raises as `Kube.call` does."""
        body = {
            "apiVersion": PLANS.removeprefix("/apis/").rpartition("/")[0], "kind": PLAN_KIND,
            "metadata": {"name": name}, "spec": spec,
        }  # fmt: skip
        try:
            self._take(read_plan(await self._kube.call(Verb.POST, PLANS, body=_encode(body))))
        except ApiConflict:
            return False
        return True

    async def read(self, name: str) -> PlanObject:
        """As it is now, by a quorum read. Raises Gone, and as `Kube.call` does."""
        try:
            sight = read_plan(await self._kube.call(Verb.GET, f"{PLANS}/{name}"))
        except (ApiNotFound, msgspec.DecodeError) as e:
            raise PlanGone(name) from e
        self._take(sight)
        return sight

    async def put(
        self, sight: PlanObject, status: PlanStatus, *, exact: bool = False
    ) -> PlanObject:
        """Write its status; `exact` = only if nobody has changed the plan since it was read. Raises
        Gone, and as `Kube.call` does."""
        steps = [
            require("/metadata/uid", sight.of.uid),
            add("/status", msgspec.to_builtins(status, str_keys=True)),
        ]
        if exact:
            steps.insert(0, require("/metadata/resourceVersion", sight.of.resource_version))
        of = await self._patch(f"{PLANS}/{sight.name}/status", steps)
        written = replace(sight, of=of, status=status)
        self._take(written)
        return written

    async def approve(self, sight: PlanObject, by: str) -> None:
        """Approve it, unless somebody has changed it. Raises Gone, and as `Kube.call` does."""
        steps = [
            require("/metadata/resourceVersion", sight.of.resource_version),
            add("/spec/decision", "approved"),
            add("/spec/decidedBy", by),
        ]
        await self._patch(f"{PLANS}/{sight.name}", steps)

    async def delete(self, sight: PlanObject) -> None:
        """Remove it. Raises as `Kube.call` does."""
        body = _encode({"preconditions": {"uid": sight.of.uid}})
        try:
            await self._kube.call(Verb.DELETE, f"{PLANS}/{sight.name}", body=body)
        except (ApiNotFound, ApiConflict):
            _log.info("plan was gone", plan=sight.name)

    async def _patch(self, path: str, steps: list[JsonPatchOperation]) -> Identity:
        try:
            return await json_patch(self._kube, path, steps)
        except ApiNotFound as e:
            raise PlanGone(path) from e
        except ApiRefused as e:
            if e.status in _CHANGED:
                raise PlanGone(path) from e
            raise

    def _take(self, sight: PlanObject) -> None:
        known = self.known.get(sight.name)
        if known is None or known.of.uid != sight.of.uid or not _older(sight.of, known.of):
            self.known[sight.name] = sight


def _older(one: Identity, other: Identity) -> bool:
    """Whether a watch tells now what was so before our own write."""
    versions = one.resource_version, other.resource_version
    return all(v.isdecimal() for v in versions) and int(versions[0]) < int(versions[1])
