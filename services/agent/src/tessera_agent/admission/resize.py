"""What a running container may use, brought in line with its pod's last grant and with the
throttle of its namespace.

Whoever has become entitled to more gets it when the card has it; whoever to less loses at once
what he does not use, and the rest as he gives it back. Until then the agent counts what is still
in use, so that nobody is given it twice. Cores are a rate: they change at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from tessera_agent.admission.admission import ContainerAdmitter
from tessera_agent.api.pods import NodePods
from tessera_agent.containers.adjustment import cores_permille
from tessera_agent.containers.holdings import ContainerRegistry, ContainerStage, Holding
from tessera_agent.containers.hook_files import ContainerKey, HookFiles
from tessera_agent.containers.namespace_allowances import Reach
from tessera_agent.lending.throttle import FULL, ThrottledNamespaces
from tessera_core.grants.resize import follows
from tessera_core.hook.limits_file import CardLimit, Mode
from tessera_core.hook.records import uuid_key
from tessera_core.hook.usage_file import UsageFile, UsageFileBounds
from tessera_core.node.container_admission import capacity_shortage
from tessera_runtime import logs
from tessera_runtime.clock import Clock
from tessera_schema.cards import MIB, Card
from tessera_schema.grants import Grant, Share

_log: Final = logs.named("tessera.agent.resizing")
_WHOLE: Final = 1000


class LimitsDependencies(Struct, frozen=True, kw_only=True):
    """What is compared, and with what."""

    holdings: ContainerRegistry
    pods: NodePods
    judge: ContainerAdmitter
    throttling: ThrottledNamespaces
    reach: Reach
    files: HookFiles
    clock: Clock
    cards: Callable[[], Mapping[str, Card] | None]
    """The node's, by id."""
    look_s: float
    patience_s: float
    """Seconds for which memory that is in use may stay above what was granted."""


class WantedLimits(Struct, frozen=True, kw_only=True):
    """What a container is to have of one card."""

    share: Share
    """As granted."""
    percent: float | None
    """Of its cores; None = not known."""
    used_bytes: int = 0
    """Memory that stays allowed because it is in use."""
    off: bool = False
    """It has no limit of cores on the card."""
    lowered: bool = False
    """Its cores were below what was granted when this agent began."""

    def on(self, limit: CardLimit) -> CardLimit:
        """The limit as it should be."""
        memory = max(self.share.memory_bytes, MIB)
        if memory < limit.memory_bytes:
            memory = max(memory, min(self.used_bytes, limit.memory_bytes))
        limit = replace(limit, memory_bytes=memory)
        own = cores_permille(self.share)
        if self.percent is None and self.lowered:
            return limit
        if self.percent is not None and self.percent < FULL:
            part = max(round((own or _WHOLE) * self.percent / FULL), 1)
            return _with_cores(limit, part, off=False)
        return _with_cores(limit, own, off=self.off)


