"""The lists that NVML returns, read as numbers: pynvml asks for each list's length first, and makes
an object of every item, which takes longer than the driver does.

Blocking, of one thread, as all of NVML.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref, c_uint, c_ulonglong, create_string_buffer
from struct import Struct as Packed
from typing import Any, Final

import pynvml as nvml  # type: ignore[import-untyped]  # it publishes no types

from tessera_agent.readers.nvml_samples import ProcessSample

_PROCESS: Final = Packed("=I4xQ8x")
"""`nvmlProcessInfo_t`: process, bytes, instances."""
_PROCESS_SAMPLE: Final = Packed("=I4xQI12x")
"""`nvmlProcessUtilizationSample_t`: process, stamp, percent of the SMs, of others."""
_SAMPLE: Final = Packed("=QI4x")
"""`nvmlSample_t`: stamp, value."""
_NOT_SAID: Final = (1 << 64) - 1
_AT_FIRST: Final = 128
"""Items for which there is room."""


class NvmlLists:
    """Reads lists into the same room again and again."""

    def __init__(self) -> None:
        self._room = create_string_buffer(_AT_FIRST * _PROCESS_SAMPLE.size)
        self._sample_counts: dict[int, int] = {}
        """Card -> the most samples that the driver keeps of it."""

    def processes(self, handle: Any, function: str) -> list[tuple[int, int]]:
        """Process and bytes of memory, by one of the functions that list running processes."""
        call = nvml._nvmlGetFunctionPointer(function)
        found = self._filled(_PROCESS, lambda room, count: call(handle, count, room))
        return [(pid, 0 if held == _NOT_SAID else held) for pid, held in found]

    def process_samples(self, handle: Any, since_us: int) -> list[ProcessSample]:
        """The samples of processes that are newer than the stamp."""
        call = nvml._nvmlGetFunctionPointer("nvmlDeviceGetProcessUtilization")
        since = c_ulonglong(since_us)
        found = self._filled(_PROCESS_SAMPLE, lambda room, count: call(handle, room, count, since))
        return [ProcessSample(stamp, pid, percent) for pid, stamp, percent in found if pid]

    def busy_samples(self, handle: Any, number: int, since_us: int) -> list[tuple[int, int]]:
        """Stamps and percentages of the card's own utilisation since the stamp. `number` is the
        card's."""
        call = nvml._nvmlGetFunctionPointer("nvmlDeviceGetSamples")
        kind, since = c_uint(nvml.NVML_GPU_UTILIZATION_SAMPLES), c_ulonglong(since_us)
        form = byref(c_uint())
        if number not in self._sample_counts:
            count = c_uint(0)
            nvml._nvmlCheckReturn(call(handle, kind, since, form, byref(count), None))
            self._sample_counts[number] = count.value
        found = self._filled(
            _SAMPLE, lambda room, count: call(handle, kind, since, form, count, room),
            self._sample_counts[number],
        )  # fmt: skip
        return [(stamp, min(percent, 100)) for stamp, percent in found]

    def _filled(
        self, item: Packed, call: Callable[[Any, Any], int], least: int = 0
    ) -> list[tuple[int, ...]]:
        """What `call` writes, into room for `least` items at least. Raises pynvml.NVMLError."""
        while True:
            if least * item.size > len(self._room):
                self._room = create_string_buffer(least * item.size)
            there = len(self._room) // item.size
            count = c_uint(there)
            result = call(self._room, byref(count))
            if result == nvml.NVML_ERROR_INSUFFICIENT_SIZE and count.value > there:
                least = 2 * count.value
                continue
            nvml._nvmlCheckReturn(result)
            return list(item.iter_unpack(memoryview(self._room)[: count.value * item.size]))
