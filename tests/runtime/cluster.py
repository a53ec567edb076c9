"""A small cluster in memory, and sinks that remember."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import msgspec

from tessera_embedded.apiserver.store import Store
from tessera_runtime.kube.binding import PodKey
from tessera_runtime.kube.reflector import Reflector, WatchEventType
from tessera_schema.kube import Pod
from tessera_testing.clock import LoopClock
from tessera_testing.kube import a_store

CONTAINER = {"name": "c", "image": "i"}


def a_cluster(window: int = 100_000) -> Store:
    """A store on the loop's clock, with one node."""
    store = a_store(LoopClock(), window=window)
    must(store, "POST", "/api/v1/nodes", {"metadata": {"name": "node-1"}})
    return store


def must(store: Store, method: str, path: str, body: object = None) -> dict[str, object]:
    """A call that has to succeed."""
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    response = store.handle(method, path, {}, msgspec.json.encode(body) if body else b"", kind)
    assert response.code in {200, 201}, response.body
    answer: dict[str, object] = msgspec.json.decode(response.body)
    return answer


def make_pod(store: Store, name: str, **annotations: str) -> PodKey:
    made = must(
        store,
        "POST",
        "/api/v1/namespaces/default/pods",
        {
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"containers": [CONTAINER]},
        },
    )
    return PodKey("default", name, made["metadata"]["uid"])  # type: ignore[index]


def mark(store: Store, name: str, value: str) -> None:
    """Change a pod."""
    path = f"/api/v1/namespaces/default/pods/{name}"
    must(store, "PATCH", path, {"metadata": {"annotations": {"mark": value}}})


def drop(store: Store, name: str) -> None:
    must(
        store,
        "DELETE",
        f"/api/v1/namespaces/default/pods/{name}",
        {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0},
    )


class Memory:
    """A handler that keeps what it gets: the last state, and the story."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.story: list[str] = []
        self.times: list[tuple[float, float]] = []

    def on_list(self, items: list[Pod], started: float, now: float) -> None:
        self.pods = {pod.metadata.name: pod for pod in items}
        self.story.append(f"list {' '.join(sorted(self.pods))}".strip())
        self.times.append((started, now))

    def on_event(self, change: WatchEventType, item: Pod, now: float) -> None:
        name = item.metadata.name
        self.story.append(f"{change} {name}")
        if change is WatchEventType.DELETED:
            self.pods.pop(name, None)
        else:
            self.pods[name] = item

    @property
    def marks(self) -> dict[str, str]:
        return {name: pod.metadata.annotations.get("mark", "") for name, pod in self.pods.items()}


def marks(store: Store) -> dict[str, str]:
    """What the API server itself has."""
    listed = msgspec.json.decode(store.handle("GET", "/api/v1/pods").body)
    return {
        item["metadata"]["name"]: item["metadata"].get("annotations", {}).get("mark", "")
        for item in listed["items"]
    }


@asynccontextmanager
async def running(reflector: Reflector[Pod]) -> AsyncGenerator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(reflector.run(), name="reflector")
        try:
            yield
        finally:
            task.cancel()


async def until(true: Callable[[], object], within_s: float = 120) -> None:
    """Let time pass until something is so."""
    async with asyncio.timeout(within_s):
        while not true():
            await asyncio.sleep(0.05)
