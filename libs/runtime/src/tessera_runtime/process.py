"""The life of a process: settings, logs, traces, signals, and a bounded end.

    settings = process.settings_or_exit(AgentSettings, os.environ)
    sys.exit(process.run(serve, name="agent", settings=settings))

`serve` is one coroutine that opens everything with `async with` and runs until it is cancelled,
which SIGTERM and SIGINT do. What it opened is closed on the way out. If that takes longer than
`stop_s`, or a second signal comes, the process ends anyway: its state must survive that, because
a node may lose its power as well.

    exit status   0 asked to end, and ended         2 the settings make no sense
                  1 a task failed: see the log      3 did not end in time: see the log
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Annotated, NoReturn, Protocol, TypeVar

import uvloop
from msgspec import Meta, Struct

from tessera_runtime import logs
from tessera_runtime.errors import BadSettings, reasons
from tessera_runtime.logs import LogLevel
from tessera_runtime.settings import load
from tessera_runtime.tracing import tracing

log = logs.named("tessera.service")


class ProcessSettings(Struct, frozen=True, kw_only=True):
    """The process itself."""

    log_level: LogLevel = LogLevel.INFO
    """The least that is logged: debug, info, warning or error."""
    revision: str = ""
    """The commit that the program was built from, for `tessera_build_info`; images set it."""
    stop_s: Annotated[float, Meta(gt=0)] = 10.0
    """Seconds from SIGTERM until the process ends by force; Kubernetes does so after 30."""
    ports_file: Path | None = None
    """Where to write `{"<name>": <port>}` once the servers listen, for a parent process that gave
    port 0; nowhere by default."""


class ExitStatus(IntEnum):
    """What a process ends with."""

    ENDED = 0
    FAILED = 1
    BAD_SETTINGS = 2
    STUCK = 3


class RunSettings(Protocol):
    """What `run` reads of a program's settings."""

    @property
    def process(self) -> ProcessSettings:
        """The process itself."""
        ...

    @property
    def telemetry(self) -> tracing.TelemetrySettings:
        """Where traces go."""
        ...


S = TypeVar("S", bound=RunSettings)
K = TypeVar("K", bound=Struct)


def settings_or_exit(kind: type[K], environ: Mapping[str, str]) -> K:
    """Load the settings. What is wrong is printed, a problem a line, and the process ends with
    status 2."""
    try:
        return load(kind, environ)
    except BadSettings as e:
        sys.stderr.write("".join(f"{line}\n" for line in str(e).split("; ")))
        sys.exit(ExitStatus.BAD_SETTINGS)


def run(main: Callable[[S], Coroutine[object, object, None]], *, name: str, settings: S) -> int:
    """Run `main` until the process is asked to end, or fails. Returns the exit status."""
    with logs.open_logs(f"tessera-{name}", settings.process.log_level):
        ending = _Ending(settings.process.stop_s)
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                status = runner.run(_supervised(main, name, settings, ending))
        finally:
            ending.over()
    return status


async def _supervised(
    main: Callable[[S], Coroutine[object, object, None]], name: str, settings: S, ending: _Ending
) -> ExitStatus:
    ending.watch_signals()
    async with tracing.open_telemetry(name, settings.telemetry):
        try:
            log.info("starting", pid=os.getpid())
            await main(settings)
        except asyncio.CancelledError:
            if not ending.asked:
                log.alert("cancelled by nobody")
                return ExitStatus.FAILED
        except BadSettings as e:
            log.alert("bad settings", why=str(e))
            return ExitStatus.BAD_SETTINGS
        except Exception as e:  # noqa: BLE001  (the last chance to say why the process ends)
            for reason in reasons(e):
                log.alert("failed", exc=reason)
            return ExitStatus.FAILED
        finally:
            ending.begin()
    log.info("ended")
    return ExitStatus.ENDED


class _Ending:
    """Once begun, the process ends in time, whatever its tasks, threads and finalisers do."""

    def __init__(self, stop_s: float) -> None:
        self.asked = False
        self._stop_s = stop_s
        self._timer: threading.Timer | None = None

    def watch_signals(self) -> None:
        """Have the calling task cancelled by SIGTERM and SIGINT."""
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._task = asyncio.current_task()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)

    def begin(self) -> None:
        """Begin to count the seconds until the process ends by force."""
        if self._timer is None:
            self._timer = threading.Timer(self._stop_s, self._force, ("not ended in time",))
            self._timer.daemon = True
            self._timer.start()

    def over(self) -> None:
        """The process has ended in time."""
        if self._timer is not None:
            self._timer.cancel()

    def _on_signal(self, number: signal.Signals) -> None:
        if self.asked:
            self._force(f"second signal: {number.name}")
        self.asked = True
        log.info("asked to end", signal=number.name)
        self.begin()
        if self._task is not None:
            self._task.cancel()

    def _force(self, why: str) -> NoReturn:
        names = sorted(task.get_name() for task in asyncio.all_tasks(self._loop))
        log.alert("ending by force", why=why, tasks=names)
        sys.stderr.flush()
        os._exit(ExitStatus.STUCK)
