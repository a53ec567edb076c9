"""`tessera top` on a large cluster: printed once, and full-screen on two terminals, without a bus
and with the usage of all nodes on one.

The command is a process of its own, and so are a real NATS server and the agents; the API server is
the embedded one, in this process. Nodes have 8 cards and 10 pods each.

    .venv/bin/python benchmarks/top.py --nodes 5000 --seconds 30
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.scale_cluster import LargeCluster
from benchmarks.scale_programs import Program
from tessera_embedded.apiserver import open_apiserver
from tessera_embedded.nats_server import open_nats

HERE: Final = Path(__file__).parent
PICTURE: Final = b"\x1b[H"
"""Begins a picture on the alternate screen."""
SIZES: Final = ((140, 42), (60, 20))
"""Columns and lines."""
FIRST_S: Final = 300.0
STEP: Final = b"j"
"""The key that goes down a row."""


class Run(Struct, frozen=True, kw_only=True):
    """What one run of the command did."""

    first_s: float
    """From its start to the first picture, or to its end."""
    between_ms: Sequence[float]
    """Between two pictures."""
    keys_ms: Sequence[float]
    """From a key to the picture after it."""
    cpu_s: float
    rss_mb: float
    output: bytes


def once(argv: Sequence[str], environ: dict[str, str]) -> Run:
    """Printed into a pipe."""
    began = time.monotonic()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=environ) as process:  # noqa: S603
        output = b"" if process.stdout is None else process.stdout.read()
        cpu_s, rss_mb = _ended(process)
    return Run(
        first_s=time.monotonic() - began, between_ms=(), keys_ms=(), output=output, cpu_s=cpu_s,
        rss_mb=rss_mb,
    )  # fmt: skip


def watched(
    argv: Sequence[str], environ: dict[str, str], size: tuple[int, int], seconds: float
) -> Run:
    """Full-screen for so many seconds after the first picture, with keys."""
    shown, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    began = time.monotonic()
    with subprocess.Popen(  # noqa: S603  (the command of this environment)
        argv, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
        env={**environ, "TERM": "xterm-256color"},
    ) as process:  # fmt: skip
        os.close(terminal)
        pictures = _pictures(shown, until=lambda found: bool(found) or process.poll() is not None)
        if not pictures:
            raise RuntimeError(f"{' '.join(argv)} ended with {process.returncode}")
        keys, ends = list[float](), pictures[0] + seconds
        while time.monotonic() < ends:
            pictures += _pictures(shown, for_s=0.7)
            pressed = time.monotonic()
            os.write(shown, STEP)
            after = _pictures(shown, until=bool)
            keys.append((after[0] - pressed) * 1000)
            pictures += after
        os.write(shown, b"q")
        _pictures(shown, for_s=0.5)
        cpu_s, rss_mb = _ended(process)
        os.close(shown)
    return Run(
        first_s=pictures[0] - began, between_ms=[(b - a) * 1000 for a, b in pairwise(pictures)],
        keys_ms=keys, output=b"", cpu_s=cpu_s, rss_mb=rss_mb,
    )  # fmt: skip


def _pictures(
    shown: int, *, for_s: float = FIRST_S, until: Callable[[list[float]], bool] | None = None
) -> list[float]:
    """When pictures began, for so long or until this holds."""
    found, ends = list[float](), time.monotonic() + for_s
    while time.monotonic() < ends and not (until is not None and until(found)):
        ready, _, _ = select.select([shown], [], [], 0.02)
        try:
            if ready and PICTURE in os.read(shown, 1 << 20):
                found.append(time.monotonic())
        except OSError:  # the command has ended
            break
    return found


def _ended(process: subprocess.Popen[bytes]) -> tuple[float, float]:
    """Processor time in seconds and most memory in MB of a process, at its end."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"it ended with {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1000


def said(name: str, run: Run) -> str:
    """A row of the table."""
    keys = sorted(run.keys_ms)
    key = f"{statistics.median(keys):.0f}, {keys[-1]:.0f}" if keys else "-"
    longest = f"{max(run.between_ms):.0f}" if run.between_ms else "-"
    return (
        f"| {name} | {run.first_s:.1f} | {len(run.between_ms) + 1} | {longest} | {key} "
        f"| {run.cpu_s:.1f} | {run.rss_mb:.0f} |"
    )


async def main(nodes: int, seconds: float) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory(prefix="top-") as name:
        folder = Path(name)
        async with (
            open_nats(folder / "nats") as nats,
            open_apiserver(folder / "api", keep=False) as server,
        ):
            cluster = LargeCluster(server.store, nodes, nodes * 10)
            await cluster.fill()
            layout = folder / "layout"
            layout.write_bytes(msgspec.json.encode(cluster.layout))
            top = [
                str(Path(sys.executable).with_name("tessera")), "top",
                "--kubeconfig", str(server.kubeconfig),
            ]  # fmt: skip
            environ = {"PATH": os.defpath, "HOME": name, "LANG": "C.UTF-8"}
            print(f"{nodes} nodes, {nodes * 8} cards, {nodes * 10} pods")
            print(
                "| run | first picture, s | pictures | longest between two, ms "
                "| after a key, ms, median and most | processor, s | RSS, MB |"
            )
            print("|---|---|---|---|---|---|---|")
            printed = await asyncio.to_thread(once, top, environ)
            print(said("printed into a pipe, no bus", printed), flush=True)
            for size in SIZES:
                run = await asyncio.to_thread(watched, top, environ, size, seconds)
                print(said(f"{size[0]} columns, {seconds:.0f} s, no bus", run), flush=True)
            agents = Program("agents", folder)
            where = nats.url, str(layout), str(agents.figures)
            async with agents.running(str(HERE / "scale_agents.py"), *where):
                await agents.begun()
                by_bus = [*top, "--nats", nats.url]
                run = await asyncio.to_thread(watched, by_bus, environ, SIZES[0], seconds)
                print(said(f"{SIZES[0][0]} columns, {seconds:.0f} s, by the bus", run))
            print(f"{len(printed.output.splitlines())} lines printed")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=30.0)
    chosen = parser.parse_args()
    asyncio.run(main(chosen.nodes, chosen.seconds))
