"""Pods made by many clients, and when each of them was bound, as a watch shows it."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from tessera_runtime.kube.api import Kube, Verb

_BOUND_S = 120.0


class Condition(Struct, frozen=True):
    """Of a pod."""

    type: str = ""
    status: str = ""


class _Meta(Struct, frozen=True):
    name: str = ""
    version: str = field(name="resourceVersion", default="")


class _Spec(Struct, frozen=True):
    node: str = field(name="nodeName", default="")


class _Status(Struct, frozen=True):
    conditions: tuple[Condition, ...] = ()


class _Pod(Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _Event(Struct, frozen=True):
    object: _Pod = _Pod()


_event = msgspec.json.Decoder(_Event).decode


class Measured(Struct, frozen=True, kw_only=True):
    """One run."""

    pods_per_s: float
    """From the first request to create a pod until the last pod was bound."""
    p50_ms: float
    """From the request to create a pod until it was seen bound."""
    p99_ms: float
    retried: int
    """Pods that were reported unschedulable at least once."""
    extra: Mapping[str, float] = {}
    bound: Mapping[str, float] = {}
    """Pod -> when it was seen bound, in seconds."""
    sent: Mapping[str, float] = {}
    """Pod -> when the request to create it was sent, by the same clock."""


class _Progress:
    def __init__(self, count: int) -> None:
        self.count = count
        self.bound: dict[str, float] = {}
        self.refused: set[str] = set()
        self.version = ""
        self.over = asyncio.Event()

    def take(self, line: bytes) -> None:
        pod = _event(line).object
        name, self.version = pod.metadata.name, pod.metadata.version
        if pod.spec.node:
            if self.bound.setdefault(name, time.perf_counter()) and len(self.bound) == self.count:
                self.over.set()
        elif any(c.type == "PodScheduled" and c.status == "False" for c in pod.status.conditions):
            self.refused.add(name)


async def measure(kube: Kube, namespace: str, pods: list[bytes], clients: int) -> Measured:
    """Create the pods, named p0 and so on, and wait until all are bound. Raises TimeoutError."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    seen, sent = _Progress(len(pods)), dict[str, float]()
    left = list(reversed(list(enumerate(pods))))

    async def client() -> None:
        while left:
            i, body = left.pop()
            sent[f"p{i}"] = time.perf_counter()
            await kube.call(Verb.POST, path, body=body)

    async def follow() -> None:
        while True:  # an API server that has much to do ends watches of those who are slow to read
            query = {"watch": "1", "resourceVersion": seen.version}
            async with kube.stream(path, query=query) as lines:
                async for line in lines:
                    seen.take(line)

    async with asyncio.timeout(_BOUND_S), asyncio.TaskGroup() as group:
        following = group.create_task(follow(), name="watch")
        await asyncio.sleep(0.2)
        for i in range(clients):
            group.create_task(client(), name=f"client {i}")
        await seen.over.wait()
        following.cancel()
    took = sorted(seen.bound[name] - sent[name] for name in sent)
    spent = max(seen.bound.values()) - min(sent.values())
    return Measured(
        pods_per_s=len(pods) / spent,
        p50_ms=statistics.median(took) * 1000,
        p99_ms=took[int(len(took) * 0.99) - 1] * 1000,
        retried=len(seen.refused),
        bound=seen.bound,
        sent=sent,
    )


async def empty(kube: Kube, namespace: str) -> None:
    """Delete all pods of the namespace, and wait until they are gone."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    async with asyncio.timeout(_BOUND_S):
        while True:
            await kube.call(Verb.DELETE, path, body=b'{"gracePeriodSeconds": 0}')
            found = msgspec.json.decode(await kube.call(Verb.GET, path, query={"limit": "1"}))
            if not found["items"]:
                return
            await asyncio.sleep(0.2)


def a_pod(name: str, limits: Mapping[str, str], scheduler: str, policy: str) -> bytes:
    """A pod with one container."""
    metadata: dict[str, Any] = {"name": name}
    if policy:
        metadata["annotations"] = {
            "hami.io/node-scheduler-policy": policy, "hami.io/gpu-scheduler-policy": policy,
        }  # fmt: skip
    container = {"name": "main", "image": "pause", "resources": {"limits": dict(limits)}}
    return msgspec.json.encode(
        {"metadata": metadata, "spec": {"schedulerName": scheduler, "containers": [container]}}
    )
