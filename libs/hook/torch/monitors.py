"""What monitoring tools show: nvidia-ml-py, gpustat and nvitop, next to a neighbour of 1,000 MiB outside of the share."""

import json
import os
import re
import subprocess
import sys

import pynvml
import torch

from kit import CONTEXT, HOOKED, MIB, SHARE, near, run, step

NEIGHBOUR = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
at, pointer = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(at), 0) == 0 and cuda.cuCtxSetCurrent(at) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1000 << 20)) == 0
print("ready", flush=True)
sys.stdin.read()
"""
neighbour = subprocess.Popen(
    [sys.executable, "-c", NEIGHBOUR], env={**os.environ, "LD_PRELOAD": ""}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
)
neighbour.stdout.readline()
held = torch.empty(700 * MIB, dtype=torch.uint8, device="cuda")
USED = 700 if HOOKED else 700 + CONTEXT + 1000 + CONTEXT
PIDS = {os.getpid()} if HOOKED else {os.getpid(), neighbour.pid}


@step("nvidia-ml-py: 700 MiB of the share, and the own process only")
def _pynvml():
    pynvml.nvmlInit()
    device = pynvml.nvmlDeviceGetHandleByIndex(0)
    for version in (None, pynvml.nvmlMemory_v2):
        memory = pynvml.nvmlDeviceGetMemoryInfo(device, version=version)
        assert (memory.total >> 20, memory.used >> 20) == (SHARE, USED), memory
    assert {p.pid for p in pynvml.nvmlDeviceGetComputeRunningProcesses(device)} == PIDS
    assert not pynvml.nvmlDeviceGetGraphicsRunningProcesses(device)


@step("gpustat: the same")
def _gpustat():
    said = subprocess.run([sys.executable, "-m", "gpustat", "--json"], check=True, capture_output=True, text=True).stdout
    card = json.loads(said)["gpus"][0]
    assert (card["memory.total"], card["memory.used"]) == (SHARE, USED), card
    assert {p["pid"] for p in card["processes"]} == PIDS, card["processes"]


@step("nvitop, the library: the same")
def _nvitop():
    import nvitop

    device = nvitop.Device(0)
    assert (device.memory_total() >> 20, device.memory_used() >> 20) == (SHARE, USED)
    assert set(device.processes()) == PIDS
    near(device.gpu_utilization(), 0, 100)


@step("nvitop, the program: its one page names the share")
def _page():
    said = subprocess.run(
        [sys.executable, "-m", "nvitop", "--once", "--no-unicode"], check=True, capture_output=True, text=True, env={**os.environ, "COLUMNS": "120", "LINES": "60", "TERM": "xterm"}
    ).stdout
    assert re.search(rf"\b{USED}(\.0)?MiB / {SHARE}MiB", said), said
    assert str(os.getpid()) in said, said
    assert (str(neighbour.pid) in said) == (not HOOKED), said


run()
neighbour.stdin.close()
neighbour.wait()
