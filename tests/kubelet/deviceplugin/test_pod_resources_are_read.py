"""Which container has which ids, as older and newer kubelets report it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tessera_kubelet.errors import (
    CallFailed,
    CallTimedOut,
    GrpcCode,
    LinkGarbled,
    SocketNotListening,
)
from tessera_kubelet.grpc_channel import open_server
from tessera_kubelet.pod_resources import SERVICE, PodHolding, PodResources, open_pod_resources
from tests.kubelet.deviceplugin.handmade import number, text
from tests.kubelet.deviceplugin.nodes import CARD, SLICE, a_node, offering


@asynccontextmanager
async def answering(
    folder: Path, answer: Callable[[bytes], Awaitable[bytes]], call_s: float = 60
) -> AsyncGenerator[PodResources]:
    """A kubelet that answers List so."""
    socket = folder / "pods.sock"
    async with (
        open_server(socket, SERVICE, {"List": answer}, {}, drain_s=0, message_bytes=1 << 26),
        open_pod_resources(socket, call_s) as resources,
    ):
        yield resources


async def listed(folder: Path, message: bytes) -> tuple[PodHolding, ...]:
    async def answer(_: bytes) -> bytes:
        return message

    async with answering(folder, answer) as resources:
        return await resources.list()


def pod(*containers: bytes) -> bytes:
    return text(1, text(1, "job") + text(2, "team") + b"".join(text(3, c) for c in containers))


async def test_ids_that_come_one_by_one_or_twice_are_put_together(folder: Path) -> None:
    near = text(3, text(1, number(1, 1)))
    has = [
        text(2, text(1, CARD) + text(2, "c0") + near),
        text(2, text(1, CARD) + text(2, "c0")),
        text(2, text(1, CARD) + text(2, "c1")),
        text(2, text(1, SLICE) + text(2, "s0")),
    ]
    cpus_and_memory = text(3, b"\x00\x01") + text(4, text(1, "memory") + number(2, 5))
    message = pod(text(1, "main") + b"".join(has) + cpus_and_memory, text(1, "idle"))
    expected = {
        "main": {CARD: frozenset({"c0", "c1"}), SLICE: frozenset({"s0"})},
        "idle": {},
    }
    assert await listed(folder, message) == (
        PodHolding(namespace="team", name="job", containers=expected),
    )


async def test_ids_that_come_together_are_read_alike(folder: Path) -> None:
    message = pod(text(1, "main") + text(2, text(1, CARD) + text(2, "c0") + text(2, "c1")))
    (found,) = await listed(folder, message)
    assert found.containers == {"main": {CARD: frozenset({"c0", "c1"})}}


async def test_no_pods_are_no_pods(folder: Path) -> None:
    assert await listed(folder, b"") == ()


async def test_a_kubelet_that_is_not_there_may_come(folder: Path) -> None:
    async with open_pod_resources(folder / "pods.sock", 60) as resources:
        with pytest.raises(SocketNotListening, match=r"pods\.sock: No such file or directory"):
            await resources.list()
        async with a_node(folder):
            while True:
                try:
                    assert await resources.list() == ()
                    break
                except SocketNotListening:
                    await asyncio.sleep(0.05)


async def test_failures_are_distinguished(folder: Path) -> None:
    async def hang(_: bytes) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError

    async def busy(_: bytes) -> bytes:
        raise CallFailed(GrpcCode.RESOURCE_EXHAUSTED, "rejected by rate limit")

    with pytest.raises(CallTimedOut, match=r"List was not answered within 0\.05 s"):
        async with answering(folder, hang, call_s=0.05) as resources:
            await resources.list()
    with pytest.raises(CallFailed, match="rejected by rate limit"):
        async with answering(folder, busy) as resources:
            await resources.list()
    with pytest.raises(LinkGarbled, match="not an answer to List"):
        await listed(folder, b"\xff")


async def test_what_was_admitted_is_listed_until_the_pod_is_gone(folder: Path) -> None:
    async with (
        a_node(folder, offers=offering()) as (kubelet, _),
        open_pod_resources(folder / "pods.sock", 60) as resources,
    ):
        await kubelet.pods.admit("team", "job", {"main": {CARD: 2}, "idle": {}})
        held = PodHolding(
            namespace="team",
            name="job",
            containers={"main": {CARD: frozenset({"c0", "c1"})}, "idle": {}},
        )
        assert await resources.list() == (held,)
        kubelet.pods.ended("team", "job")
        assert await resources.list() == ()
        kubelet.pods.remember(held)
        assert await resources.list() == (held,)