class LimitsReconciler:
    """Keeps limits files as they should be."""

    def __init__(self, tools: LimitsDependencies) -> None:
        """Nothing was compared."""
        self._do = tools
        self._read: dict[str, str] = {}
        """Pod's uid -> the grant annotation that was looked at last."""
        self._since: dict[tuple[ContainerKey, str], float] = {}
        """Container and card -> since when its memory is above what was granted."""

    async def run(self) -> NoReturn:
        """Compare whenever something may have changed, for ever."""
        do = self._do
        while True:
            await self.reconcile()
            with suppress(TimeoutError):
                async with asyncio.timeout(do.look_s):
                    await do.pods.grants.wait()

    async def reconcile(self) -> None:
        """Once."""
        self._do.pods.grants.clear()
        running = [h for h in self._do.holdings if h.stage is ContainerStage.RUNNING]
        self._forget(running)
        for held in running:
            await self._take(held)
        for held in running:
            await self._bring(held.key)

    def _forget(self, running: list[Holding]) -> None:
        keys, uids = {h.key for h in running}, {h.key.uid for h in running}
        self._read = {uid: text for uid, text in self._read.items() if uid in uids}
        self._since = {each: at for each, at in self._since.items() if each[0] in keys}

    # -- a later grant

    async def _take(self, held: Holding) -> None:
        """What the API server shows of its pod, where that is a later grant."""
        do, uid = self._do, held.key.uid
        shown = do.pods.get(uid)
        if shown is None or not shown.grant or self._read.get(uid) == shown.grant:
            return
        grant, earlier = do.judge.proven(uid, shown.grant), do.holdings.granted(uid)
        if grant is None:
            return  # its key may not have been read yet
        self._read[uid] = shown.grant
        if earlier is not None and follows(grant, earlier):
            do.holdings.remember(grant)
        newest = do.holdings.granted(uid)
        if newest is None or not newest.revision:
            return  # it was never resized
        for one in do.holdings.of_pod(uid):
            shares = do.judge.shares(newest, one.key.container)
            if shares != one.granted:
                do.holdings.change(one.key, one.id, granted=shares)
                await self._keep(one, newest)

    async def _keep(self, held: Holding, grant: Grant) -> None:
        key = held.key
        _log.info("later grant", uid=key.uid, container=key.container, revision=grant.revision)
        if held.files is None:
            return
        try:
            await asyncio.to_thread(self._do.files.keep_grant, key, grant)
        except (OSError, ValueError) as e:
            _log.warning("grant not kept", uid=key.uid, container=key.container, why=str(e))

    # -- limits

    async def _bring(self, key: ContainerKey) -> None:
        """The container's limits to where they should be."""
        held = self._do.holdings.get(key)
        if held is None or held.files is None:
            return
        now = asyncio.get_running_loop().time()
        percent = self._do.throttling.percent(held.pod.namespace, now)
        for share in held.granted or held.shares:
            if await self._bring_card(key, share, percent, now):
                _log.info("limits changed", uid=key.uid, container=key.container, card=share.card)

    async def _bring_card(
        self, key: ContainerKey, share: Share, percent: float | None, now: float
    ) -> bool:
        """Whether something was changed."""
        held = self._do.holdings.get(key)
        if held is None or held.files is None or not self._takes(held, share):
            return False
        limit = next((c for c in held.files.limits.cards if c.uuid == share.card), None)
        if limit is None:
            return False
        wanted = WantedLimits(
            share=share,
            used_bytes=await self._used(held, limit, share, now),
            off=share.card in self._unlimited(held),
            lowered=share.card in held.lowered,
            percent=percent,
        )
        if wanted.on(limit) == limit:
            self._held(held, share)
            return False
        try:
            await asyncio.to_thread(held.files.change_card, share.card, wanted.on)
        except (OSError, ValueError) as e:
            _log.warning("limits not changed", uid=key.uid, container=key.container, why=str(e))
            return False
        self._held(held, share)
        return True

    def _unlimited(self, held: Holding) -> frozenset[str]:
        cards = [share.card for share in held.shares]
        return self._do.reach.unlimited(held.pod.namespace, held.terms, cards)

    def _takes(self, held: Holding, share: Share) -> bool:
        """Take what it is to have more of the card, before it may use it; False where the card has
        not so much now."""
        counted = next((s for s in held.shares if s.card == share.card), None)
        if counted is None:
            return False
        larger = replace(
            share, memory_bytes=max(counted.memory_bytes, share.memory_bytes),
            cores_percent=max(counted.cores_percent, share.cores_percent),
        )  # fmt: skip
        if larger == counted:
            return True
        known, shares = self._do.cards() or {}, _with(held, larger)
        if any(s.card not in known for s in shares):
            return False
        full = capacity_shortage(held.key.uid, shares, known, self._do.holdings.held(but=held.key))
        if full:
            _log.info("no room yet", uid=held.key.uid, container=held.key.container, why=full)
            return False
        self._do.holdings.change(held.key, held.id, shares=shares)
        return True

    def _held(self, held: Holding, share: Share) -> None:
        """What it takes after its limits were changed: what it may use."""
        now = self._do.holdings.get(held.key)
        if now is None or now.files is None or now.id != held.id:
            return
        limit = next(c for c in now.files.limits.cards if c.uuid == share.card)
        larger = limit.memory_bytes > max(share.memory_bytes, MIB)
        took = replace(share, memory_bytes=limit.memory_bytes) if larger else share
        if took not in now.shares:
            self._do.holdings.change(held.key, held.id, shares=_with(now, took))

    async def _used(self, held: Holding, limit: CardLimit, share: Share, now: float) -> int:
        """Bytes that must be left to it for now, because they are in use."""
        each = (held.key, share.card)
        if held.files is None or limit.memory_bytes <= max(share.memory_bytes, MIB):
            self._since.pop(each, None)
            return 0
        since = self._since.setdefault(each, now)
        if now - since > self._do.patience_s:
            return 0
        bounds = UsageFileBounds(
            memory_bytes={uuid_key(limit.uuid): limit.memory_bytes},
            now_ns=self._do.clock.time_ns(),
        )
        usage = await asyncio.to_thread(held.files.read, bounds)
        cards = usage.cards if isinstance(usage, UsageFile) else ()
        key = uuid_key(limit.uuid)
        return next((c.charged_bytes for c in cards if uuid_key(c.uuid) == key), 0)


def _with(held: Holding, share: Share) -> tuple[Share, ...]:
    return tuple(share if s.card == share.card else s for s in held.shares)


def _with_cores(limit: CardLimit, permille: int, *, off: bool) -> CardLimit:
    limited = Mode.HARD if limit.mode is Mode.OFF else limit.mode
    mode = Mode.OFF if off or not permille else limited
    return replace(limit, cores_permille=permille, mode=mode)
