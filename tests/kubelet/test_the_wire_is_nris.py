"""Bytes as NRI 0.10 sends and takes them, recorded between its own library and a plugin. One line
of a recording is what one side sent before the other one spoke again."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from tessera_embedded.runtime.runtime import open_runtime
from tessera_kubelet.background import open_tasks
from tessera_kubelet.errors import ContainerRefused
from tessera_kubelet.nri.mux import Frames
from tessera_kubelet.nri.plugin import Connected
from tessera_kubelet.nri.settings import RuntimeSettings
from tessera_kubelet.nri.ttrpc import Messages
from tessera_kubelet.nri.types import (
    Adjustment,
    ContainerInfo,
    CreationRefused,
    NriContainerState,
    NriDevice,
    NriEvent,
    PodSandbox,
)
from tessera_kubelet.proto import nri_pb2 as pb
from tessera_kubelet.proto.ttrpc_pb2 import Request
from tessera_schema.injections import Mount
from tests.kubelet.agents import FakeAgent, dialled, listening, running

RECORDED = Path(__file__).parent / "recorded"
THE_POD = PodSandbox(id="p1", name="pod", uid="u1", namespace="ns", annotations={"k": "v"})
THE_CONTAINER = ContainerInfo(
    id="c1", sandbox_id="p1", name="main", env={"A": "old", "PATH": "/bin"}
)


class Line(NamedTuple):
    side: str
    data: bytes


def recording(name: str) -> list[Line]:
    lines = (RECORDED / name).read_text(encoding="ascii").splitlines()
    return [Line(side, bytes.fromhex(data)) for side, data in map(str.split, lines)]


def calls(data: bytes) -> Iterator[Request]:
    for _, payload in Frames().feed(data):
        yield from (Request.FromString(m.payload) for m in Messages().feed(payload) if m.payload)


async def test_a_plugin_says_what_it_always_said(tmp_path: Path) -> None:
    lines = recording("tessera_asked_by_nri.txt")
    said: list[bytes] = []
    done = asyncio.Event()

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for side, data in lines:
            if side == "plugin":
                said.append(await reader.readexactly(len(data)))
            else:
                writer.write(data)
        done.set()
        await reader.read()

    def give(pod: PodSandbox, container: ContainerInfo) -> Adjustment | CreationRefused:
        if container.name == "bad":
            return CreationRefused(why="no card is left")
        return Adjustment(
            env={"CARDS": "0"},
            mounts=(Mount(destination="/d", source="/s"),),
            devices=(NriDevice(path="/dev/x", major=195, minor=3),),
            annotations={"an": "no"},
            cdi=("v/c=1",),
        )

    agent, socket = FakeAgent(give), tmp_path / "nri.sock"
    async with listening(socket, play), running(agent, socket) as observed:
        await done.wait()
    assert said == [data for side, data in lines if side == "plugin"]
    assert observed.seen[0] == Connected(runtime="real", version="0.10", answer_within_s=2.0)
    assert agent.pods == [
        PodSandbox(id="p0", name="pod", uid="u0", namespace="ns", annotations={"big": "xxx"})
    ]
    assert agent.containers == [
        ContainerInfo(
            id="c0",
            sandbox_id="p0",
            name="main",
            state=NriContainerState.RUNNING,
            env={"A": "1", "B": "yyy"},
        )
    ]
    assert agent.asked == [(THE_POD, THE_CONTAINER), (THE_POD, replace(THE_CONTAINER, name="bad"))]
    assert agent.received == [("started", "main"), ("stopped", "main")]


async def test_a_runtime_understands_nris_own_plugin_and_calls_it_alike(tmp_path: Path) -> None:
    lines = recording("plugin_of_nri.txt")
    said: list[Request] = []

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for side, data in lines:
            if side == "plugin":
                writer.write(data)
                continue
            for _ in Frames().feed(data):
                head = await reader.readexactly(8)
                said.extend(calls(head + await reader.readexactly(int.from_bytes(head[4:]))))

    socket = tmp_path / "nri.sock"
    async with (
        open_runtime(socket, RuntimeSettings(), state=lambda: ([THE_POD], ())) as runtime,
        dialled(socket) as streams,
        open_tasks() as tasks,
    ):
        played = tasks.create_task(play(*streams), name="recorded plugin")
        await runtime.until("20-goplug")
        given = await runtime.create_container(THE_POD, THE_CONTAINER)
        with pytest.raises(ContainerRefused, match='plugin "20-goplug": not this one'):
            await runtime.create_container(THE_POD, replace(THE_CONTAINER, name="bad"))
        await runtime.notify(NriEvent.POST_START_CONTAINER, THE_POD, THE_CONTAINER)
        await runtime.stop_container(THE_POD, THE_CONTAINER)
        await played
    assert given == Adjustment(
        env={"GO": "yes", "BIG": "zzz"},
        mounts=(Mount(destination="/d", source="/s"),),
        devices=(NriDevice(path="/dev/x", major=195, minor=3),),
        annotations={"an": "no"},
        cdi=("v/c=1",),
    )
    recorded = [one for side, data in lines if side == "runtime" for one in calls(data)]
    assert [(one.service, one.method) for one in said] == [
        (one.service, one.method) for one in recorded
    ]
    create, recorded_create = (
        pb.CreateContainerRequest.FromString(of[2].payload) for of in (said, recorded)
    )
    assert create.pod == recorded_create.pod
    assert list(create.container.env) == list(recorded_create.container.env)


def test_events_and_states_are_numbered_as_on_the_wire() -> None:
    assert {e.name: e.value for e in NriEvent} | {"UNKNOWN": 0} == dict(pb.Event.items())
    assert {f"CONTAINER_{s.name}": s.value for s in NriContainerState} == dict(
        pb.ContainerState.items()
    )
