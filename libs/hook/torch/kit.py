"""What the programs of this folder share: steps, the size of the share, and the machine's own figures."""

import ctypes
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path

MIB = 1 << 20
HOOKED = os.environ.get("TORCH_TEST_HOOKED") == "1"
CARD = 16384
"""MiB of the simulated card."""
CONTEXT = 300
"""MiB that a process takes by itself: on the card, and outside of its share."""
SHARE = 4096 if HOOKED else CARD
ROOM = 4096 if HOOKED else CARD - CONTEXT
"""What a process alone may allocate."""

STEPS = []


def step(text):
    """A function that is one line of the report."""
    def keep(function):
        STEPS.append((text, function))
        return function
    return keep


def near(value, wanted, slack):
    """The value, which must be within `slack` of what is wanted."""
    assert abs(value - wanted) <= slack, f"{value}, not {wanted} (within {slack})"
    return value


def driver():
    """The simulated driver, whose extra functions say what is really on the card."""
    library = ctypes.CDLL("libcuda.so.1")
    for name in ("cuSimProcessUsed", "cuSimCardUsed", "cuSimBusy", "cuSimNow"):
        getattr(library, name).restype = ctypes.c_uint64
    return library


def bytes_on_card():
    """Bytes of this process on the card."""
    return driver().cuSimProcessUsed(0, os.getpid())


def limits(*words):
    """Write the share's limits again, as the agent does; without a hook nobody reads them."""
    subprocess.run(
        [os.environ["TORCH_TEST_TOOL"], os.environ["TESSERA_LIMITS"], "card=" + os.environ["TORCH_TEST_CARD"], *words], check=True
    )


def hook_info():
    """What the hook's files say."""
    return subprocess.run(
        [os.environ["TORCH_TEST_INFO"], "--limits", os.environ["TESSERA_LIMITS"], "--usage", os.environ["TESSERA_USAGE"]],
        check=True, capture_output=True, text=True, env={**os.environ, "LD_PRELOAD": ""},
    ).stdout  # fmt: skip


def no_gap():
    """The hook knows of nothing in this process that it does not enforce."""
    if not HOOKED:
        return
    mine = [line for line in hook_info().splitlines() if f": pid {os.getpid()} " in line]
    assert mine, "this process has no slot"
    assert "[" not in mine[0], mine[0]


def run():
    """Run the program's steps, one line each on standard output."""
    steps = [*STEPS, ("the hook reports no gap", no_gap)]
    for text, _ in steps:
        print(f"plan\t{text}", flush=True)
    for text, function in steps:
        begun = time.monotonic()
        try:
            function()
            outcome = "ok"
        except BaseException:
            traceback.print_exc()
            outcome = "FAIL"
        print(f"step\t{outcome}\t{time.monotonic() - begun:.1f}\t{text}", flush=True)


def python(*arguments, timeout=300):
    """Run another Python as this one was run; its output."""
    return subprocess.run([sys.executable, *map(str, arguments)], check=True, capture_output=True, text=True, timeout=timeout).stdout


HERE = Path(__file__).parent
