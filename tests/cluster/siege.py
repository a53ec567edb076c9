"""What strangers, tenants and nodes may send to make a scheduler stop, all of it well-formed."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tessera_core.trust.grants import new_key
from tessera_core.trust.messages import MessageSigner
from tessera_runtime.bus.client import open_bus
from tessera_runtime.bus.outbox import open_outbox
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.clock import SystemClock
from tessera_schema.grants import Share
from tessera_schema.messages.device_reports import DeviceState, Occupied, encode
from tessera_schema.messages.event_catalogue import DEVICE_STATE
from tessera_schema.node_cards import NodeCardsAnnotation
from tessera_schema.subjects import DEVICES_BUCKET
from tests.cluster.objects import a_share, a_share_pod, some_cards
from tests.contract.client import Json

REVIEW_BYTES: Final = int(2.8 * (1 << 20))
"""Of a review of the largest pod that an API server takes in a request, nearly."""
_TOGETHER: Final = 8
_PUT_OFF: Final = (TimeoutError, ConnectionError, asyncio.IncompleteReadError)


def with_volumes(name: str, count: int) -> Json:
    """A pod that mounts so many folders of its host."""
    pod = a_share_pod(name, a_share(100))
    pod["spec"]["volumes"] = [
        {"name": f"v{i}", "hostPath": {"path": f"/srv/{i}"}} for i in range(count)
    ]
    pod["spec"]["containers"][0]["volumeMounts"] = [
        {"name": f"v{i}", "mountPath": f"/srv/{i}"} for i in range(count)
    ]
    return pod


def with_annotations(name: str, count: int) -> Json:
    """A pod with so many of Tessera's own keys."""
    notes = {f"tessera.dev/{i}": "" for i in range(count)}
    return a_share_pod(name, a_share(100), annotations=notes)


def with_containers(name: str, count: int) -> Json:
    """A pod whose containers each ask for 1 MiB of a card."""
    pod = a_share_pod(name, a_share(1))
    (first,) = pod["spec"]["containers"]
    pod["spec"]["containers"] = [{**first, "name": f"c{i}"} for i in range(count)]
    return pod


class Stranger:
    """Somebody on the pod network, at the webhook's port."""

    def __init__(self, port: int) -> None:
        """It asks for no certificate and offers none."""
        self._port = port
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE

    async def reviews(self, count: int, size: int = REVIEW_BYTES) -> Counter[str]:
        """Ask for so many reviews of large, different pods; the status lines of the answers, and
        how the others ended."""
        answers: Counter[str] = Counter()
        left = iter(range(count))

        async def asker() -> None:
            for number in left:
                answers[await self._review(number, size)] += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(_TOGETHER):
                group.create_task(asker(), name="asker")
        return answers

    async def _review(self, number: int, size: int) -> str:
        body = a_large_review(number, size)
        head = (
            f"POST /mutate HTTP/1.1\r\nHost: tessera\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        try:
            async with asyncio.timeout(60):
                reader, writer = await self._connect()
                try:
                    writer.write(head.encode() + body)
                    line = await reader.readuntil(b"\r\n")
                    return line.decode().strip()
                finally:
                    writer.transport.abort()
        except _PUT_OFF as error:
            return type(error).__name__

    @asynccontextmanager
    async def trickle(self, connections: int) -> AsyncGenerator[Callable[[], int]]:
        """So many connections that each send the beginning of a large review, and a byte now and
        then; gives how many of them are still open."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._trickle(), name=f"trickle {i}") for i in range(connections)
            ]
            yield lambda: sum(not task.done() for task in tasks)
            for task in tasks:
                task.cancel()

    async def _trickle(self) -> None:
        try:
            _, writer = await self._connect()
            try:
                writer.write(
                    b"POST /mutate HTTP/1.1\r\nHost: tessera\r\nContent-Type: application/json\r\n"
                    b"Content-Length: 8000000\r\n\r\n" + b" " * 100_000
                )
                while True:
                    await writer.drain()
                    await asyncio.sleep(1)
                    writer.write(b" ")
            finally:
                writer.transport.abort()
        except (ConnectionError, TimeoutError, ssl.SSLError):
            return

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._port, ssl=self._tls)


def a_large_review(number: int, size: int) -> bytes:
    """The question of an API server about a pod with one variable of that size, for a dry run."""
    pod = a_share_pod(f"large-{number}", a_share(100))
    pod["metadata"]["namespace"] = "default"
    pod["spec"]["containers"][0]["env"] = [{"name": "LARGE", "value": f"{number:x}" * 8}]
    pod["spec"]["containers"][0]["env"][0]["value"] += "x" * size
    review = {
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": f"{number}", "operation": "CREATE", "dryRun": True, "namespace": "default",
            "name": pod["metadata"]["name"],
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "userInfo": {"username": "somebody"}, "object": pod,
        },
    }  # fmt: skip
    return json.dumps(review).encode()


async def lie(url: str, nodes: Iterable[str], liar: str) -> None:
    """What one agent says on the bus about all nodes: that their cards are gone, and that a vendor
    which does not exist has filled them. It signs with a key of its own, or not at all."""
    speaker = MessageSigner(new_key())
    async with open_bus(BusSettings(url=url, arrange=False), "agent", liar) as bus:
        for sign in (None, speaker.sign):
            async with open_outbox(bus, SystemClock(), "agent", liar, sign=sign) as outbox:
                for node in nodes:
                    for state in _lies(node):
                        key = f"{node}.{state.vendor}"
                        outbox.publish_state(DEVICES_BUCKET, key, DEVICE_STATE, encode(state))
                await asyncio.sleep(1)


def _lies(node: str) -> tuple[DeviceState, ...]:
    shares = tuple(
        Share(
            container="main", position=0, vendor="nvidia", dialect="hami", card=card.id,
            index=card.index, memory_bytes=card.memory_bytes, cores_percent=100,
        )
        for card in some_cards(node, 8)
    )  # fmt: skip
    ghost = Occupied(uid=f"ghost-{node}", namespace="default", name="ghost", shares=shares)
    return (
        DeviceState(node=node, vendor="nvidia"),
        DeviceState(node=node, vendor="nvidia", occupied=(ghost,)),
        DeviceState(node=node, vendor="bogus", occupied=(ghost,)),
    )


def shows(node: str) -> NodeCardsAnnotation:
    """Eight cards of a node whose agent signs what it publishes."""
    return NodeCardsAnnotation(
        cards=tuple(some_cards(node, 8)), speaks=MessageSigner(new_key()).public
    )


def as_many_as_fit(count: int) -> str:
    """The annotation of a node that publishes so many cards; the API server takes 256 KiB."""
    cards = [
        {"id": f"{i:x}", "index": i % 8, "vendor": "nvidia", "memory_bytes": 1 << 20}
        for i in range(count)
    ]
    return json.dumps({"version": 1, "cards": cards}, separators=(",", ":"))


def peak_mib(pid: int) -> float:
    """The most memory that a process has had."""
    rows = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    (line,) = (row for row in rows if row.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024
