"""The stand-in for the CUDA runtime on the simulated driver, without the hook and in a share of 1,024 MiB (argument: the share in MiB)."""

import ctypes
import sys

MIB = 1 << 20
SHARE = int(sys.argv[1])
rt = ctypes.CDLL("libcudart.so.13")
SIZE, POINTER = ctypes.c_size_t, ctypes.c_void_p


def must(name, *arguments):
    """A call that succeeds."""
    answer = getattr(rt, name)(*arguments)
    assert answer == 0, (name, answer)


def free_mib():
    """What is free, in MiB."""
    free, total = SIZE(), SIZE()
    must("cudaMemGetInfo", ctypes.byref(free), ctypes.byref(total))
    assert total.value == SHARE * MIB, total.value
    return free.value // MIB


count, version, p, q = ctypes.c_int(), ctypes.c_int(), POINTER(), POINTER()
must("cudaGetDeviceCount", ctypes.byref(count))
must("cudaRuntimeGetVersion", ctypes.byref(version))
assert (count.value, version.value) == (1, 13020)
must("cudaSetDevice", 0)
base = free_mib()

# memory: up to the limit, the error is kept once, and a reset gives everything back
must("cudaMalloc", ctypes.byref(p), SIZE(600 * MIB))
assert rt.cudaMalloc(ctypes.byref(q), SIZE((SHARE - 500) * MIB)) == 2
assert (rt.cudaPeekAtLastError(), rt.cudaGetLastError(), rt.cudaGetLastError()) == (2, 2, 0)
assert free_mib() == base - 600
must("cudaFree", p)
must("cudaMalloc", ctypes.byref(p), SIZE(0))
assert p.value is None
must("cudaMallocAsync", ctypes.byref(p), SIZE(64 * MIB), None)
must("cudaFreeAsync", p, None)
must("cudaDeviceSynchronize")
assert free_mib() == base

# contents, streams and events
there, back = ctypes.create_string_buffer(b"over and back"), ctypes.create_string_buffer(16)
stream, begin, end, ms = POINTER(), POINTER(), POINTER(), ctypes.c_float()
must("cudaStreamCreateWithPriority", ctypes.byref(stream), 1, -1)
must("cudaEventCreate", ctypes.byref(begin))
must("cudaEventCreate", ctypes.byref(end))
must("cudaMalloc", ctypes.byref(p), SIZE(4096))
must("cudaEventRecord", begin, stream)
must("cudaMemcpyAsync", p, there, SIZE(14), 1, stream)
must("cudaMemcpyAsync", back, p, SIZE(14), 2, stream)
must("cudaEventRecord", end, stream)
must("cudaStreamSynchronize", stream)
must("cudaEventElapsedTime", ctypes.byref(ms), begin, end)
assert back.value == b"over and back"

# a graph of a fill
graph, execution = POINTER(), POINTER()
must("cudaStreamBeginCapture", stream, 2)
must("cudaMemsetAsync", p, ord("x"), SIZE(4), stream)
must("cudaStreamEndCapture", stream, ctypes.byref(graph))
must("cudaGraphInstantiate", ctypes.byref(execution), graph, ctypes.c_ulonglong(0))
must("cudaGraphLaunch", execution, stream)
must("cudaMemcpy", back, p, SIZE(14), 2)
assert back.value == b"xxxx and back"

# the driver's functions by name and version
found, status = POINTER(), ctypes.c_int()
must("cudaGetDriverEntryPointByVersion", b"cuMemAlloc", ctypes.byref(found), 12000, ctypes.c_ulonglong(0), ctypes.byref(status))
assert found.value and status.value == 0
must("cudaGetDriverEntryPointByVersion", b"cuNothing", ctypes.byref(found), 12000, ctypes.c_ulonglong(0), ctypes.byref(status))
assert not found.value and status.value == 1

must("cudaMalloc", ctypes.byref(p), SIZE(300 * MIB))
must("cudaDeviceReset")
assert free_mib() == base
