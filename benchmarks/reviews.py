"""Reviews that are made to fill the scheduler's memory and to hold up its loop: what they cost it.

The scheduler runs as a process of its own against the embedded API server, and leads. Many reviews
of 2.8 MiB, no two of them equal, go to its webhook over TLS, several at once, as an API server
passes on dry runs. Meanwhile pods are created, placed and deleted, the process's memory is looked
at, and every renewal of the Lease is counted. Each line of the result has its bound; the exit
status is 1 where one is not kept.

    .venv/bin/python benchmarks/reviews.py [--reviews 1000 --clients 4]
"""

from __future__ import annotations

import argparse
import asyncio
import io
import ssl
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import aiohttp
import msgspec
from msgspec import Struct

sys.path.insert(0, str(Path(__file__).parents[1]))

from tessera_embedded.apiserver import open_apiserver
from tessera_runtime.errors import TesseraError
from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tests.scheduler.fake_cluster import LEASE
from tests.scheduler.test_the_process_runs import (
    PODS,
    a_process,
    environment,
    place,
    prepare,
    ready,
)
from tests.webhook.setting import a_manifest, a_review

MOST_RSS_MIB: Final = 400
SIZE: Final = 2_800 << 10
"""Bytes of an object: a little less than the API server passes on."""
EACH_S: Final = 0.1
"""Seconds between two looks at memory and Lease."""
LEASE_S: Final = 10
"""Seconds that a renewal lasts: see `environment`."""
_SHARE: Final = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}
_MARK: Final = "0123456789"
"""Stands for the review's number."""


