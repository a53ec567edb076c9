"""The daemon's parts, opened and closed: folder, lock, socket, cards, shares, lending."""

from __future__ import annotations

import asyncio
import fcntl
import importlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from tessera_agent.devices.cards import CardHealthTracker
from tessera_agent.devices.settings import HealthSettings
from tessera_agent.local.daemon import LocalDaemon, LocalPaths
from tessera_agent.local.lending import local_lending
from tessera_agent.local.shares import LocalShares
from tessera_agent.readers import CardReader, ReaderSettings, open_reader
from tessera_agent.readers.one_machine import MANAGEMENT_LIBRARY, VENDOR
from tessera_core.registry.registry import load
from tessera_runtime import logs
from tessera_runtime.clock import SystemClock
from tessera_runtime.process import ProcessSettings
from tessera_runtime.tracing.tracing import TelemetrySettings
from tessera_schema.local_shares import LOCAL_SOCKET

_log: Final = logs.named("tessera.local")
_POLL_S: Final = 5.0
_SLOTS: Final = 100
_SEEN_S: Final = 10.0
"""Seconds that the driver has to show its cards before anybody is answered."""
EVERYBODY: Final = 0o666


class LocalSettings(Struct, frozen=True, kw_only=True):
    """One daemon."""

    folder: Path
    """Its socket, its stored list and the files of shares."""
    paths: LocalPaths
    idle_s: float = 60.0
    """Seconds without a share after which it ends; it is started again when somebody asks."""
    inherited: bool = False
    """Its socket is descriptor 3, from systemd."""
    process: ProcessSettings = ProcessSettings()
    telemetry: TelemetrySettings = TelemetrySettings(disabled=True)


class _IdleEnd(Exception):
    """It has been idle for its time."""


async def serve(settings: LocalSettings) -> None:
    """Serve until cancelled, or idle. Where another daemon serves the folder it ends at once."""
    with _alone(settings.folder) as alone:
        if not alone:
            _log.info("another daemon serves this folder", folder=str(settings.folder))
            return
        with _unwrapped():
            async with asyncio.TaskGroup() as tasks:
                await _open(settings, tasks)


async def _open(settings: LocalSettings, tasks: asyncio.TaskGroup) -> None:
    clock, driver = SystemClock(), settings.paths.driver
    shares = LocalShares(settings.folder, clock, tasks)
    daemon = LocalDaemon(shares, settings.paths)
    reader_settings = ReaderSettings(library=str(driver / MANAGEMENT_LIBRARY) if driver else "")
    seen = asyncio.Event()
    tasks.create_task(_follow(reader_settings, daemon, shares, seen), name="cards")
    with suppress(TimeoutError):
        async with asyncio.timeout(_SEEN_S):
            await seen.wait()
    await shares.recover()
    tasks.create_task(local_lending(shares.holdings, clock).run(), name="lending")
    tasks.create_task(_serve(settings, daemon, tasks), name="socket")


async def _serve(settings: LocalSettings, daemon: LocalDaemon, tasks: asyncio.TaskGroup) -> None:
    with _listening(settings) as listening:
        _log.info("serving", folder=str(settings.folder))
        tasks.create_task(_until_idle(daemon, settings.idle_s), name="idle")
        await daemon.serve(listening, tasks)


async def _until_idle(daemon: LocalDaemon, idle_s: float) -> None:
    loop = asyncio.get_running_loop()
    since, answered = loop.time(), daemon.answered
    while loop.time() - since < idle_s:
        await asyncio.sleep(min(idle_s / 4, 1.0))
        if not daemon.idle or daemon.answered != answered:
            since, answered = loop.time(), daemon.answered
    raise _IdleEnd


async def _follow(
    settings: ReaderSettings, daemon: LocalDaemon, shares: LocalShares, seen: asyncio.Event
) -> None:
    """Poll the cards and their health, for ever."""
    monitoring = importlib.import_module(f"tessera_core.vendors.{VENDOR}").MONITORING
    tracker = CardHealthTracker(monitoring, HealthSettings(), _SLOTS)
    async with open_reader(VENDOR, settings, _NoNode(), load(), SystemClock()) as reader:
        while True:
            await _poll(reader, tracker, daemon, shares)
            seen.set()
            await asyncio.sleep(_POLL_S)


async def _poll(
    reader: CardReader, tracker: CardHealthTracker, daemon: LocalDaemon, shares: LocalShares
) -> None:
    state = tracker.update(await reader.poll(), asyncio.get_running_loop().time())
    daemon.problem = state.silent or "this machine has no cards"
    if state.complete and shares.ledger.put_cards(state.cards):
        shares.room_may_have_come()


class _NoNode:
    """There is no cluster, and no node object."""

    node = None


@contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Whether no other daemon serves the folder, which is made if it is missing."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(lock)


@contextmanager
def _listening(settings: LocalSettings) -> Iterator[socket.socket]:
    if settings.inherited:
        with socket.socket(fileno=3) as listening:
            listening.setblocking(False)  # noqa: FBT003  (socket has it so)
            yield listening
        return
    path = settings.folder / LOCAL_SOCKET
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        path.unlink(missing_ok=True)
        listening.bind(str(path))
        path.chmod(EVERYBODY)
        listening.listen(128)
        listening.setblocking(False)  # noqa: FBT003  (socket has it so)
        try:
            yield listening
        finally:
            path.unlink(missing_ok=True)


@contextmanager
def _unwrapped() -> Iterator[None]:
    """The end of an idle daemon is no failure of its tasks."""
    try:
        yield
    except BaseExceptionGroup as e:
        _, others = e.split(_IdleEnd)
        if others is not None:
            raise others from None
