"""An agent outlives its runtime: it waits for it, comes back to it, and learns what it missed."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from tessera_embedded.runtime.runtime import Joined, Left, open_runtime
from tessera_kubelet.errors import PluginNameInvalid
from tessera_kubelet.nri.plugin import Connected, Disconnected, serve
from tessera_kubelet.nri.settings import NriPluginSettings, RuntimeSettings
from tessera_kubelet.nri.types import Adjustment, ContainerInfo, PodSandbox
from tests.kubelet.agents import CONTAINER, POD, FakeAgent, listening, running

TESSERA = "10-tessera"
GIVEN = Adjustment(env={"CARDS": "GPU-1"})


@pytest.mark.looptime
async def test_it_waits_for_a_runtime_that_is_not_there_yet(tmp_path: Path) -> None:
    socket, agent = tmp_path / "nri.sock", FakeAgent(GIVEN)
    async with running(agent, socket) as observed:
        await observed.until(Disconnected)
        await asyncio.sleep(3600)
        async with open_runtime(socket, RuntimeSettings()) as runtime:
            await runtime.until(TESSERA)
            assert await runtime.create_container(POD, CONTAINER) == GIVEN
            await observed.until(Connected)
    assert observed.seen[:2] == [
        Disconnected(why=f"{socket}: No such file or directory"),
        Connected(runtime="tessera-embedded", version="1", answer_within_s=2.0),
    ]


@pytest.mark.looptime
async def test_it_comes_back_when_the_runtime_restarts(tmp_path: Path) -> None:
    socket, agent = tmp_path / "nri.sock", FakeAgent(GIVEN)
    there: list[ContainerInfo] = []
    async with running(agent, socket) as observed:
        for times in (1, 2, 3):
            async with open_runtime(
                socket, RuntimeSettings(), state=lambda: ([POD], there)
            ) as runtime:
                await runtime.until(TESSERA)
                await observed.until(Connected, times)
                assert agent.containers == there
                assert await runtime.create_container(POD, CONTAINER) == GIVEN
            there.append(CONTAINER)
            await observed.until(Disconnected, times)


@pytest.mark.looptime
async def test_it_does_not_hammer_a_runtime_that_rejects_it(tmp_path: Path) -> None:
    began: list[float] = []

    async def reject(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        began.append(asyncio.get_running_loop().time())

    socket = tmp_path / "nri.sock"
    settings = NriPluginSettings(retry_first_s=0.5, retry_longest_s=4)
    async with listening(socket, reject), running(FakeAgent(), socket, settings) as observed:
        await asyncio.sleep(20)
    waits = [round(b - a, 3) for a, b in pairwise(began)]
    assert waits == [0.5, 1, 2, 4, 4, 4, 4]
    assert all(isinstance(one, Disconnected) for one in observed.seen)


@pytest.mark.looptime
async def test_a_runtime_that_never_sends_its_state_is_left(tmp_path: Path) -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(100):
            pass

    socket = tmp_path / "nri.sock"
    async with listening(socket, say_nothing), running(FakeAgent(), socket) as observed:
        await observed.until(Disconnected)
    assert observed.seen == [
        Disconnected(why="the runtime did not take the plugin in within 10.0 s")
    ]


async def test_an_agent_that_cannot_take_the_state_is_not_connected(tmp_path: Path) -> None:
    class Confused(FakeAgent):
        def synchronize(self, pods: object, containers: object) -> None:
            raise LookupError("a bug")

    seen: list[Joined | Left] = []
    socket = tmp_path / "nri.sock"
    async with (
        open_runtime(socket, RuntimeSettings(), observe=seen.append) as runtime,
        running(Confused(), socket) as observed,
    ):
        await observed.until(Disconnected)
        assert runtime.plugins == ()
    assert seen[0] == Left(plugin=TESSERA, why="Synchronize failed: LookupError: a bug")


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        (NriPluginSettings(name=""), "name: is empty"),
        (NriPluginSettings(index="5"), 'index: "5" must be two digits, such as "10"'),
        (NriPluginSettings(index="ab"), 'index: "ab" must be two digits'),
        (NriPluginSettings(index="٣٣"), "must be two digits"),
    ],
)
async def test_a_name_that_no_runtime_accepts_is_said_at_once(
    tmp_path: Path, settings: NriPluginSettings, what: str
) -> None:
    with pytest.raises(PluginNameInvalid, match=what):
        await serve(tmp_path / "nri.sock", FakeAgent(), settings)


async def test_a_large_state_comes_in_several_messages_and_is_synchronized_once(
    tmp_path: Path,
) -> None:
    pods = [
        PodSandbox(
            id=f"p{i}", name=f"job-{i}", uid=f"u{i}", namespace="team", labels={"l": "x" * 900}
        )
        for i in range(200)
    ]
    containers = [
        ContainerInfo(id=f"c{i}", sandbox_id=f"p{i // 2}", name="main", env={"E": "y" * 400})
        for i in range(400)
    ]
    synchronized: list[int] = []

    class Counting(FakeAgent):
        def synchronize(
            self, pods: Sequence[PodSandbox], containers: Sequence[ContainerInfo]
        ) -> None:
            super().synchronize(pods, containers)
            synchronized.append(1)

    socket, agent = tmp_path / "nri.sock", Counting(GIVEN)
    settings = RuntimeSettings(sync_bytes=10_000)
    async with (
        open_runtime(socket, settings, state=lambda: (pods, containers)) as runtime,
        running(agent, socket),
    ):
        await runtime.until(TESSERA)
        assert await runtime.create_container(POD, CONTAINER) == GIVEN
    assert (agent.pods, agent.containers) == (pods, containers)
    assert len(synchronized) == 1
