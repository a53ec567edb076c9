"""Records usage until it is stopped: the bus and the API server on one side, a file on the
other."""

from __future__ import annotations

import argparse
import asyncio
import math
import signal
from contextlib import suppress
from typing import BinaryIO, Final

from msgspec.structs import replace

from tessera_cli import kubeconfig, settings
from tessera_cli.api_objects import open_cluster
from tessera_cli.bus_connection import served_by
from tessera_cli.cluster_state import bus_reader
from tessera_cli.cluster_state.nats_options import bus_of
from tessera_cli.report.holders import read_holders
from tessera_cli.report.recorder import UsageRecorder
from tessera_cli.report.recording_files import open_recording
from tessera_cli.report.sources import HoldersUnreadable
from tessera_cli.text import print_notice
from tessera_core.registry.registry import DialectRegistry
from tessera_core.utilization.recording import RecordingHeader
from tessera_runtime.background import running_in_background
from tessera_runtime.bus.client import open_bus
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.clock import SystemClock
from tessera_runtime.errors import TesseraError
from tessera_runtime.kube.api import Kube
from tessera_schema import subjects

_UPDATE_S: Final = 20.0
"""Seconds between two reads of the API server. What a pod uses before the first one that has it
counts as not measured."""
_PAUSE_TIMES: Final = 10
"""Times that a read took, for which the API server is left alone after it: a large cluster is read
less often."""
_HOUR_S: Final = 3600.0


async def record(options: argparse.Namespace) -> None:
    """Record until interrupted, or for as long as the options say. Raises CommandError."""
    bus = bus_of(options)
    registry = settings.registry(options.config)
    target = kubeconfig.target(options)
    name = "tessera-report-cli"
    async with open_cluster(target, name=name, error=HoldersUnreadable) as cluster:
        served = await served_by(bus, options.nats_cluster, options=bus_reader.NATS_OPTIONS)
        bus = replace(bus, cluster=served or bus.cluster)
        header = RecordingHeader(cluster=bus.cluster, period_s=options.period)
        with open_recording(options.record, header) as file:
            await _record(options, bus, cluster.kube, registry, file)


async def _record(
    options: argparse.Namespace, bus: BusSettings, kube: Kube, registry: DialectRegistry,
    file: BinaryIO,
) -> None:  # fmt: skip
    clock = SystemClock()
    recorder = UsageRecorder(registry, bus.cluster, file.write, clock.time())
    recorder.update(await read_holders(kube, registry), clock.time())
    print_notice(f"recording to {options.record}: interrupt it to stop")
    try:
        async with (
            running_in_background(_follow(recorder, bus), "follow"),
            running_in_background(
                _update(recorder, kube, registry, min(_UPDATE_S, options.period)), "update"
            ),
            running_in_background(_cut(recorder, file, options.period), "cut"),
        ):
            await _stopped(options.hours)
    finally:
        recorder.cut(clock.time())
    doubts = ", ".join(f"{number} {doubt}" for doubt, number in recorder.doubts.items())
    print_notice(
        f"{recorder.messages} messages in {recorder.digests} lines"
        + (f"; reports or parts that did not count: {doubts}" if doubts else "")
    )


async def _follow(recorder: UsageRecorder, bus: BusSettings) -> None:
    async with (
        open_bus(bus, "cli", "report") as opened,
        opened.subscribe(subjects.usage(bus.cluster, "*")) as messages,
    ):
        async for message in messages:
            recorder.receive(message)


async def _update(
    recorder: UsageRecorder, kube: Kube, registry: DialectRegistry, every_s: float
) -> None:
    now, took_s = asyncio.get_running_loop().time, 0.0
    while True:
        await asyncio.sleep(max(every_s, _PAUSE_TIMES * took_s))
        began = now()
        try:
            recorder.update(await read_holders(kube, registry), SystemClock().time())
            took_s = now() - began
        except TesseraError as e:
            print_notice(f"the API server is away, recording goes on: {e}")


async def _cut(recorder: UsageRecorder, file: BinaryIO, every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        recorder.cut(SystemClock().time())
        file.flush()


async def _stopped(hours: float) -> None:
    """Wait for an interrupt, or until the hours are over."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with suppress(TimeoutError):
        async with asyncio.timeout(None if hours == math.inf else hours * _HOUR_S):
            await stop.wait()
