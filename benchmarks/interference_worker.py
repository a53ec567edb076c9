"""One load on one card, as a process of its own: keeps the card's queue full, and says how fast.

    python benchmarks/interference_worker.py LOAD

It speaks to the CUDA driver alone (`libcuda.so.1`), real or simulated, and needs no toolkit: the
kernels are PTX, which the driver compiles. `compute` is arithmetic in registers, `bandwidth` reads
and writes 256 MiB, more than any cache holds, and `small` launches blocks so short that launching
is most of it. It prints `ready`, reads when to begin and to end in seconds of the monotonic clock,
and prints how many of its launches ended a second in between.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

SIMULATED: Final = b"cuSimJoin"
"""A function that only the simulated driver has."""
_THREADS: Final = 256
_BUFFER: Final = 256 << 20
_PTX: Final = b"""\
.version 6.0
.target sm_50
.address_size 64

.visible .entry arithmetic(.param .u64 data, .param .u32 turns)
{
    .reg .pred %p;
    .reg .f32 %f<4>;
    .reg .u32 %r<3>;
    .reg .u64 %d<3>;
    ld.param.u64 %d0, [data];
    ld.param.u32 %r0, [turns];
    mov.u32 %r1, %tid.x;
    cvt.rn.f32.u32 %f0, %r1;
    mov.f32 %f1, 0f3F7FFFF0;
    mov.f32 %f2, %f0;
    mov.f32 %f3, %f0;
AGAIN:
    fma.rn.f32 %f0, %f0, %f1, %f1;
    fma.rn.f32 %f2, %f2, %f1, %f1;
    fma.rn.f32 %f3, %f3, %f1, %f1;
    fma.rn.f32 %f0, %f0, %f1, %f1;
    sub.u32 %r0, %r0, 1;
    setp.ne.u32 %p, %r0, 0;
    @%p bra AGAIN;
    add.f32 %f0, %f0, %f2;
    add.f32 %f0, %f0, %f3;
    cvta.to.global.u64 %d0, %d0;
    mul.wide.u32 %d1, %r1, 4;
    add.u64 %d2, %d0, %d1;
    st.global.f32 [%d2], %f0;
    ret;
}

.visible .entry streaming(.param .u64 data, .param .u32 count)
{
    .reg .pred %p;
    .reg .f32 %f0;
    .reg .u32 %r<6>;
    .reg .u64 %d<3>;
    ld.param.u64 %d0, [data];
    ld.param.u32 %r0, [count];
    cvta.to.global.u64 %d0, %d0;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    mov.u32 %r5, %nctaid.x;
    mul.lo.u32 %r5, %r5, %r2;
AGAIN:
    setp.ge.u32 %p, %r4, %r0;
    @%p bra DONE;
    mul.wide.u32 %d1, %r4, 4;
    add.u64 %d2, %d0, %d1;
    ld.global.f32 %f0, [%d2];
    add.f32 %f0, %f0, 0f3F800000;
    st.global.f32 [%d2], %f0;
    add.u32 %r4, %r4, %r5;
    bra AGAIN;
DONE:
    ret;
}
"""


@dataclass(frozen=True)
class Kernel:
    """One launch of a load."""

    name: str
    blocks_per_sm: int
    """0 = one block on the whole card."""
    argument: int
    """Turns of the loop, or floats to go through."""
    queued: int
    """Launches in a batch; two batches are in the queue."""


KERNELS: Final[Mapping[str, Kernel]] = {
    "compute": Kernel("arithmetic", 8, 20_000, 8),
    "bandwidth": Kernel("streaming", 8, _BUFFER // 4, 8),
    "small": Kernel("arithmetic", 0, 16, 256),
}


class CudaFailed(Exception):
    """A call of the driver; the message says which, and its number."""


class CudaWorker:
    """A context on card 0 with a load's kernel."""

    def __init__(self, load: str) -> None:
        """Raises CudaFailed, and OSError where there is no driver."""
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self.kernel = KERNELS[load]
        self._call("cuInit", 0)
        device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        name = ctypes.create_string_buffer(128)
        self._call("cuDeviceGetName", name, len(name), device)
        sms = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(sms), 16, device)
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), _PTX)
        self._call(
            "cuModuleGetFunction", ctypes.byref(self._function), module, self.kernel.name.encode()
        )
        self._events = (ctypes.c_void_p(), ctypes.c_void_p())
        for event in self._events:
            self._call("cuEventCreate", ctypes.byref(event), 2)
        self._batches = 0
        self._data = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(self._data), ctypes.c_size_t(_BUFFER))
        self.device = name.value.decode()
        self.simulated = hasattr(self._cuda, SIMULATED.decode())
        self._blocks = max(1, sms.value * self.kernel.blocks_per_sm)
        self._number = ctypes.c_uint32(self.kernel.argument)
        self._arguments = (ctypes.c_void_p * 2)(
            ctypes.addressof(self._data), ctypes.addressof(self._number)
        )

    def run_batch(self) -> int:
        """Queue some launches and wait for those before them; how many that were."""
        one, none = ctypes.c_uint(1), ctypes.c_void_p()
        for _ in range(self.kernel.queued):
            self._call(
                "cuLaunchKernel", self._function, ctypes.c_uint(self._blocks), one, one,
                ctypes.c_uint(_THREADS), one, one, ctypes.c_uint(0), none, self._arguments, none,
            )  # fmt: skip
        now, before = self._events[self._batches % 2], self._events[1 - self._batches % 2]
        self._call("cuEventRecord", now, none)
        if self._batches:
            self._call("cuEventSynchronize", before)
        self._batches += 1
        return self.kernel.queued

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._cuda, name)(*arguments)
        if status:
            raise CudaFailed(f"{name} failed with {status}")


def rate_between(worker: CudaWorker, begins: float, ends: float) -> float:
    """Launches a second between two moments of the monotonic clock. It works before and after them
    as well, so that others are not alone while they are measured."""
    done, first, last = 0, time.monotonic(), begins
    while last < ends:
        launched, now = worker.run_batch(), time.monotonic()
        if now < begins:
            first = now
            continue
        done, last = done + launched, now
    while time.monotonic() < ends + 0.2:
        worker.run_batch()
    return done / (last - first) if done else 0.0


def main() -> int:
    """0, or 1 where the driver fails."""
    try:
        worker = CudaWorker(sys.argv[1])
        worker.run_batch()
        ready = {"device": worker.device, "simulated": worker.simulated}
        print(json.dumps(ready), flush=True)
        begins, ends = (float(word) for word in sys.stdin.readline().split())
        print(rate_between(worker, begins, ends), flush=True)
    except (OSError, CudaFailed) as e:
        print(e, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
