"""A runtime does not wait for plugins that fail, and fails closed where it is configured to."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from tessera_embedded.runtime.runtime import Joined, Left, open_runtime
from tessera_kubelet.errors import (
    CallFailed,
    ContainerNotCreated,
    ContainerRefused,
    GrpcCode,
    PluginMissing,
    SocketUnusable,
)
from tessera_kubelet.nri import protobuf
from tessera_kubelet.nri.mux import Trunk
from tessera_kubelet.nri.settings import RuntimeSettings
from tessera_kubelet.nri.ttrpc import Client
from tessera_kubelet.nri.types import Adjustment, NriEvent, PodSandbox
from tessera_kubelet.proto import nri_pb2 as pb
from tests.kubelet.agents import CONTAINER, POD, FakeAgent, dialled, running, scripted

TESSERA, SCRIPTED = "10-tessera", "50-scripted"
GIVEN = Adjustment(env={"CARDS": "GPU-1"})
JOINS: Mapping[str, bytes] = {"Configure": b"", "Synchronize": b""}
REQUIRED = RuntimeSettings(
    required_plugins=("tessera",), tolerate_missing_annotation="tolerate.example"
)


@pytest.mark.looptime
async def test_a_plugin_that_does_not_answer_is_cut_off_and_the_others_count(
    tmp_path: Path,
) -> None:
    socket = tmp_path / "nri.sock"
    seen: list[Joined | Left] = []
    async with (
        open_runtime(socket, RuntimeSettings(), observe=seen.append) as runtime,
        running(FakeAgent(GIVEN), socket),
        scripted(socket, JOINS),
    ):
        await runtime.until(TESSERA, SCRIPTED)
        assert await runtime.create_container(POD, CONTAINER) == GIVEN
        await runtime.until(TESSERA)
        assert await runtime.create_container(POD, CONTAINER) == GIVEN
    why = "CreateContainer was not answered within 2.0 s"
    assert Left(plugin=SCRIPTED, why=why) in seen


@pytest.mark.looptime
async def test_an_event_that_is_not_answered_cuts_the_plugin_off_too(tmp_path: Path) -> None:
    socket = tmp_path / "nri.sock"
    async with open_runtime(socket, RuntimeSettings()) as runtime, scripted(socket, JOINS):
        await runtime.until(SCRIPTED)
        await runtime.notify(NriEvent.RUN_POD_SANDBOX, POD)
        await runtime.until()


async def test_a_plugin_gets_only_the_events_that_it_subscribed_to(tmp_path: Path) -> None:
    stops = pb.ConfigureResponse(
        events=protobuf.mask([NriEvent.STOP_CONTAINER])
    ).SerializeToString()
    socket = tmp_path / "nri.sock"
    answers = {"Configure": stops, "Synchronize": b"", "StopContainer": b""}
    async with open_runtime(socket, RuntimeSettings()) as runtime, scripted(socket, answers):
        await runtime.until(SCRIPTED)
        assert await runtime.create_container(POD, CONTAINER) == Adjustment()
        await runtime.notify(NriEvent.REMOVE_CONTAINER, POD, CONTAINER)
        await runtime.stop_container(POD, CONTAINER)
        assert runtime.plugins == (SCRIPTED,)


async def test_an_unreadable_answer_fails_the_container(tmp_path: Path) -> None:
    socket = tmp_path / "nri.sock"
    answers = {**JOINS, "CreateContainer": b"\xff\xff"}
    async with open_runtime(socket, RuntimeSettings()) as runtime, scripted(socket, answers):
        await runtime.until(SCRIPTED)
        with pytest.raises(ContainerRefused, match='plugin "50-scripted" gave an unusable answer'):
            await runtime.create_container(POD, CONTAINER)


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ({}, "Configure failed: Configure was not answered within 2.0 s"),
        ({"Configure": b"\xff"}, "Configure failed: "),
        ({"Configure": b"\x10\x80\x80\x01"}, "it subscribes to events that do not exist: 0x4000"),
        ({"Configure": b"", "Synchronize": b"\xff"}, "Synchronize failed: "),
        (JOINS, "it does not take Synchronize in several messages"),
    ],
)
async def test_a_plugin_that_does_not_join_properly_is_not_called(
    tmp_path: Path, answers: Mapping[str, bytes], why: str
) -> None:
    socket = tmp_path / "nri.sock"
    left: asyncio.Queue[Joined | Left] = asyncio.Queue()
    settings = RuntimeSettings(sync_bytes=1)
    async with (
        open_runtime(
            socket,
            settings,
            state=lambda: ([POD, POD], [CONTAINER]),
            observe=left.put_nowait,
        ) as runtime,
        scripted(socket, answers),
    ):
        observed = await left.get()
        assert runtime.plugins == ()
    assert isinstance(observed, Left)
    assert observed.plugin == SCRIPTED
    assert observed.why.startswith(why)


@pytest.mark.looptime
async def test_a_peer_that_connects_and_says_nothing_is_cut_off(tmp_path: Path) -> None:
    socket = tmp_path / "nri.sock"
    seen: list[Joined | Left] = []
    async with (
        open_runtime(socket, RuntimeSettings(), observe=seen.append),
        dialled(socket) as (reader, _),
    ):
        assert await reader.read() == b""
    assert seen == [Left(plugin="", why="it did not register within 5.0 s")]


@pytest.mark.parametrize(
    ("name", "index", "why"),
    [
        ("", "10", "plugin_name: is empty"),
        ("x", "", 'plugin_idx: "" must be two digits'),
        ("x", "100", 'plugin_idx: "100" must be two digits'),
    ],
)
async def test_a_registration_under_a_bad_name_is_refused(
    tmp_path: Path, name: str, index: str, why: str
) -> None:
    asked = pb.RegisterPluginRequest(plugin_name=name, plugin_idx=index).SerializeToString()
    socket = tmp_path / "nri.sock"
    async with open_runtime(socket, RuntimeSettings()), dialled(socket) as streams:
        trunk = Trunk(*streams, write_s=2)
        client = Client(trunk, protobuf.RUNTIME_CONNECTION)
        async with trunk.reading("plugin"):
            with pytest.raises(CallFailed, match=why) as failed:
                await client.call(protobuf.RUNTIME_SERVICE, "RegisterPlugin", asked, within_s=20)
            assert failed.value.code == GrpcCode.INVALID_ARGUMENT


async def test_without_a_required_plugin_no_container_is_created(tmp_path: Path) -> None:
    socket = tmp_path / "nri.sock"
    async with open_runtime(socket, REQUIRED) as runtime:
        with pytest.raises(PluginMissing, match='required plugin "tessera" not present'):
            await runtime.create_container(POD, CONTAINER)
        async with running(FakeAgent(GIVEN), socket):
            await runtime.until(TESSERA)
            assert await runtime.create_container(POD, CONTAINER) == GIVEN
        await runtime.until()
        await runtime.notify(NriEvent.RUN_POD_SANDBOX, POD)
        with pytest.raises(PluginMissing):
            await runtime.create_container(POD, CONTAINER)


@pytest.mark.looptime
async def test_one_container_slips_through_while_a_required_plugin_fails_as_in_nri(
    tmp_path: Path,
) -> None:
    socket = tmp_path / "nri.sock"
    settings = RuntimeSettings(required_plugins=(SCRIPTED,))
    async with open_runtime(socket, settings) as runtime, scripted(socket, JOINS):
        await runtime.until(SCRIPTED)
        assert await runtime.create_container(POD, CONTAINER) == Adjustment()
        with pytest.raises(PluginMissing, match='required plugin "50-scripted" not present'):
            await runtime.create_container(POD, CONTAINER)


async def test_all_that_is_missing_is_named(tmp_path: Path) -> None:
    settings = RuntimeSettings(required_plugins=("tessera", "other", "20-third"))
    socket = tmp_path / "nri.sock"
    async with open_runtime(socket, settings) as runtime, running(FakeAgent(), socket):
        await runtime.until(TESSERA)
        with pytest.raises(PluginMissing, match='required plugins "other,20-third" not present'):
            await runtime.create_container(POD, CONTAINER)


def tolerating(key: str, value: str) -> PodSandbox:
    return replace(POD, annotations={key: value})


@pytest.mark.parametrize(
    "key",
    ["tolerate.example", "tolerate.example/pod", "tolerate.example/container.train"],
)
async def test_a_pod_may_say_that_it_needs_no_plugin(tmp_path: Path, key: str) -> None:
    async with open_runtime(tmp_path / "nri.sock", REQUIRED) as runtime:
        pod = tolerating(key, "true")
        assert await runtime.create_container(pod, CONTAINER) == Adjustment()
        with pytest.raises(PluginMissing):
            await runtime.create_container(tolerating(key, "false"), CONTAINER)
        with pytest.raises(PluginMissing):
            await runtime.create_container(tolerating(key + ".not", "true"), CONTAINER)
        with pytest.raises(ContainerNotCreated, match=f'{key}: "yes" must be "true" or "false"'):
            await runtime.create_container(tolerating(key, "yes"), CONTAINER)


async def test_a_socket_that_cannot_be_is_named(tmp_path: Path) -> None:
    socket = tmp_path / "missing" / "nri.sock"
    with pytest.raises(SocketUnusable, match=f"{socket}: No such file or directory"):
        async with open_runtime(socket, RuntimeSettings()):
            pass
    long = tmp_path / ("x" * 200)
    with pytest.raises(SocketUnusable, match="AF_UNIX path too long"):
        async with open_runtime(long, RuntimeSettings()):
            pass
