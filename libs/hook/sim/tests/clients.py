"""Clients that nobody here wrote, on the simulated driver: cuda-bindings and nvidia-ml-py allocate, run out of memory and list cards."""

import ctypes
import os

import pynvml
from cuda.bindings import driver

MIB = 1 << 20


def ok(result):
    assert result[0] == driver.CUresult.CUDA_SUCCESS, result
    return result[1] if len(result) == 2 else result[1:]


ok(driver.cuInit(0))
assert ok(driver.cuDeviceGetCount()) == 2
device = ok(driver.cuDeviceGet(1))
assert ok(driver.cuDeviceGetName(64, device)).split(b"\0")[0] == b"Tessera Simulated GPU"
context = ok(driver.cuDevicePrimaryCtxRetain(device))
ok(driver.cuCtxSetCurrent(context))
free, total = ok(driver.cuMemGetInfo())
assert (free, total) == ((1024 - 100) * MIB, 1024 * MIB), (free, total)
pointer = ok(driver.cuMemAlloc(900 * MIB))
assert driver.cuMemAlloc(100 * MIB)[0] == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY
assert ok(driver.cuMemGetInfo())[0] == 24 * MIB
data = bytearray(b"written by a client")
ok(driver.cuMemcpyHtoD(pointer, bytes(data), len(data)))
back = bytearray(len(data))
ok(driver.cuMemcpyDtoH(back, pointer, len(back)))
assert back == data
stream = ok(driver.cuStreamCreate(0))
asynchronous = ok(driver.cuMemAllocAsync(4 * MIB, stream))
ok(driver.cuMemFreeAsync(asynchronous, stream))
ok(driver.cuStreamSynchronize(stream))
ok(driver.cuMemFree(pointer))

module = ok(driver.cuModuleLoadData(b"tessera-sim-module\nkernel k ns=arg0\n"))
function = ok(driver.cuModuleGetFunction(module, b"k"))
start, end = (ok(driver.cuEventCreate(0)) for _ in range(2))
ok(driver.cuEventRecord(start, stream))
ok(driver.cuLaunchKernel(function, 200, 1, 1, 256, 1, 1, 0, stream, ((3_000_000,), (ctypes.c_uint64,)), 0))
ok(driver.cuEventRecord(end, stream))
ok(driver.cuEventSynchronize(end))
assert abs(ok(driver.cuEventElapsedTime(start, end)) - 3.0) < 0.01

ok(driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
ok(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, ((5_000,), (ctypes.c_uint64,)), 0))
graph = ok(driver.cuStreamEndCapture(stream))
executable = ok(driver.cuGraphInstantiate(graph, 0))
ok(driver.cuGraphLaunch(executable, stream))
ok(driver.cuStreamSynchronize(stream))

prop = driver.CUmemAllocationProp()
prop.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
prop.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
prop.location.id = 1
handle = ok(driver.cuMemCreate(20 * MIB, prop, 0))
address = ok(driver.cuMemAddressReserve(20 * MIB, 0, 0, 0))
ok(driver.cuMemMap(address, 20 * MIB, 0, handle, 0))
ok(driver.cuMemRelease(handle))
assert ok(driver.cuMemGetInfo())[0] == (924 - 20) * MIB
ok(driver.cuMemUnmap(address, 20 * MIB))
assert ok(driver.cuMemGetInfo())[0] == 924 * MIB

pynvml.nvmlInit()
assert pynvml.nvmlDeviceGetCount() == 2
card = pynvml.nvmlDeviceGetHandleByIndex(1)
assert pynvml.nvmlDeviceGetName(card) == "Tessera Simulated GPU"
uuid = ok(driver.cuDeviceGetUuid(device)).bytes.hex()
assert pynvml.nvmlDeviceGetUUID(card).replace("-", "")[3:] == uuid
assert pynvml.nvmlDeviceGetMemoryInfo(card).used == 100 * MIB
assert pynvml.nvmlDeviceGetMemoryInfo(card, version=pynvml.nvmlMemory_v2).used == 100 * MIB
assert [(p.pid, p.usedGpuMemory) for p in pynvml.nvmlDeviceGetComputeRunningProcesses(card)] == [(os.getpid(), 100 * MIB)]
assert pynvml.nvmlSystemGetDriverVersion() == "570.86.15"
assert pynvml.nvmlSystemGetCudaDriverVersion() == 12080
assert pynvml.nvmlDeviceGetPciInfo(card).busId == "00000000:0F:00.0"
pynvml.nvmlShutdown()
print("ok")
