"""Reads nodes, pods and what the scheduler says about pods that wait from the API server, with the
caller's own rights: page by page, and no more of each object than rows are made of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, NoReturn, TypeVar

import msgspec
from msgspec import Struct

from tessera_cli.api_objects import ClusterConnection
from tessera_cli.errors import CommandError
from tessera_core.occupancy.occupancy import PodAnswer
from tessera_runtime.background import running_in_background
from tessera_runtime.errors import ApiForbidden, TesseraError
from tessera_runtime.informers.cluster_feed import ClusterFeed, NodeFeed, PodFeed
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.kube.lists import ObjectReader, UnreadableObject, pages
from tessera_runtime.kube.reflector import ListWatch, Reflector
from tessera_runtime.kube.settings import KubeSettings
from tessera_schema.endpoints.visibility import (
    GROUP,
    PLURAL,
    VERSION,
    decode_pod_explanation,
)

T = TypeVar("T")

PAGE: Final = 500
ANSWERS_S: Final = 10.0
"""Seconds between two questions why pods wait."""


class ClusterUnreadable(CommandError):
    """The cluster's cards cannot be read; the message says why, and what would do."""


class ClusterPart(Struct, frozen=True, kw_only=True):
    """Which nodes and pods of a cluster are followed."""

    namespace: str = ""
    """Of one namespace alone, and nodes if the caller may list them; empty = of all."""
    nodes: str = ""
    """Label selector of nodes; empty = all."""
    pods: str = ""
    """Label selector of pods."""


async def read_nodes(cluster: ClusterConnection, feed: ClusterFeed, selector: str = "") -> None:
    """Read all nodes that the label selector selects. Raises ClusterUnreadable, and as `Kube.call`
    does."""
    feed.put_nodes(await _list(cluster.kube, paths.NODES, feed.node, _selecting(selector), feed))


async def read_pods(
    cluster: ClusterConnection, feed: ClusterFeed, namespace: str = "", selector: str = ""
) -> None:
    """Read the living pods of a namespace, or with an empty one of all. Raises ClusterUnreadable,
    and as `Kube.call` does."""
    query = {"fieldSelector": paths.LIVING, **_selecting(selector)}
    feed.put_pods(await _list(cluster.kube, _pods(namespace), feed.pod, query, feed))


async def read_answers(kube: Kube, feed: ClusterFeed, namespace: str = "") -> None:
    """Ask why pods wait. Where the API is not there, or the caller may not ask, what kube-scheduler
    wrote on the pods has to do."""
    path = paths.in_group(GROUP, VERSION, PLURAL, namespace=namespace)
    answers: dict[str, PodAnswer] = {}
    try:
        async for page in pages(kube, path, limit=PAGE):
            for raw in page.items or ():
                one = decode_pod_explanation(bytes(raw))
                answers[one.metadata.uid] = PodAnswer(one.message, one.advice)
    except (TesseraError, msgspec.DecodeError):
        return
    feed.occupancy.put_answers(answers)


@asynccontextmanager
async def watching(
    cluster: ClusterConnection, feed: ClusterFeed, part: ClusterPart
) -> AsyncGenerator[None]:
    """Keep the feed up to date while the body runs; it has all nodes and pods of this part of the
    cluster when it begins.

    Raises ClusterUnreadable where the caller may not list them.
    """
    settings = KubeSettings(page=PAGE)
    path, query = _pods(part.namespace), {"fieldSelector": paths.LIVING, **_selecting(part.pods)}
    nodes = Reflector(
        cluster.kube, ListWatch(paths.NODES, feed.node, _selecting(part.nodes)), NodeFeed(feed),
        settings=settings, unreadable=_unreadable(feed),
    )  # fmt: skip
    pods = Reflector(
        cluster.kube, ListWatch(path, feed.pod, query), PodFeed(feed), settings=settings,
        unreadable=_unreadable(feed),
    )  # fmt: skip
    with_nodes = await _nodes_are_allowed(cluster.kube, part)
    await _allowed(cluster.kube, path)
    async with AsyncExitStack() as running:
        if with_nodes:
            await running.enter_async_context(running_in_background(nodes.run(), "nodes"))
            await nodes.synced.wait()
        for body, name in (
            (pods.run(), "pods"), (_asking(cluster.kube, feed, part.namespace), "answers")
        ):  # fmt: skip
            await running.enter_async_context(running_in_background(body, name))
        await pods.synced.wait()
        yield


async def _nodes_are_allowed(kube: Kube, part: ClusterPart) -> bool:
    """Raises ClusterUnreadable where they have to be."""
    try:
        await _allowed(kube, paths.NODES)
    except ClusterUnreadable:
        if not part.namespace:
            raise
        return False
    return True


async def _asking(kube: Kube, feed: ClusterFeed, namespace: str) -> NoReturn:
    while True:
        if feed.occupancy.waiting():
            await read_answers(kube, feed, namespace)
        await asyncio.sleep(ANSWERS_S)


async def _list(
    kube: Kube,
    path: str,
    read: Callable[[bytes], T],
    query: Mapping[str, str],
    feed: ClusterFeed,
) -> list[T]:
    reader = ObjectReader(path, read, _unreadable(feed))
    found: list[T] = []
    try:
        async for page in pages(kube, path, limit=PAGE, query=query):
            found += reader.objects(page)
    except ApiForbidden as e:
        raise _not_allowed(path, e) from e
    return found


async def _allowed(kube: Kube, path: str) -> None:
    try:
        await kube.call(Verb.GET, path, query={"limit": "1"})
    except ApiForbidden as e:
        raise _not_allowed(path, e) from e


def _not_allowed(path: str, error: ApiForbidden) -> ClusterUnreadable:
    if error.status == 401:
        return ClusterUnreadable(
            "the API server does not know who you are: your credentials may have expired"
        )
    what = path.rpartition("/")[2]
    everywhere = what == "pods" and "/namespaces/" not in path
    remedy = (
        "`tessera pods -n NAMESPACE` needs those of one namespace alone"
        if everywhere or what == "nodes"
        else "the role view there allows it"
    )
    where = " of all namespaces" if everywhere else ""
    return ClusterUnreadable(f"you may not list {what}{where}: {remedy} ({error.message})")


def _unreadable(feed: ClusterFeed) -> Callable[[UnreadableObject], None]:
    def report(one: UnreadableObject) -> None:
        name = "/".join(part for part in (one.object.namespace, one.object.name) if part)
        feed.left_out(f"{one.path.rpartition('/')[2]} {name}: left out: {one.why}")

    return report


def _selecting(selector: str) -> dict[str, str]:
    return {"labelSelector": selector} if selector else {}


def _pods(namespace: str) -> str:
    return paths.in_core(namespace, "pods") if namespace else paths.PODS
