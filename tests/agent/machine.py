"""What tests of the agent run against: built parts of the hook, simulated machines, and an NVML
whose cards fail on demand."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "libs/hook/build"
SIM = BUILD / "sim"
NVML = SIM / "libnvidia-ml.so.1"


def built(name: str) -> Path:
    """A file that the hook's makefile makes; made now if it is not there, by one of the processes
    that run tests, while the others wait."""
    path = BUILD / name
    with (ROOT / "libs" / "hook" / "Makefile").open() as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        if not path.exists():
            make = ["make", "-s", f"-j{os.cpu_count()}", "-C", "libs/hook"]
            subprocess.run([*make, "all", "sim"], cwd=ROOT, check=True)
    return path


def a_failing_nvml(folder: Path) -> Path:
    """The library of faultynvml.c."""
    made = folder / "libnvidia-ml.so.1"
    source = Path(__file__).with_name("faultynvml.c")
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-w", "-o", str(made), str(source)], check=True
    )  # fmt: skip
    return made


class Poller:
    """A process that polls a management library whenever it is asked."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def poll(self, what: str = "next") -> dict[str, Any]:
        """The next answer, as JSON; to `times` one that is new in times of processes alone."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = msgspec.json.decode(self._process.stdout.readline())[what]
        return answer


@contextmanager
def polling(
    library: Path, environ: Mapping[str, str], *, system: str = "/nowhere", call_s: float = 10
) -> Iterator[Poller]:
    """A poller on this library."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("poll_nvml.py")), str(library), system,
         str(call_s)],
        env={**os.environ, **environ},  # noqa: TID251  (the new process's own)
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield Poller(process)
    finally:
        process.stdin.close()  # type: ignore[union-attr]  # it is a pipe
        process.wait(60)
        process.stdout.close()  # type: ignore[union-attr]  # it is a pipe
