"""Real processes: what a service manager sees."""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, os, sys, time
from pathlib import Path
from msgspec import Struct
from tessera_runtime import logs, process
from tessera_runtime.http.server import HttpSettings, PortReporter, application
from tessera_runtime.http.server import serving, status_routes
from tessera_runtime.metrics import MetricsRegistry
from tessera_runtime.process import ProcessSettings
from tessera_runtime.tracing.tracing import TelemetrySettings

class Settings(Struct, frozen=True, kw_only=True):
    process: ProcessSettings = ProcessSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    http: HttpSettings = HttpSettings()

async def serve(settings):
    ports = PortReporter(settings.process.ports_file)
    app = application(settings.http)
    app.add_routes(status_routes(ready=str, metrics=MetricsRegistry("test")))
    async with serving(app, settings.http, ports=ports):
        logs.named("test").info("up")
        try:
            await BODY
        finally:
            logs.named("test").info("closing")
            CLOSING

async def crash():
    async with asyncio.TaskGroup() as group:
        group.create_task(fail(), name="one that fails")
        await asyncio.Event().wait()

async def fail():
    raise ZeroDivisionError("by a test")

async def stubborn():
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

if __name__ == "__main__":
    settings = process.settings_or_exit(Settings, os.environ)
    sys.exit(process.run(serve, name="test", settings=settings))
"""


class Service:
    def __init__(self, process: Process) -> None:
        self.process = process
        self.lines: list[dict[str, object]] = []

    async def said(self, event: str) -> dict[str, object]:
        """Wait for a log line."""
        while True:
            line = await self._stderr.readline()
            assert line, self.lines
            self.lines.append(json.loads(line))
            if self.lines[-1]["event"] == event:
                return self.lines[-1]

    async def ended(self) -> int:
        for line in (await self._stderr.read()).splitlines():
            self.lines.append(json.loads(line))
        return await self.process.wait()

    @property
    def events(self) -> list[object]:
        return [line["event"] for line in self.lines]

    @property
    def _stderr(self) -> asyncio.StreamReader:
        assert self.process.stderr is not None
        return self.process.stderr


@asynccontextmanager
async def a_service(
    body: str = "asyncio.Event().wait()", closing: str = "pass", **environ: str
) -> AsyncGenerator[Service]:
    program = PROGRAM.replace("BODY", body).replace("CLOSING", closing)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stderr=PIPE, env=environ
    )
    try:
        async with asyncio.timeout(60):
            yield Service(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_is_a_clean_end(number: signal.Signals) -> None:
    async with a_service() as service:
        await service.said("up")
        service.process.send_signal(number)
        assert await service.ended() == 0
    assert service.events[-3:] == ["asked to end", "closing", "ended"]


async def test_a_task_that_fails_ends_the_process_and_says_why() -> None:
    async with a_service("crash()") as service:
        assert await service.ended() == 1
    line = service.lines[-1]
    assert (line["event"], line["error"]) == ("failed", "ZeroDivisionError: by a test")
    assert "in fail" in str(line["traceback"])
    assert service.lines[-1]["service"] == "tessera-test"


@pytest.mark.parametrize("stuck", ["stubborn()", "asyncio.to_thread(time.sleep, 100)"])
async def test_what_does_not_end_is_ended(stuck: str) -> None:
    async with a_service(stuck, TESSERA_PROCESS_STOP_S="0.5") as service:
        await service.said("up")
        service.process.send_signal(signal.SIGTERM)
        assert await service.ended() == 3
    assert service.lines[-1]["event"] == "ending by force"


async def test_a_second_signal_does_not_wait() -> None:
    async with a_service("stubborn()", TESSERA_PROCESS_STOP_S="100") as service:
        await service.said("up")
        service.process.send_signal(signal.SIGTERM)
        await service.said("asked to end")
        service.process.send_signal(signal.SIGTERM)
        assert await service.ended() == 3


async def test_a_failure_while_closing_is_reported() -> None:
    async with a_service(closing="raise OSError('disk gone')") as service:
        await service.said("up")
        service.process.send_signal(signal.SIGTERM)
        assert await service.ended() == 1
    assert service.lines[-1]["error"] == "OSError: disk gone"


async def test_bad_settings_are_reported_in_plain_lines() -> None:
    async with a_service(TESSERA_HTTP_PORT="x", TESSERA_PROCES_STOP_S="1") as service:
        assert service.process.stderr is not None
        text = (await service.process.stderr.read()).decode().splitlines()
        assert await service.process.wait() == 2
    assert text[0].startswith("TESSERA_PROCES_STOP_S: nothing reads it")
    assert text[1].startswith("TESSERA_HTTP_PORT: 'x'")


async def test_the_ports_file_says_where_it_listens(tmp_path: Path) -> None:
    file = tmp_path / "run" / "ports.json"
    async with a_service(TESSERA_PROCESS_PORTS_FILE=str(file)) as service:
        reported = await service.said("listening")
        await service.said("up")
        assert json.loads(file.read_text()) == {"http": reported["port"]}
