"""NVIDIA's cards, read through NVML in a thread of its own.

The driver may be reloaded while the agent runs: a session that fails is closed, and the next poll
opens another. A library that is older than the driver it finds stays so until the process loads it
again; the message says so. Where there is no library, files say what they can (`nvidia_machines`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import pynvml as nvml  # type: ignore[import-untyped]  # it publishes no types

from tessera_agent.readers import DriverSilent, NodeSource, ReaderSettings
from tessera_agent.readers.nvidia_devices import vendor_devices
from tessera_agent.readers.nvidia_machines import read_machine
from tessera_agent.readers.nvml import NvmlSession
from tessera_agent.readers.single_thread import Hanging, OneThread, one_thread
from tessera_core.dialect_kit.readings import Readings
from tessera_core.registry.registry import DialectRegistry
from tessera_runtime import logs
from tessera_runtime.clock import Clock

__all__ = ["NvmlReader", "open_reader", "vendor_devices"]
_log: Final = logs.named("tessera.agent.nvml")


class NvmlReader:
    """Polls NVML, opening it whenever it is not open."""

    def __init__(self, thread: OneThread, settings: ReaderSettings, clock: Clock) -> None:
        self._thread = thread
        self._settings = settings
        self._clock = clock
        self._session: NvmlSession | None = None
        self._sessions = 0

    async def poll(self, *, times_only: bool = False) -> Readings | DriverSilent:
        """See `CardReader.poll`."""
        try:
            work = partial(self._poll, times_only=times_only)
            answer = await self._thread.call(work, self._settings.call_s)
        except Hanging as e:
            return DriverSilent(why=str(e), hanging=True)
        if self._session is not None:
            self._session.delivered = True
        return answer

    def _poll(self, *, times_only: bool) -> Readings | DriverSilent:
        try:
            if self._session is None:
                self._sessions += 1
                self._session = NvmlSession(
                    self._settings.library, self._settings.system_folder, self._clock,
                    self._sessions,
                )  # fmt: skip
            return self._session.poll(times_only=times_only)
        except nvml.NVMLError as e:
            self.close()
            missing = e.value == nvml.NVML_ERROR_LIBRARY_NOT_FOUND
            return self._without_nvml(DriverSilent(why=_reason(e), missing=missing))
        except OSError as e:
            silent = DriverSilent(why=f"{e}: name the driver's library", missing=True)
            return self._without_nvml(silent)
        except Exception as e:  # noqa: BLE001  (any failure of a driver's library is an answer)
            self.close()
            _log.alert("nvml answers nonsense", exc=e)
            return DriverSilent(why=f"its library answers nonsense: {e}")

    def _without_nvml(self, silent: DriverSilent) -> Readings | DriverSilent:
        if not silent.missing:
            return silent
        return read_machine(self._settings.root, self._settings) or silent

    def close(self) -> None:
        """Close the driver. Blocks: call it in the reader's thread."""
        if self._session is not None:
            self._session.close()
            self._session = None


def _reason(error: nvml.NVMLError) -> str:
    if error.value == nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return (
            "the driver was changed while its library was in use: restart the agent, and the pods "
            "that were given the old library"
        )
    if error.value == nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return "libnvidia-ml.so.1 is not there: install the driver, or name its library's path"
    return f"NVML: {error}"


@asynccontextmanager
async def open_reader(
    settings: ReaderSettings, node: NodeSource, registry: DialectRegistry, clock: Clock
) -> AsyncGenerator[NvmlReader]:
    """A reader, which opens the driver at the first poll. It needs neither node nor registry."""
    del node, registry
    async with one_thread("nvml") as thread:
        reader = NvmlReader(thread, settings, clock)
        try:
            yield reader
        finally:
            thread.send(reader.close)
