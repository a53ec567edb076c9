"""Runs real programs on the simulated driver, each without and with the hook, and reports a line a step.

Usage: run.py BUILD PYTHON [words: only programs whose names have one of them]
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
CARD = "GPU-00a2f344-95e6-3788-d92a-7bcc1d6ebf10"
MACHINE = "cards=1 memory=16g cuda=13020 driver=580.95.05 capability=90"
LIMIT_S = int(os.environ.get("TORCH_TEST_TIMEOUT", "900"))
"""Seconds of one program."""

CONFIG = "PYTORCH_CUDA_ALLOC_CONF"
PROGRAMS = {
    "native": ("allocators.py", {}, ""),
    "expandable": ("allocators.py", {CONFIG: "expandable_segments:True"}, ""),
    "malloc_async": ("allocators.py", {CONFIG: "backend:cudaMallocAsync"}, ""),
    "processes": ("processes.py", {}, ""),
    "resizes": ("resizes.py", {}, "kernel_ns=1000000"),
    "kernels": ("kernels.py", {}, ""),
    "numba": ("numba_programs.py", {}, ""),
    "monitors": ("monitors.py", {}, ""),
}


def environment(build, folder, hooked, extra, words):
    """A container's environment: a share of 4,096 MiB, or the card itself."""
    runtime = f"{build}/cudart/libcudart.so.13"
    return {
        **os.environ,
        "TORCH_TEST_HOOKED": str(int(hooked)),
        "TORCH_TEST_TOOL": f"{build}/tessera-limits",
        "TORCH_TEST_INFO": f"{build}/tessera-hook-info",
        "TORCH_TEST_CARD": CARD,
        "TESSERA_SIM_STATE": str(folder / "machine"),
        "TESSERA_SIM_CONFIG": f"{MACHINE} {words}",
        "TESSERA_LIMITS": str(folder / "limits"),
        "TESSERA_USAGE": str(folder / "usage"),
        "LD_LIBRARY_PATH": f"{build}/sim",
        "LD_PRELOAD": f"{build}/libtessera.so {runtime}" if hooked else runtime,
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "OMP_NUM_THREADS": "2",
        **extra,
    }


def run(build, python, name, hooked):
    """One program: its steps, as {step: (outcome, seconds)}, and what it said on standard error."""
    script, extra, words = PROGRAMS[name]
    with tempfile.TemporaryDirectory(prefix="tessera-torch-") as made:
        folder = Path(made)
        env = environment(build, folder, hooked, extra, words)
        quiet = {**env, "LD_PRELOAD": ""}
        subprocess.run([env["TORCH_TEST_TOOL"], env["TESSERA_LIMITS"], f"card={CARD}", "memory=4096"], check=True, env=quiet)
        with (folder / "errors").open("w+") as errors:
            process = subprocess.Popen(
                [python, str(HERE / script)], env=env, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
            )
            try:
                output, _ = process.communicate(timeout=LIMIT_S)
                ended = process.returncode
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, _ = process.communicate()
                ended = f"not within {LIMIT_S} s"
            errors.seek(0)
            said = errors.read()
        rows = [line.split("\t") for line in output.splitlines()]
        steps = {row[1]: ("FAIL", 0.0) for row in rows if row[0] == "plan"}
        steps.update({row[3]: (row[1], float(row[2])) for row in rows if row[0] == "step"})
        steps["it ends, and leaves nothing charged"] = ("ok" if ended == 0 and not (hooked and charged(env)) else "FAIL", 0.0)
        if ended != 0:
            said += f"\nended with {ended}\n"
        return steps, said


LATER = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
print(total.value - free.value >> 20)
"""


def charged(env):
    """MiB of the share that the next process of the container finds taken."""
    return int(subprocess.run([sys.executable, "-c", LATER], check=True, capture_output=True, text=True, env=env).stdout)


def main():
    """Run all, and report."""
    build, python, *words = sys.argv[1:]
    names = [name for name in PROGRAMS if not words or any(word in name for word in words)]
    failed, report, begun = 0, {}, time.monotonic()
    for name in names:
        bare, said_bare = run(build, python, name, hooked=False)
        hooked, said = run(build, python, name, hooked=True)
        for step in {**bare, **hooked}:
            first, second = bare.get(step, ("FAIL", 0.0)), hooked.get(step, ("FAIL", 0.0))
            good = first[0] == second[0] == "ok"
            failed += not good
            report[f"{name}: {step}"] = {"bare": first, "hooked": second}
            print(f"{'ok  ' if good else 'FAIL'} {name}: {step}   bare {first[0]} {first[1]:.1f} s, hooked {second[0]} {second[1]:.1f} s", flush=True)
        for label, steps, text in (("without", bare, said_bare), ("under", hooked, said)):
            if any(outcome != "ok" for outcome, _ in steps.values()):
                print(f"--- {name} {label} the hook:\n{text[-6000:]}", file=sys.stderr, flush=True)
    print(f"{len(report) - failed} of {len(report)} steps passed in {time.monotonic() - begun:.0f} s")
    if out := os.environ.get("TORCH_TEST_REPORT"):
        Path(out).write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
