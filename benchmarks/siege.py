"""Strangers that connect and say next to nothing: what they cost the scheduler.

The scheduler runs as a process of its own against the embedded API server, and leads. Many
connections are held open to its webhook, its extender and its metrics, and opened again as soon as
they are closed: some never begin TLS, some send a header or a large body byte by byte. Meanwhile
reviews are asked for, pods are created, placed and deleted, the process's memory is looked at, and
every renewal of the Lease is counted. The exit status is 1 where a bound is not kept.

    .venv/bin/python benchmarks/siege.py [--connections 500 --seconds 60]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Final
from urllib.parse import urlsplit

import aiohttp
import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.reviews import (
    Measured,
    a_leading_scheduler,
    alongside,
    report,
    rss_mib,
    sample,
    use,
)
from tests.webhook.setting import a_manifest, a_review

BODY: Final = 8 * 2**20
"""What the webhook takes at most."""
_HEADER: Final = b"POST /mutate HTTP/1.1\r\nX-Slow: "
_LARGE: Final = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % BODY + b"x" * (
    BODY - 65_536
)
KINDS: Final[Mapping[str, tuple[str, bool, bytes]]] = {
    "webhook, no TLS": ("webhook", False, b""),
    "webhook, a header": ("webhook", True, _HEADER),
    "extender, a header": ("extender", False, _HEADER),
    "metrics, a header": ("http", False, b"GET /metrics HTTP/1.1\r\nX-Slow: "),
}
"""Server, over TLS or not, and what is sent before the bytes that come one by one."""
LARGE: Final = ("webhook", True, _LARGE)
LARGE_CONNECTIONS: Final = 40
AGAIN_S: Final = 2.0
"""Seconds until one that was cut connects again."""


def _trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def _stranger(kind: tuple[str, bool, bytes], urls: Mapping[str, str]) -> None:
    """One connection, again and again, until cancelled."""
    server, over_tls, first = kind
    url, context = urlsplit(urls[server]), _trusting() if over_tls else None
    while True:
        try:
            async with asyncio.timeout(60):
                reader, writer = await asyncio.open_connection(url.hostname, url.port, ssl=context)
            try:
                writer.write(first)
                while not reader.at_eof():
                    await asyncio.sleep(1)
                    writer.write(b"x")
                    async with asyncio.timeout(60):
                        await writer.drain()
            finally:
                writer.transport.abort()
        except (OSError, TimeoutError):
            pass  # it was cut
        await asyncio.sleep(AGAIN_S)


async def _besiege(connections: int, urls: Mapping[str, str]) -> None:
    """All strangers, in a process of their own, until it is killed."""
    kinds = [LARGE] * min(LARGE_CONNECTIONS, connections)
    kinds += [list(KINDS.values())[n % len(KINDS)] for n in range(connections - len(kinds))]
    async with asyncio.TaskGroup() as group:
        for number, kind in enumerate(kinds):
            group.create_task(_stranger(kind, urls), name=f"stranger {number}")


@asynccontextmanager
async def _besieged(connections: int, urls: Mapping[str, str]) -> AsyncGenerator[None]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--connections", str(connections), "--urls", json.dumps(urls)
    )
    try:
        yield
    finally:
        process.kill()
        await process.wait()


async def _reviews(url: str, seen: Measured) -> None:
    """As an API server asks, on a connection that it keeps, until cancelled."""
    body = msgspec.json.encode(a_review(a_manifest({"nvidia.com/gpu": "1"})))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=_trusting())) as session:
        while True:
            began = perf_counter()
            async with session.post(f"{url}/mutate", data=body) as response:
                await response.read()
            seen.slowest_s = max(seen.slowest_s, perf_counter() - began)
            status = "answered" if response.status == 200 else f"HTTP {response.status}"
            seen.answers["review", status] += 1
            await asyncio.sleep(0.02)


async def run(connections: int, seconds: float) -> bool:
    """Measure, and print. Whether every bound is kept."""
    async with a_leading_scheduler() as scheduler:
        kube, pid, urls = scheduler.kube, scheduler.pid, scheduler.urls
        before, seen = rss_mib(pid), Measured(Counter())
        async with (
            _besieged(connections, urls),
            alongside(
                sample(kube, pid, seen), use(kube, urls, seen), _reviews(urls["webhook"], seen)
            ),
        ):
            await asyncio.sleep(seconds)
        after = rss_mib(pid)
        cut = _cut(scheduler.log)
    print(f"{connections} strangers for {seconds:.0f} s; connections cut, as the log has it:")
    for why, count in sorted(cut.items()):
        print(f"  {count:5}  {why}")
    print(f"{seen.answers.total()} reviews, slowest {seen.slowest_s:.2f} s")
    return report(seen, (before, after))


def _cut(log: Path) -> Counter[str]:
    cut = Counter[str]()
    for line in log.read_text().splitlines():
        reply = json.loads(line) if line.startswith("{") else {}
        if reply.get("event") == "connections cut":
            cut.update(reply["why"])
    return cut


def main() -> None:
    """Read the arguments, and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--connections", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--urls", type=json.loads, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.urls is not None:
        asyncio.run(_besiege(options.connections, options.urls))
    sys.exit(0 if asyncio.run(run(options.connections, options.seconds)) else 1)


if __name__ == "__main__":
    main()