def _filled(make: Callable[[int], dict[str, Any]]) -> bytes:
    """A review of a pod of so many parts that it has `SIZE` bytes."""
    one, many = (len(msgspec.json.encode(make(n))) for n in (1_000, 2_000))
    pod = make(1_000 + (SIZE - one) * 1_000 // (many - one))
    pod["metadata"]["name"] = _MARK
    return msgspec.json.encode(a_review(pod))


def _volumes(n: int) -> dict[str, Any]:
    volumes = [{"name": f"v{i}", "hostPath": {"path": f"/d/{i}"}} for i in range(n)]
    mounts = [{"name": f"v{i}", "mountPath": f"/d/{i}"} for i in range(n)]
    return a_manifest(_SHARE, container={"volumeMounts": mounts}, volumes=volumes)


def _containers(n: int) -> dict[str, Any]:
    resources = {"limits": _SHARE, "requests": _SHARE}
    return a_manifest(
        _SHARE, initContainers=[{"name": f"i{i}", "resources": resources} for i in range(n)]
    )


KINDS: Final[Mapping[str, Callable[[int], dict[str, Any]]]] = {
    "volumes": _volumes,
    "containers": _containers,
    "keys": lambda n: a_manifest(_SHARE, notes={f"tessera.dev/{i}": "" for i in range(n)}),
    "empty parts": lambda n: a_manifest(_SHARE, tolerations=[{}] * n),
    "a long value": lambda n: a_manifest(
        _SHARE, container={"env": [{"name": "V", "value": "x" * n}]}
    ),
    "a long value, no share": lambda n: a_manifest({}, container={"args": ["x" * n]}),
}


class Measured(Struct):
    """What became of it."""

    answers: Counter[tuple[str, str]]
    """Kind of review, and answer -> how often."""
    slowest_s: float = 0
    """Of a review's answer."""
    placed: int = 0
    late: int = 0
    """Pods that were not created or bound within a call's deadline (5 s)."""
    placing_s: float = 0
    """The longest that a pod took from its creation to its Binding meanwhile."""
    rss_mib: float = 0
    """The most."""
    renewals: int = 0
    pause_s: float = 0
    """The longest between two renewals."""
    transitions: int = 0


async def _send(url: str, bodies: Mapping[str, bytes], numbers: list[int], seen: Measured) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with aiohttp.ClientSession() as session:
        while numbers:
            number = numbers.pop()
            kind = list(bodies)[number % len(bodies)]
            body = bodies[kind].replace(_MARK.encode(), f"{number:010}".encode())
            path = "mutate" if number % 2 else "validate"
            began = perf_counter()
            async with session.post(
                f"{url}/{path}", data=io.BytesIO(body), ssl=context
            ) as response:
                said = await response.read()
            seen.slowest_s = max(seen.slowest_s, perf_counter() - began)
            seen.answers[kind, _answer(response.status, said)] += 1


def _answer(status: int, body: bytes) -> str:
    if status != 200:
        return f"HTTP {status}"
    answer = msgspec.json.decode(body)["response"]
    return "allowed" if answer["allowed"] else str(answer["status"]["message"])


async def sample(kube: Kube, pid: int, seen: Measured) -> None:
    """Memory and Lease, until cancelled."""
    renewed, since = "", perf_counter()
    while True:
        seen.rss_mib = max(seen.rss_mib, rss_mib(pid))
        body = await kube.call(Verb.GET, f"{LEASE}/tessera-scheduler")
        spec = msgspec.json.decode(body)["spec"]
        now = perf_counter()
        seen.pause_s = max(seen.pause_s, now - since)
        if spec["renewTime"] != renewed:
            seen.renewals, renewed, since = seen.renewals + 1, spec["renewTime"], now
        seen.transitions = spec["leaseTransitions"]
        await asyncio.sleep(EACH_S)


async def use(kube: Kube, urls: Mapping[str, str], seen: Measured) -> None:
    """Create, place and delete pods, until cancelled."""
    while True:
        name, began = f"meanwhile-{seen.placed + seen.late}", perf_counter()
        try:
            await place(kube, urls, name)
            seen.placed += 1
        except (TesseraError, aiohttp.ClientError):
            seen.late += 1
        seen.placing_s = max(seen.placing_s, perf_counter() - began)
        with suppress(TesseraError):
            await kube.call(Verb.DELETE, f"{PODS}/{name}", query={"gracePeriodSeconds": "0"})
        await asyncio.sleep(EACH_S)


def rss_mib(pid: int) -> float:
    """Memory of a process that is resident."""
    (line,) = [
        line
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmRSS:")
    ]
    return int(line.split()[1]) / 1024


@asynccontextmanager
async def alongside(*works: Any) -> AsyncGenerator[None]:
    """Have these done meanwhile; leaving cancels them."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work) for work in works]
        yield
        for task in tasks:
            task.cancel()


class Leading(Struct, frozen=True):
    """A scheduler that leads, in a process of its own."""

    kube: Kube
    pid: int
    urls: Mapping[str, str]
    """Of its servers, by name; the webhook's over TLS."""
    log: Path


@asynccontextmanager
async def a_leading_scheduler() -> AsyncGenerator[Leading]:
    """Against an embedded API server of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ports, log = folder / "ports.json", folder / "log"
        async with (
            open_apiserver(folder) as server,
            open_kube(KubeSettings(kubeconfig=str(server.kubeconfig))) as kube,
        ):
            await prepare(kube)
            async with a_process(environment(server, ports), log) as process:
                urls = await ready(ports)
                webhook = urls["webhook"].replace("http:", "https:")
                yield Leading(kube, process.pid, {**urls, "webhook": webhook}, log)


async def run(reviews: int, clients: int) -> bool:
    """Measure, and print. Whether every bound is kept."""
    bodies = {kind: _filled(make) for kind, make in KINDS.items()}
    async with a_leading_scheduler() as scheduler:
        before, seen = rss_mib(scheduler.pid), Measured(Counter())
        numbers, began = list(range(reviews)), perf_counter()
        async with (
            alongside(
                sample(scheduler.kube, scheduler.pid, seen),
                use(scheduler.kube, scheduler.urls, seen),
            ),
            asyncio.TaskGroup() as group,
        ):
            for _ in range(clients):
                group.create_task(_send(scheduler.urls["webhook"], bodies, numbers, seen))
        took_s = perf_counter() - began
        after = rss_mib(scheduler.pid)
    return _print(seen, (before, after), took_s)


def _print(seen: Measured, rss_mib: tuple[float, float], took_s: float) -> bool:
    total = seen.answers.total()
    size = f"{SIZE / 2**20:.1f} MiB"
    print(f"{total} reviews of {size} in {took_s:.0f} s, slowest {seen.slowest_s:.2f} s")
    for (kind, answer), count in sorted(seen.answers.items()):
        print(f"  {count:5}  {kind}: {answer}")
    return report(seen, rss_mib)


def report(seen: Measured, rss_mib: tuple[float, float]) -> bool:
    """Print what became of it. Whether every bound is kept."""
    answered = all(not answer.startswith("HTTP") for _, answer in seen.answers)
    rows = (
        ("answered as reviews are", str(answered), answered),
        (f"memory, MiB (< {MOST_RSS_MIB})", f"{rss_mib[0]:.0f} before, {rss_mib[1]:.0f} after, "
         f"{seen.rss_mib:.0f} at most", seen.rss_mib < MOST_RSS_MIB),
        (f"Lease of {LEASE_S} s", f"{seen.renewals} renewals, at most {seen.pause_s:.1f} s apart, "
         f"{seen.transitions} transitions (1)", seen.transitions == 1 and seen.pause_s < LEASE_S),
        ("pods placed meanwhile", f"{seen.placed}, slowest {seen.placing_s:.1f} s, "
         f"{seen.late} late", seen.placed > 0),
    )  # fmt: skip
    for what, measured, kept in rows:
        print(f"{'ok  ' if kept else 'NOT '}{what}: {measured}")
    return all(kept for _, _, kept in rows)


def main() -> None:
    """Read the arguments, and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--reviews", type=int, default=1_000)
    parser.add_argument("--clients", type=int, default=4)
    options = parser.parse_args()
    sys.exit(0 if asyncio.run(run(options.reviews, options.clients)) else 1)


if __name__ == "__main__":
    main()
