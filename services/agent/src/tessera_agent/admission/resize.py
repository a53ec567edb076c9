"""Reconciles what a running container may use with its pod's last grant and with the throttle of
its namespace.

A container whose grant grew gets more when the card has it; one whose grant shrank loses at once
what it does not use, and the rest as it gives it back. Until then the agent counts what is still in
use, so that it is not given twice. Cores are a rate: they change at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from typing import Final, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from tessera_agent.admission.later_grants import LaterGrants
from tessera_agent.containers.holdings import ContainerRegistry, ContainerStage, Holding
from tessera_agent.containers.hook_files import ContainerKey
from tessera_agent.containers.limits import card_flags, cores_permille, resident_bytes
from tessera_agent.containers.namespace_allowances import NamespaceAllowances
from tessera_agent.devices.monitor import DeviceMonitor
from tessera_agent.lending.throttle import FULL, ThrottledNamespaces
from tessera_core.hook.limits_file import CardFlag, CardLimit, Mode
from tessera_core.hook.records import uuid_key
from tessera_core.hook.usage_file import UsageFile, UsageFileBounds
from tessera_core.node.container_admission import capacity_shortage
from tessera_runtime import logs
from tessera_runtime.clock import Clock
from tessera_runtime.kube.settings import Seconds
from tessera_runtime.shared_wakeups import next_multiple
from tessera_schema.cards import MIB
from tessera_schema.grants import Share

_log: Final = logs.named("tessera.agent.resizing")
_WHOLE: Final = 1000
_OTHERS: Final = CardFlag.CHARGE_OVERHEAD | CardFlag.RECLAIM
"""Flags that follow from something else than the share."""


class ResizeSettings(Struct, frozen=True, kw_only=True):
    """Limits of running containers, changed by a later grant or by their quota."""

    look_s: Seconds = 1.0
    """Seconds between comparisons while no message comes: memory is given back this soon."""
    patience_s: Seconds = 60.0
    """Seconds for which memory that is in use stays allowed after less was granted; then no more
    is allowed than was granted, and what is above shows as such."""
    throttle_s: Seconds = 600.0
    """Seconds for which cores stay lowered after the quota monitor's last message; it publishes
    again every minute."""


class WantedLimits(Struct, frozen=True, kw_only=True):
    """The limits that a container should have on one card."""

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
        limit = replace(
            limit, memory_bytes=memory, resident_bytes=resident_bytes(self.share),
            flags=card_flags(self.share) | (limit.flags & _OTHERS),
        )  # fmt: skip
        own = cores_permille(self.share)
        if self.share.best_effort:  # its loans end where its namespace is throttled
            return replace(limit, cores_permille=own, mode=Mode.ELASTIC)
        if self.percent is None and self.lowered:
            return limit
        if self.percent is not None and self.percent < FULL:
            part = max(round((own or _WHOLE) * self.percent / FULL), 1)
            return _with_cores(limit, part, off=False)
        return _with_cores(limit, own, off=self.off)


class LimitsReconciler:
    """Keeps limits files in line with grants and quotas."""

    def __init__(
        self, settings: ResizeSettings, grants: LaterGrants, holdings: ContainerRegistry,
        devices: DeviceMonitor, throttled: ThrottledNamespaces, allowances: NamespaceAllowances,
        clock: Clock,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._grants = grants
        self._holdings = holdings
        self._devices = devices
        self._throttled = throttled
        self._allowances = allowances
        self._clock = clock
        self._since: dict[tuple[ContainerKey, str], float] = {}
        """Container and card -> since when its memory is above what was granted."""
        self._in_line: dict[tuple[ContainerKey, str], tuple[object, ...]] = {}
        """Container and card -> by what its limits were in line when they were compared last."""

    async def run(self) -> NoReturn:
        """Compare whenever something may have changed, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            await self.reconcile()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(next_multiple(loop.time(), self._settings.look_s)):
                    await self._grants.changed.wait()

    async def reconcile(self) -> None:
        """Compare once, and change limits that differ."""
        self._grants.changed.clear()
        running = [h for h in self._holdings if h.stage is ContainerStage.RUNNING]
        keys = {h.key for h in running}
        self._grants.forget_others({key.uid for key in keys})
        self._since = {each: at for each, at in self._since.items() if each[0] in keys}
        self._in_line = {each: by for each, by in self._in_line.items() if each[0] in keys}
        for held in running:
            if self._grants.shows_another(held):
                await self._grants.update(held)
        now = asyncio.get_running_loop().time()
        names = {held.pod.namespace for held in running}
        percents = {name: self._throttled.percent(name, now) for name in names}
        for key in [held.key for held in running]:
            now_held = self._holdings.get(key)
            if now_held and not self._is_in_line(now_held, percents.get(now_held.pod.namespace)):
                await self._reconcile(key)

    def _is_in_line(self, held: Holding, percent: float | None) -> bool:
        """Whether its limits are as they were when they were last found in line: most always are,
        and nothing waits for them."""
        off = self._unlimited(held)
        return all(
            self._in_line.get((held.key, share.card)) == _compared(held, share, percent, off)
            for share in held.granted or held.shares
        )

    async def _reconcile(self, key: ContainerKey) -> None:
        """Change the container's limits where they differ from what they should be."""
        held = self._holdings.get(key)
        if held is None or held.files is None:
            return
        now = asyncio.get_running_loop().time()
        percent = self._throttled.percent(held.pod.namespace, now)
        for share in held.granted or held.shares:
            if await self._reconcile_card(key, share, percent, now):
                _log.info("limits changed", uid=key.uid, container=key.container, card=share.card)

    async def _reconcile_card(
        self, key: ContainerKey, share: Share, percent: float | None, now: float
    ) -> bool:
        """Change the limits on one card; whether they differed."""
        held = self._holdings.get(key)
        if held is None or held.files is None:
            return False
        limit = next((c for c in held.files.limits.cards if c.uuid == share.card), None)
        off = self._unlimited(held)
        compared = _compared(held, share, percent, off)
        if self._in_line.get((key, share.card)) == compared:
            return False
        if limit is None or not self._reserve(held, share):
            return False
        wanted = WantedLimits(
            share=share,
            used_bytes=await self._used(held, limit, share, now),
            off=share.card in off,
            lowered=share.card in held.lowered,
            percent=percent,
        )
        if wanted.on(limit) == limit:
            self._release(held, share)
            if not wanted.used_bytes and (key, share.card) not in self._since:
                self._in_line[key, share.card] = compared
            return False
        try:
            await asyncio.to_thread(held.files.change_card, share.card, wanted.on)
        except (OSError, ValueError) as e:
            _log.warning("limits not changed", uid=key.uid, container=key.container, why=str(e))
            return False
        self._release(held, share)
        return True

    def _unlimited(self, held: Holding) -> frozenset[str]:
        cards = [share.card for share in held.shares]
        return self._allowances.unlimited_cards(held.pod.namespace, held.terms, cards)

    def _reserve(self, held: Holding, share: Share) -> bool:
        """Reserve what it gets more of the card, before it may use it; False where the card has not
        so much now."""
        counted = next((s for s in held.shares if s.card == share.card), None)
        if counted is None:
            return False
        larger = replace(
            share, memory_bytes=max(counted.memory_bytes, share.memory_bytes),
            cores_percent=max(counted.cores_percent, share.cores_percent),
        )  # fmt: skip
        if larger == counted:
            return True
        known, shares = self._devices.cards or {}, _with(held, larger)
        if any(s.card not in known for s in shares):
            return False
        others = self._holdings.shares_by_pod(but=held.key)
        full = capacity_shortage(held.key.uid, shares, known, others)
        if full:
            _log.info("no room yet", uid=held.key.uid, container=held.key.container, why=full)
            return False
        self._holdings.change(held.key, held.id, shares=shares)
        return True

    def _release(self, held: Holding, share: Share) -> None:
        """After its limits were changed, let it hold what it may use."""
        now = self._holdings.get(held.key)
        if now is None or now.files is None or now.id != held.id:
            return
        limit = next(c for c in now.files.limits.cards if c.uuid == share.card)
        larger = limit.memory_bytes > max(share.memory_bytes, MIB)
        holds = replace(share, memory_bytes=limit.memory_bytes) if larger else share
        if holds not in now.shares:
            self._holdings.change(held.key, held.id, shares=_with(now, holds))

    async def _used(self, held: Holding, limit: CardLimit, share: Share, now: float) -> int:
        """Bytes that stay allowed for now, because they are in use."""
        each = (held.key, share.card)
        if held.files is None or limit.memory_bytes <= max(share.memory_bytes, MIB):
            self._since.pop(each, None)
            return 0
        since = self._since.setdefault(each, now)
        if now - since > self._settings.patience_s:
            return 0
        bounds = UsageFileBounds(
            memory_bytes={uuid_key(limit.uuid): limit.memory_bytes},
            now_ns=self._clock.time_ns(),
        )
        usage = await asyncio.to_thread(held.files.read, bounds)
        cards = usage.cards if isinstance(usage, UsageFile) else ()
        key = uuid_key(limit.uuid)
        return next((c.charged_bytes for c in cards if uuid_key(c.uuid) == key), 0)


def _with(held: Holding, share: Share) -> tuple[Share, ...]:
    return tuple(share if s.card == share.card else s for s in held.shares)


def _compared(
    held: Holding, share: Share, percent: float | None, off: Collection[str]
) -> tuple[object, ...]:
    """By what the limits of a share are in line: all that they follow from, and what of them does
    not change with a loan or a measurement."""
    for limit in held.files.limits.cards if held.files else ():
        if limit.uuid == share.card:
            return (
                held, share, percent, share.card in off, limit.memory_bytes, limit.resident_bytes,
                limit.flags, limit.cores_permille, limit.mode,
            )  # fmt: skip
    return (held, share, percent)


def _with_cores(limit: CardLimit, permille: int, *, off: bool) -> CardLimit:
    limited = Mode.HARD if limit.mode is Mode.OFF else limit.mode
    mode = Mode.OFF if off or not permille else limited
    return replace(limit, cores_permille=permille, mode=mode)
