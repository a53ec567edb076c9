"""The parts. Each does what shows most first, and leaves the rest out when its time is over."""

import contextlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from bench import LEFT_OUT, RIGHT, SEEN, WRONG
from tenants import Tenants

HERE = Path(__file__).parent
SHARE_MIB = 4096


def routing(bench):
    """Does the driver's lookup hand out what dlsym finds, and under the hook nothing but the hook's? Then what resets and IPC do."""
    bench.checks("bare", [bench.probe, "routing"], 60)
    bench.checks("hooked", [bench.probe, "routing"], 60, bench.container("routing", f"memory={SHARE_MIB}"))
    bench.checks("resets", [bench.probe, "resets"], 120, bench.container("resets", f"memory={SHARE_MIB}"))
    handles = 50 if bench.quick else 1200
    bench.checks("sharing", [bench.probe, "sharing", str(handles)], 120, bench.container("sharing", f"memory={SHARE_MIB}"))
    info = bench.container("gaps", f"memory={SHARE_MIB}")
    process = bench.start([bench.probe, "hold", "64", "30"], info)
    process.stdout.readline()
    said = subprocess.run(
        [f"{bench.build}/tessera-hook-info", "--limits", info["TESSERA_LIMITS"], "--usage", info["TESSERA_USAGE"]],
        check=False, capture_output=True, text=True,
    ).stdout  # fmt: skip
    slot = next((line.strip() for line in said.splitlines() if ": pid " in line), "")
    process.kill()
    process.communicate()
    bench.row("no_gap", RIGHT if slot and "[" not in slot else WRONG, slot or "no slot")


def memory(bench):
    """What a share refuses and gives back; then, without the hook, in what pieces the card's memory goes."""
    bench.checks("share", [bench.probe, "memory", str(SHARE_MIB)], 60, bench.container("memory", f"memory={SHARE_MIB}"))
    bench.checks("card", [bench.probe, "whole"], 120)


BUDGETS_NS = {"launch": 20, "memory_info": None, "alloc_free_at_10000_live": 220, "alloc_free_4k": 220, "graph_launch_of_10": 500}
"""What the hook may add to a call: 20 ns to a launch, 110 ns to each of an allocation and a free. Others are only seen."""


def cost(bench):
    """What calls cost bare and hooked, in turns."""
    got = bench.paired("calls", [bench.probe, "cost", "3" if bench.quick else "15"], 120, bench.container("cost", "memory=8192", "permille=990"))
    for key, (bare, hooked) in (got or {}).items():
        name = key.removesuffix("_ns")
        most = BUDGETS_NS.get(name)
        if name == "memory_info":
            bench.budget("memory_info_ns", hooked, 15)
        elif most is not None:
            bench.budget(f"{name}_added_ns", hooked - bare, most)
        else:
            bench.row(key, SEEN, f"bare {bare:.1f}, hooked {hooked:.1f}")


def cores(bench):
    """Shares of GPU time: one container, then several, with an agent's stand-in that measures; error in points, against 3."""
    tenants = Tenants(bench)
    seconds = 1 if bench.quick else 6
    lengths = (1000,) if bench.quick else (1000, 50, 5, 20000, 500000, 2000000)
    for us in lengths:
        for processes in (1, 2, 4):
            tenants.measure(f"1x{processes}.{us}us", [50], processes, us, seconds)
    for us in lengths:
        for shares in ([50, 50], [30, 70], [25] * 4):
            for processes in (1, 4) if len(shares) == 4 else (1,):
                tenants.measure(f"{len(shares)}x{processes}.{'_'.join(map(str, shares))}.{us}us", shares, processes, us, seconds)
    for extra in (["sync", "1", "all"], ["async", "1", "one"], ["async", "4", "one"], ["async", "1", "all", "graph"]):
        tenants.measure(f"1x1.{'_'.join(extra)}.1000us", [50], 1, 1000, seconds, extra)


def torch(bench):
    """PyTorch bare, in a share, and at half of the card: three allocators, graphs. Steps a second, and what is refused."""
    if importlib.util.find_spec("torch") is None:
        bench.row("torch", LEFT_OUT, "not installed")
        return
    script = [sys.executable, str(HERE / "train.py")]
    seconds = "1" if bench.quick else "4"
    whole, half = bench.container("share", "memory=6144"), bench.container("half", "memory=6144", "cores=50")
    for variant in ("eager", "graphs"):
        got = bench.paired(variant, [*script, variant, seconds], 120, whole)
        if got:
            bare, hooked = got["images_per_second"]
            bench.budget(f"{variant}_slower_pct", 100 * (1 - hooked / bare) if bare else 0.0, 2)
        got = bench.lines([*script, variant, seconds], 120, half)
        bench.row(f"{variant}_at_half", SEEN if got else WRONG, got and got["images_per_second"])
    for name, value in (("expandable", "expandable_segments:True"), ("malloc_async", "backend:cudaMallocAsync")):
        got = bench.lines([*script, "eager", seconds], 120, {**whole, "PYTORCH_CUDA_ALLOC_CONF": value})
        bench.row(name, RIGHT if got and got["over_the_limit"] == "refused" else WRONG, got and got["over_the_limit"])


def nvml(bench):
    """What NVML shows bare and in a share, and whether it measures processes at all."""
    bench.checks("bare", [bench.probe, "view"], 60)
    got = bench.checks("share", [bench.probe, "view"], 60, bench.container("view", f"memory={SHARE_MIB}"))
    for key in ("driver_total_mib", "nvml_v1_total_mib", "nvml_v2_total_mib"):
        if got and key in got:
            bench.row(f"share_is_{key}", RIGHT if int(got[key]) == SHARE_MIB else WRONG, got[key], SHARE_MIB)
    with contextlib.suppress(OSError):
        bench.row("measures_processes", SEEN, Tenants(bench).says_of_itself())
    if subprocess.run(["sh", "-c", "command -v nvidia-smi"], check=False, capture_output=True).returncode == 0:
        env = {**os.environ, **bench.container("smi", f"memory={SHARE_MIB}")}
        said = subprocess.run(
            ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"], env=env, check=False, capture_output=True, text=True, timeout=30
        ).stdout.strip()
        bench.row("smi_total_mib", RIGHT if said == str(SHARE_MIB) else WRONG, said, SHARE_MIB)


def mps(bench):
    """With a daemon of MPS (where it can be started): shares hold, and two containers run side by side."""
    control = subprocess.run(["sh", "-c", "command -v nvidia-cuda-mps-control"], check=False, capture_output=True)
    simulated = "mps=1" in os.environ.get("TESSERA_SIM_CONFIG", "")
    if control.returncode != 0 and not simulated:
        bench.row("mps", LEFT_OUT, "there is no nvidia-cuda-mps-control")
        return
    pipes = bench.out / "mps"
    pipes.mkdir(exist_ok=True)
    os.environ.update(CUDA_MPS_PIPE_DIRECTORY=str(pipes), CUDA_MPS_LOG_DIRECTORY=str(pipes))
    if not simulated:
        subprocess.run(["nvidia-cuda-mps-control", "-d"], check=False, timeout=30)
    try:
        bench.checks("share", [bench.probe, "memory", str(SHARE_MIB)], 60, bench.container("memory", f"memory={SHARE_MIB}"))
        bench.row("measures_processes", SEEN, Tenants(bench).says_of_itself())
        Tenants(bench).measure("2x1.40_40.1000us", [40, 40], 1, 1000, 1 if bench.quick else 6, bounded=False)
    finally:
        if not simulated:
            subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, check=False, timeout=30)
        for name in ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"):
            os.environ.pop(name, None)
