"""Pods of gangs and alone, and what a run of them says."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from typing import Final

import aiohttp
import msgspec
from msgspec import Struct

from benchmarks.throughput_cluster import NAMESPACE, START_S
from benchmarks.throughput_load import a_pod, measure
from tessera_runtime.kube.api import Kube, Verb
from tessera_schema.annotation_keys import SCHEDULER
from tests.cluster.gangs.kinds import COSCHEDULING, VOLCANO

CLIENTS: Final = 32
_ATTEMPTS: Final = "scheduler_schedule_attempts_total"


class Load(Enum):
    """Which pods; with the API of their PodGroups, where they have some."""

    SINGLE = ""
    GANGS = VOLCANO
    BARE = "none"
    COSCHEDULING = COSCHEDULING

    @property
    def together(self) -> bool:
        """Whether they are in gangs."""
        return self in (Load.GANGS, Load.COSCHEDULING)

    def pod(self, number: int, size: int, limits: Mapping[str, str]) -> bytes:
        """One of them; `size` follow each other in a gang."""
        pod = msgspec.json.decode(a_pod(f"p{number}", limits, SCHEDULER, ""))
        gang = f"g{number // size}"
        if self is Load.GANGS:
            pod["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": gang}
        elif self is Load.COSCHEDULING:
            pod["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": gang}
        return msgspec.json.encode(pod)


class GangRun(Struct, frozen=True, kw_only=True):
    """One run; `benchmarks/gangs.py` says what the figures are."""

    pods_per_s: float
    all_s: float
    complete_p50_s: float
    complete_p99_s: float
    partial_s: float
    attempts: float
    cpu_ms: Mapping[str, float] = {}
    """Program -> processor time for a pod."""

    @property
    def all_cpu_ms(self) -> float:
        """Processor time of all programs for a pod."""
        return sum(self.cpu_ms.values())

    @property
    def row(self) -> str:
        """For people."""
        used = "  ".join(f"{name} {value:.2f}" for name, value in self.cpu_ms.items())
        return (
            f"{self.pods_per_s:6.1f} pods/s  all {self.all_s:5.1f} s  complete p50 "
            f"{self.complete_p50_s:5.2f} p99 {self.complete_p99_s:5.2f} s  partial "
            f"{self.partial_s:5.2f} s  attempts {self.attempts:.2f}  cpu {self.all_cpu_ms:.2f} ms: "
            f"{used}"
        )


@asynccontextmanager
async def make_groups(kube: Kube, load: Load, count: int, size: int) -> AsyncGenerator[None]:
    """The PodGroups of so many pods, while the block runs."""
    path = f"/apis/{load.value}/namespaces/{NAMESPACE}/podgroups"
    names = [f"g{n}" for n in range(count // size)] if load.together else []
    for name in names:
        body = {
            "apiVersion": load.value, "kind": "PodGroup", "metadata": {"name": name},
            "spec": {"minMember": size},
        }  # fmt: skip
        await kube.call(Verb.POST, path, body=json.dumps(body).encode())
    yield
    for name in names:
        await kube.call(Verb.DELETE, f"{path}/{name}")


async def run_pods(kube: Kube, pods: Sequence[bytes], together: int, port: int) -> GangRun:
    """Create the pods, of which so many are a gang, and wait until all are bound; kube-scheduler
    shows its metrics there."""
    before, count = await _attempts(port), len(pods)
    run = await measure(kube, NAMESPACE, list(pods), CLIENTS)
    tried = await _attempts(port) - before
    gangs = [
        [f"p{n}" for n in range(first, first + together)] for first in range(0, count, together)
    ]
    took = sorted(max(run.bound[p] for p in g) - max(run.sent[p] for p in g) for g in gangs)
    partial = sum(max(run.bound[p] for p in g) - min(run.bound[p] for p in g) for g in gangs)
    return GangRun(
        pods_per_s=run.pods_per_s, all_s=count / run.pods_per_s,
        complete_p50_s=took[len(took) // 2], complete_p99_s=took[int(len(took) * 0.99) - 1],
        partial_s=partial, attempts=tried / count,
    )  # fmt: skip


async def _attempts(port: int) -> float:
    """Of a kube-scheduler that may have begun just now."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    url = f"https://127.0.0.1:{port}/metrics"
    async with aiohttp.ClientSession() as session, asyncio.timeout(START_S):
        while True:
            try:
                async with session.get(url, ssl=context) as answer:
                    return _sum_of(_ATTEMPTS, await answer.text())
            except aiohttp.ClientError:
                await asyncio.sleep(0.2)


def _sum_of(name: str, metrics: str) -> float:
    rows = (row for row in metrics.splitlines() if row.startswith(name))
    return sum(float(row.rpartition(" ")[2]) for row in rows)
