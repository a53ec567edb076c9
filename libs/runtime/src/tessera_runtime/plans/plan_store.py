"""RebalancePlans of some kinds as the API server has them, and the only writer of their statuses.

One that cannot be read is left alone, and is named in the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
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
from tessera_runtime.kube.lists import Identity, identity, pages
from tessera_runtime.kube.patches import JsonPatchOperation, add, json_patch, require
from tessera_runtime.kube.reflector import ListWatch, WatchEventType
from tessera_schema.json_codec import decoder
from tessera_schema.plans import PLAN_KIND, PLANS, PlanKind, PlanPhase, PlanSpec, PlanStatus

_log: Final = logs.named("tessera.plans")
_PAGE: Final = 500
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
    """One RebalancePlan, as read or as written last."""

    of: Identity
    created: float
    """Unix time."""
    spec: PlanSpec
    status: PlanStatus = PlanStatus()

    @property
    def name(self) -> str:
        """The object's name."""
        return self.of.name

    @property
    def over(self) -> bool:
        """Whether its phase is final."""
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
    """What to list and watch."""
    return ListWatch(PLANS, read_plan)


class PlanStore:
    """The RebalancePlans of some kinds; a handler."""

    def __init__(
        self, kube: Kube, kinds: Collection[PlanKind],
        on_phase: Callable[[PlanObject], None] = lambda _: None,
    ) -> None:  # fmt: skip
        """Plans of other kinds are another process' to carry out. `on_phase` is called once for
        each phase that a plan enters, whether this process wrote it or the watch shows it. What a
        list shows has been so before: it is not called for that."""
        self.kinds = frozenset(kinds)
        self.known: dict[str, PlanObject] = {}
        self.changed = asyncio.Event()
        """Set by each change; the task that waits for it clears it."""
        self._kube = kube
        self._on_phase = on_phase

    @property
    def formers(self) -> list[Former]:
        """As budgets and gains see them."""
        return [plan.former for plan in self.known.values()]

    def in_phase(self, phase: PlanPhase) -> list[PlanObject]:
        """The plans in this phase, the oldest first."""
        found = [plan for plan in self.known.values() if plan.status.phase is phase]
        return sorted(found, key=lambda plan: (plan.created, plan.name))

    def on_list(self, items: list[PlanObject], started: float, now: float) -> None:
        """See `Handler.on_list`."""
        del started, now
        self.known = {item.name: item for item in items if item.spec.kind in self.kinds}
        self.changed.set()

    def on_event(self, change: WatchEventType, item: PlanObject, now: float) -> None:
        """See `Handler.on_event`."""
        del now
        if change is WatchEventType.DELETED:
            self.known.pop(item.name, None)
        elif item.spec.kind in self.kinds:
            self._remember(item)
        self.changed.set()

    async def list_now(self) -> None:
        """Read all of them by a quorum read, for a process that begins to act: a former one may
        have made one a moment ago. Raises as `Kube.call` does."""
        found = [
            read_plan(bytes(raw))
            async for page in pages(self._kube, PLANS, limit=_PAGE)
            for raw in page.items or ()
        ]
        self.on_list(found, 0, 0)

    async def create(self, name: str, spec: PlanSpec) -> bool:
        """Propose it; False when there is one by that name. Raises as `Kube.call` does."""
        body = {
            "apiVersion": PLANS.removeprefix("/apis/").rpartition("/")[0], "kind": PLAN_KIND,
            "metadata": {"name": name}, "spec": spec,
        }  # fmt: skip
        try:
            self._remember(read_plan(await self._kube.call(Verb.POST, PLANS, body=_encode(body))))
        except ApiConflict:
            return False
        return True

    async def read(self, name: str) -> PlanObject:
        """The plan as it is now, by a quorum read. Raises PlanGone, and as `Kube.call` does."""
        try:
            plan = read_plan(await self._kube.call(Verb.GET, f"{PLANS}/{name}"))
        except (ApiNotFound, msgspec.DecodeError) as e:
            raise PlanGone(name) from e
        self._remember(plan)
        return plan

    async def write_status(
        self, plan: PlanObject, status: PlanStatus, *, exact: bool = False
    ) -> PlanObject:
        """Write its status; `exact` = only if the plan was not changed since it was read. Raises
        PlanGone, and as `Kube.call` does."""
        steps = [
            require("/metadata/uid", plan.of.uid),
            add("/status", msgspec.to_builtins(status, str_keys=True)),
        ]
        if exact:
            steps.insert(0, require("/metadata/resourceVersion", plan.of.resource_version))
        of = await self._patch(f"{PLANS}/{plan.name}/status", steps)
        written = replace(plan, of=of, status=status)
        self._remember(written)
        return written

    async def approve(self, plan: PlanObject, by: str) -> None:
        """Approve it, unless it was changed since it was read. Raises PlanGone, and as `Kube.call`
        does."""
        steps = [
            require("/metadata/resourceVersion", plan.of.resource_version),
            add("/spec/decision", "approved"),
            add("/spec/decidedBy", by),
        ]
        await self._patch(f"{PLANS}/{plan.name}", steps)

    async def delete(self, plan: PlanObject) -> None:
        """Remove it. Raises as `Kube.call` does."""
        body = _encode({"preconditions": {"uid": plan.of.uid}})
        try:
            await self._kube.call(Verb.DELETE, f"{PLANS}/{plan.name}", body=body)
        except (ApiNotFound, ApiConflict):
            _log.info("plan was gone", plan=plan.name)

    async def delete_ended(self, before: float) -> None:
        """Remove those that ended before that, Unix time. Raises as `Kube.call` does."""
        for plan in list(self.known.values()):
            if plan.over and plan.former.ended < before:
                await self.delete(plan)

    async def _patch(self, path: str, steps: list[JsonPatchOperation]) -> Identity:
        try:
            return await json_patch(self._kube, path, steps)
        except ApiNotFound as e:
            raise PlanGone(path) from e
        except ApiRefused as e:
            if e.status in _CHANGED:
                raise PlanGone(path) from e
            raise

    def _remember(self, plan: PlanObject) -> None:
        known = self.known.get(plan.name)
        if known is not None and known.of.uid != plan.of.uid:
            known = None
        if known is not None and _older(plan.of, known.of):
            return
        self.known[plan.name] = plan
        if known is None or known.status.phase is not plan.status.phase:
            self._on_phase(plan)


def _older(one: Identity, other: Identity) -> bool:
    """Whether a watch reports what was so before this process wrote."""
    versions = one.resource_version, other.resource_version
    return all(v.isdecimal() for v in versions) and int(versions[0]) < int(versions[1])
