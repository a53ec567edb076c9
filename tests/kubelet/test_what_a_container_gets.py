"""A container gets what its plugins say: with exact identity, in order, or not at all."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tessera_embedded.runtime.merge import amended
from tessera_embedded.runtime.runtime import open_runtime
from tessera_kubelet.errors import AdjustmentsClash, ContainerRefused
from tessera_kubelet.nri.settings import NriPluginSettings, RuntimeSettings
from tessera_kubelet.nri.types import (
    Adjustment,
    ContainerInfo,
    CreationRefused,
    NriContainerState,
    NriDevice,
    NriEvent,
    PodSandbox,
)
from tessera_schema.injections import Mount
from tests.kubelet.agents import CONTAINER, POD, FakeAgent, running

TESSERA, OTHER = "10-tessera", "20-other"
ON_20 = NriPluginSettings(name="other", index="20")
ALL = Adjustment(
    env={"CARDS": "GPU-1", "EMPTY": ""},
    mounts=(
        Mount(destination="/usage", source="/var/u-1", read_only=False),
        Mount(destination="/limits", source="/etc/u-1"),
    ),
    devices=(
        NriDevice(path="/dev/card1", major=195, minor=1),
        NriDevice(path="/b", major=8, minor=0, type="b"),
    ),
    cdi=("vendor.com/card=1",),
    annotations={"given": "GPU-1"},
)


async def test_everything_given_arrives(tmp_path: Path) -> None:
    socket = tmp_path / "nri.sock"
    full = replace(
        CONTAINER,
        state=NriContainerState.CREATED,
        labels={"l": "1"},
        annotations={"a": "2"},
        args=("sleep", "1"),
        mounts=(Mount(destination="/data", source="/srv"),),
        devices=(NriDevice(path="/dev/null", major=1, minor=3),),
        cgroup="/kubepods/u-1",
        pid=42,
    )
    agent = FakeAgent(ALL)
    async with open_runtime(socket, RuntimeSettings()) as runtime, running(agent, socket):
        await runtime.until(TESSERA)
        assert await runtime.create_container(POD, full) == ALL
    assert agent.asked == [(POD, full)]


async def test_no_plugin_no_adjustment(tmp_path: Path) -> None:
    async with open_runtime(tmp_path / "nri.sock", RuntimeSettings()) as runtime:
        assert await runtime.create_container(POD, CONTAINER) == Adjustment()


async def test_a_refusal_fails_the_container_with_the_plugins_words(tmp_path: Path) -> None:
    socket = tmp_path / "nri.sock"
    agent = FakeAgent(CreationRefused(why="card GPU-1 has no 4000 MiB left"))
    async with open_runtime(socket, RuntimeSettings()) as runtime, running(agent, socket):
        await runtime.until(TESSERA)
        with pytest.raises(ContainerRefused, match="card GPU-1 has no 4000 MiB left"):
            await runtime.create_container(POD, CONTAINER)
        agent.give = ALL
        assert await runtime.create_container(POD, CONTAINER) == ALL


async def test_a_bug_in_the_agent_fails_the_container_and_not_the_connection(
    tmp_path: Path,
) -> None:
    def divide(pod: PodSandbox, container: ContainerInfo) -> Adjustment:
        raise ZeroDivisionError("a bug")

    socket, agent = tmp_path / "nri.sock", FakeAgent(divide)
    async with open_runtime(socket, RuntimeSettings()) as runtime, running(agent, socket):
        await runtime.until(TESSERA)
        with pytest.raises(ContainerRefused, match="ZeroDivisionError: a bug"):
            await runtime.create_container(POD, CONTAINER)
        assert runtime.plugins == (TESSERA,)


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (Adjustment(env={"-PATH": ""}), "env"),
        (Adjustment(mounts=(Mount(destination="-/d", source="/s"),)), "mounts"),
        (Adjustment(devices=(NriDevice(path="-/dev/x", major=1, minor=1),)), "devices"),
        (Adjustment(annotations={"-a": ""}), "annotations"),
    ],
)
async def test_what_nri_would_read_as_a_removal_is_not_said(
    tmp_path: Path, asked: Adjustment, field: str
) -> None:
    socket = tmp_path / "nri.sock"
    async with (
        open_runtime(socket, RuntimeSettings()) as runtime,
        running(FakeAgent(asked), socket),
    ):
        await runtime.until(TESSERA)
        with pytest.raises(ContainerRefused, match=f'{field}: "-.*" begins with "-"'):
            await runtime.create_container(POD, CONTAINER)


async def test_plugins_are_called_by_index_and_each_sees_what_came_before(tmp_path: Path) -> None:
    socket = tmp_path / "nri.sock"
    first, second = FakeAgent(ALL), FakeAgent(Adjustment(env={"TOPOLOGY": "ring"}))
    async with (
        open_runtime(socket, RuntimeSettings()) as runtime,
        running(second, socket, ON_20),
    ):
        await runtime.until(OTHER)
        async with running(first, socket):
            await runtime.until(TESSERA, OTHER)
            given = await runtime.create_container(POD, CONTAINER)
    assert given == replace(ALL, env={**ALL.env, "TOPOLOGY": "ring"})
    assert first.asked == [(POD, CONTAINER)]
    assert second.asked == [(POD, amended(CONTAINER, ALL))]
    assert second.asked[0][1].env["CARDS"] == "GPU-1"


def test_an_adjustment_replaces_what_has_its_name() -> None:
    before = replace(
        CONTAINER,
        mounts=(
            Mount(destination="/usage", source="/old"),
            Mount(destination="/data", source="/d"),
        ),
        devices=(NriDevice(path="/b", major=7, minor=7),),
        annotations={"given": "nothing", "kept": "yes"},
    )
    after = amended(before, ALL)
    assert after.env == {"PATH": "/bin", "CARDS": "GPU-1", "EMPTY": ""}
    assert {m.destination: m.source for m in after.mounts} == {
        "/usage": "/var/u-1",
        "/data": "/d",
        "/limits": "/etc/u-1",
    }
    assert {d.path: d.major for d in after.devices} == {"/b": 8, "/dev/card1": 195}
    assert after.annotations == {"given": "GPU-1", "kept": "yes"}


@pytest.mark.parametrize(
    ("again", "entry"),
    [
        (Adjustment(env={"CARDS": "GPU-1"}), 'env "CARDS"'),
        (Adjustment(mounts=(Mount(destination="/usage", source="/x"),)), 'mount "/usage"'),
        (Adjustment(devices=(NriDevice(path="/b", major=8, minor=0),)), 'device "/b"'),
        (Adjustment(cdi=ALL.cdi), 'CDI device "vendor.com/card=1"'),
        (Adjustment(annotations={"given": "GPU-2"}), 'annotation "given"'),
    ],
)
async def test_two_plugins_that_set_the_same_thing_fail_the_container(
    tmp_path: Path, again: Adjustment, entry: str
) -> None:
    socket = tmp_path / "nri.sock"
    async with (
        open_runtime(socket, RuntimeSettings()) as runtime,
        running(FakeAgent(ALL), socket),
        running(FakeAgent(again), socket, ON_20),
    ):
        await runtime.until(TESSERA, OTHER)
        both = f'plugins "{OTHER}" and "{TESSERA}" both tried to set {entry}'
        with pytest.raises(AdjustmentsClash, match=both):
            await runtime.create_container(POD, CONTAINER)


async def test_the_agent_gets_the_events_of_pods_and_containers(tmp_path: Path) -> None:
    socket, agent = tmp_path / "nri.sock", FakeAgent()
    async with open_runtime(socket, RuntimeSettings()) as runtime, running(agent, socket):
        await runtime.until(TESSERA)
        await runtime.notify(NriEvent.RUN_POD_SANDBOX, POD)
        await runtime.notify(NriEvent.START_CONTAINER, POD, CONTAINER)
        await runtime.notify(NriEvent.POST_START_CONTAINER, POD, CONTAINER)
        await runtime.stop_container(POD, CONTAINER)
        await runtime.notify(NriEvent.REMOVE_CONTAINER, POD, CONTAINER)
        await runtime.notify(NriEvent.STOP_POD_SANDBOX, POD)
        await runtime.notify(NriEvent.REMOVE_POD_SANDBOX, POD)
    assert agent.received == [
        ("started", "train"),
        ("stopped", "train"),
        ("removed", "train"),
        ("pod stopped", "job"),
        ("pod removed", "job"),
    ]
