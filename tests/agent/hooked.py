"""A process under the hook, on a simulated card, that obeys its input: `alloc <MiB>` on a line
of its own, answered with the driver's result."""

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.agent.machine import SIM, built

SCRIPT = """
import ctypes, sys
cu = ctypes.CDLL("libcuda.so.1")
context, at = ctypes.c_void_p(), ctypes.c_uint64()
assert cu.cuInit(0) == 0 and cu.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
print("ready", flush=True)
for line in sys.stdin:
    size = ctypes.c_size_t(int(line.split()[1]) << 20)
    print(cu.cuMemAlloc_v2(ctypes.byref(at), size), flush=True)
"""


class Hooked:
    """The process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def alloc(self, mib: int) -> int:
        """The driver's result: 0, or 2 for out of memory."""
        self._request(mib)
        return self.answer()

    def waits(self, mib: int) -> bool:
        """Whether an allocation has no answer for a while; `answer` it then."""
        self._request(mib)
        assert self.process.stdout is not None
        if select.select([self.process.stdout], [], [], 0.5)[0]:
            self.answer()
            return False
        return True

    def answer(self) -> int:
        """Of the allocation that was asked for last."""
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def _request(self, mib: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"alloc {mib}\n")
        self.process.stdin.flush()


@contextmanager
def hooked(machine: Path, limits: Path, usage: Path) -> Iterator[Hooked]:
    """A process whose limits and usage are these files, on the machine of that name."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={
            **os.environ,  # noqa: TID251  (the new process's own)
            "LD_PRELOAD": str(built("libtessera.so")), "LD_LIBRARY_PATH": str(SIM),
            "TESSERA_LIMITS": str(limits), "TESSERA_USAGE": str(usage),
            "TESSERA_SIM_STATE": str(machine), "TESSERA_SIM_CONFIG": "cards=1 memory=16g",
        },
    )  # fmt: skip
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield Hooked(process)
    finally:
        process.kill()
        process.communicate()
