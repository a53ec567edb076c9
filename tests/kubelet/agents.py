"""An agent and a runtime for tests, and peers that speak bare bytes."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tessera_kubelet.background import open_tasks
from tessera_kubelet.errors import LinkLost
from tessera_kubelet.nri import protobuf
from tessera_kubelet.nri.mux import Trunk
from tessera_kubelet.nri.plugin import Connected, Disconnected, serve
from tessera_kubelet.nri.settings import NriPluginSettings
from tessera_kubelet.nri.ttrpc import Client, Messages, TtrpcMessageKind, message
from tessera_kubelet.nri.types import Adjustment, ContainerInfo, CreationRefused, PodSandbox
from tessera_kubelet.proto import nri_pb2 as pb
from tessera_kubelet.proto.ttrpc_pb2 import Request, Response

POD = PodSandbox(id="sb-1", name="job", uid="u-1", namespace="team", annotations={"grant": "yes"})
CONTAINER = ContainerInfo(
    id="c-1", sandbox_id="sb-1", name="train", env={"PATH": "/bin", "CARDS": "all"}
)

Give = Callable[[PodSandbox, ContainerInfo], Adjustment | CreationRefused]


class FakeAgent:
    """Answers with what it was given, and records every call."""

    def __init__(self, give: Give | Adjustment | CreationRefused | None = None) -> None:
        self.give = give or Adjustment()
        self.received: list[tuple[str, str]] = []
        self.pods: Sequence[PodSandbox] = ()
        self.containers: Sequence[ContainerInfo] = ()
        self.asked: list[tuple[PodSandbox, ContainerInfo]] = []

    def synchronize(self, pods: Sequence[PodSandbox], containers: Sequence[ContainerInfo]) -> None:
        self.pods, self.containers = pods, containers

    def create_container(
        self, pod: PodSandbox, container: ContainerInfo
    ) -> Adjustment | CreationRefused:
        self.asked.append((pod, container))
        return self.give(pod, container) if callable(self.give) else self.give

    def container_started(self, pod: PodSandbox, container: ContainerInfo) -> None:
        self.received.append(("started", container.name))

    def container_stopped(self, pod: PodSandbox, container: ContainerInfo) -> None:
        self.received.append(("stopped", container.name))

    def container_removed(self, pod: PodSandbox, container: ContainerInfo) -> None:
        self.received.append(("removed", container.name))

    def pod_stopped(self, pod: PodSandbox) -> None:
        self.received.append(("pod stopped", pod.name))

    def pod_removed(self, pod: PodSandbox) -> None:
        self.received.append(("pod removed", pod.name))


class Observations:
    """What `serve` reports to its observer; can be waited for."""

    def __init__(self) -> None:
        self.seen: list[Connected | Disconnected] = []
        self._changed = asyncio.Event()

    def __call__(self, observed: Connected | Disconnected) -> None:
        self.seen.append(observed)
        self._changed.set()

    async def until(self, kind: type[Connected | Disconnected], times: int = 1) -> None:
        while sum(isinstance(observed, kind) for observed in self.seen) < times:
            self._changed.clear()
            await self._changed.wait()


@asynccontextmanager
async def running(
    agent: FakeAgent, socket: Path, settings: NriPluginSettings | None = None
) -> AsyncGenerator[Observations]:
    """The agent as a plugin of the runtime that listens at the socket, or will."""
    observed = Observations()
    async with open_tasks() as tasks:
        tasks.create_task(
            serve(socket, agent, settings or NriPluginSettings(), observed), name="agent under test"
        )
        yield observed


Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(socket: Path, peer: Peer) -> AsyncGenerator[None]:
    """A runtime that is not one: `peer` has each connection."""
    async with open_tasks() as tasks:

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            async def have() -> None:
                await peer(reader, writer)

            task = tasks.create_task(have(), name="peer")
            task.add_done_callback(lambda _: writer.transport.abort())

        server = await asyncio.start_unix_server(connected, socket)
        try:
            yield
        finally:
            server.close()


@asynccontextmanager
async def dialled(
    socket: Path,
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A plugin that is not one."""
    reader, writer = await asyncio.open_unix_connection(socket)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


class Scripted:
    """A plugin's serving end that answers what it has an answer for, and nothing else."""

    def __init__(self, trunk: Trunk, answers: Mapping[str, bytes]) -> None:
        self._channel = trunk.open(protobuf.PLUGIN_CONNECTION, self)
        self._messages = Messages()
        self._answers = answers

    def receive(self, data: bytes) -> None:
        for came in self._messages.feed(data):
            answer = self._answers.get(Request.FromString(came.payload).method)
            if answer is not None:
                out = Response(payload=answer).SerializeToString()
                self._channel.send(message(came.stream, TtrpcMessageKind.RESPONSE, out))

    def lost(self, error: LinkLost) -> None:
        pass


@asynccontextmanager
async def scripted(
    socket: Path, answers: Mapping[str, bytes], *, name: str = "scripted", index: str = "50"
) -> AsyncGenerator[None]:
    """A plugin that registers and answers as scripted; being cut off is no failure."""
    async with dialled(socket) as streams:
        trunk = Trunk(*streams, write_s=2)
        Scripted(trunk, answers)
        client = Client(trunk, protobuf.RUNTIME_CONNECTION)
        asked = pb.RegisterPluginRequest(plugin_name=name, plugin_idx=index).SerializeToString()

        async def live() -> None:
            with suppress(LinkLost):
                async with trunk.reading("scripted plugin"):
                    await client.call(protobuf.RUNTIME_SERVICE, "RegisterPlugin", asked, within_s=5)
                    await asyncio.Event().wait()

        async with open_tasks() as tasks:
            tasks.create_task(live(), name="scripted plugin")
            yield
