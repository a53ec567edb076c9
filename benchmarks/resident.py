"""What the processes of a rebalancer and a quota monitor grow to, phase by phase: no NATS, and no
API server.

The lists of a large cluster are written to files, page by page as an API server sends them, and the
signed digests of its agents next to them (`digests`). A process of its own for each service reads
them as the service does: it has what a service has, and nothing of what made the lists.

    .venv/bin/python benchmarks/resident.py --nodes 10000

For each service, MB that are resident after each phase, and the most that ever were.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.digests import (
    ROUNDS_HELD,
    Consumer,
    Listed,
    OfQuotaMonitor,
    OfRebalancer,
    made,
    rss_mb,
)
from benchmarks.scale_agents import INTERVAL_S
from tessera_runtime.bus.api import Message
from tessera_runtime.kube.lists import read_page
from tessera_runtime.kube.settings import KubeSettings
from tessera_schema.messages.envelope import Envelope

SERVICES: Final[Mapping[str, Callable[[], Consumer]]] = {
    "rebalancer": OfRebalancer,
    "quota": OfQuotaMonitor,
}
_LENGTH: Final = struct.Struct("<I")
_encode: Final = msgspec.msgpack.Encoder().encode
_message: Final = msgspec.msgpack.Decoder(tuple[str, Envelope, bytes]).decode


class Frames:
    """A file of byte strings, each behind its length."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, frames: Iterator[bytes]) -> None:
        """Make the file."""
        with self.path.open("wb") as file:
            for frame in frames:
                file.write(_LENGTH.pack(len(frame)) + frame)

    def __iter__(self) -> Iterator[bytes]:
        """Read one after the other."""
        with self.path.open("rb") as file:
            while head := file.read(_LENGTH.size):
                yield file.read(*_LENGTH.unpack(head))


class PagedObjects(Collection[bytes]):
    """The objects of a list, read a page at a time."""

    def __init__(self, pages: Frames) -> None:
        self._pages = pages

    def __iter__(self) -> Iterator[bytes]:
        """As a reflector reads them."""
        for page in self._pages:
            for raw in read_page(page).items or ():
                yield bytes(raw)

    def __len__(self) -> int:
        """How many there are."""
        return sum(1 for _ in self)

    def __contains__(self, other: object) -> bool:
        """Whether it is one of them."""
        return any(each == other for each in self)


def _pages(objects: Collection[bytes]) -> Iterator[bytes]:
    every, most = list(objects), KubeSettings().page
    for first in range(0, len(every), most):
        items = [msgspec.Raw(each) for each in every[first : first + most]]
        yield msgspec.json.encode({"metadata": {}, "items": items})


async def write(folder: Path, nodes: int, pods: int) -> None:
    """Make the cluster, and write it down."""
    lists = await made(nodes, pods)
    Frames(folder / "nodes").write(_pages(lists.nodes))
    Frames(folder / "pods").write(_pages(lists.pods))
    at = time.time()
    Frames(folder / "digests").write(
        _encode((each.subject, each.envelope, each.data))
        for number in range(ROUNDS_HELD)
        for each in lists.digests(at + number * INTERVAL_S)
    )


async def read(folder: Path, service: str) -> None:
    """Read it as the service does, and print what the process has grown to."""

    def grown(phase: str) -> None:
        print(f"| {phase} | {rss_mb():.0f} |", flush=True)

    listed = Listed(*(PagedObjects(Frames(folder / name)) for name in ("nodes", "pods")))
    consumer = SERVICES[service]()
    grown("nothing was read")
    for part in consumer.lists(listed):
        grown(part)
    for frame in Frames(folder / "digests"):
        subject, envelope, data = _message(frame)
        consumer.now = INTERVAL_S  # all are fresh
        consumer.receive(Message(subject=subject, envelope=envelope, data=data))
    grown("digests")
    await consumer.publish()
    grown("what is published")
    if isinstance(consumer, OfRebalancer):
        for _ in range(2):
            for part, _, _ in consumer.whole():
                grown(part)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(f"| the most | {most:.0f} |")


def main() -> None:
    """Read the arguments, and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--pods", type=int, default=10, help="on each node")
    parser.add_argument("--of", nargs=2, metavar=("FOLDER", "SERVICE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.of:
        asyncio.run(read(Path(options.of[0]), options.of[1]))
        return
    with tempfile.TemporaryDirectory(prefix="resident-") as folder:
        asyncio.run(write(Path(folder), options.nodes, options.pods))
        for service in SERVICES:
            print(f"\n{service}, MB: load of the machine {os.getloadavg()[0]:.0f}", flush=True)
            argv = [sys.executable, __file__, "--of", folder, service]
            subprocess.run(argv, check=True)  # noqa: S603  (this file)


if __name__ == "__main__":
    main()
