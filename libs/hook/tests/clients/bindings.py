"""cuda-bindings and nvidia-ml-py, which nobody here wrote, see the limits: 1,024 MiB."""

import pynvml
from cuda.bindings import driver as cu

MIB = 1 << 20


def must(answer):
    """Return what the call gave, which must have succeeded."""
    code, *rest = answer
    assert code == cu.CUresult.CUDA_SUCCESS, code
    return rest[0] if len(rest) == 1 else rest


must(cu.cuInit(0))
context = must(cu.cuDevicePrimaryCtxRetain(0))
must(cu.cuCtxSetCurrent(context))
free, total = must(cu.cuMemGetInfo())
assert total == 1024 * MIB, total
pointer = must(cu.cuMemAlloc(600 * MIB))
assert cu.cuMemAlloc(600 * MIB)[0] == cu.CUresult.CUDA_ERROR_OUT_OF_MEMORY
assert must(cu.cuMemGetInfo())[0] == 424 * MIB
pynvml.nvmlInit()
device = pynvml.nvmlDeviceGetHandleByIndex(0)
memory = pynvml.nvmlDeviceGetMemoryInfo(device)
assert (memory.total, memory.used, memory.free) == (1024 * MIB, 600 * MIB, 424 * MIB), memory
assert [p.usedGpuMemory for p in pynvml.nvmlDeviceGetComputeRunningProcesses(device)] == [600 * MIB]
must(cu.cuMemFree(pointer))
assert must(cu.cuMemGetInfo())[0] == 1024 * MIB
print("cuda-bindings and nvidia-ml-py see the tile")
