"""What a container gets is what the plugin answers; a failure is reported in its own words."""

import asyncio
from collections.abc import Awaitable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from tessera_kubelet.device_plugin.types import (
    AllocateRefused,
    ContainerAllocation,
    DeviceNode,
    PluginDevice,
)
from tessera_kubelet.errors import ContainerRefused, NodeError, NotAdmitted
from tessera_schema.injections import Mount
from tests.kubelet.deviceplugin.nodes import (
    CARD,
    SLICE,
    SOON,
    FakePlugin,
    a_node,
    offering,
    running,
)

ALL = ContainerAllocation(
    env={"CARDS": "c0,c1", "EMPTY": ""},
    mounts=(
        Mount(destination="/limits", source="/run/limits"),
        Mount(destination="/scratch", source="/var/scratch", read_only=False),
    ),
    devices=(
        DeviceNode(path="/dev/card0", source="/dev/host0"),
        DeviceNode(path="/dev/ctl", source="/dev/ctl", permissions="rwm"),
    ),
    annotations={"vendor.example/cards": "0,1"},
    cdi_devices=("vendor.example/card=0", "vendor.example/card=1"),
)
LONG = ContainerAllocation(env={"CARDS": "c" * (3 << 20)})
"""No socket takes it at once."""


async def hang(_: str, __: Sequence[str]) -> AllocateRefused:
    await asyncio.Event().wait()
    raise AssertionError


async def failing(call: Awaitable[object]) -> str:
    """With which words it fails."""
    with pytest.raises(NodeError) as failed:
        await call
    return str(failed.value)


async def test_a_container_gets_what_the_plugin_gives(folder: Path) -> None:
    plugin = FakePlugin(ALL)
    async with a_node(folder, plugin) as (kubelet, _):
        assert await kubelet.pods.admit("team", "job", {"main": {CARD: 2}}) == {"main": ALL}
        ((resource, ids),) = plugin.allocated
        assert (resource, set(ids)) == (CARD, {"c0", "c1"})


async def test_each_container_and_resource_is_allocated_by_itself(folder: Path) -> None:
    async def give(resource: str, ids: Sequence[str]) -> ContainerAllocation:
        return ContainerAllocation(env={resource: ",".join(ids), "BOTH": resource})

    offers = offering(PluginDevice("c0"), PluginDevice("c1"))
    offers.put(SLICE, [PluginDevice("s0")])
    plugin = FakePlugin(give)
    plugin.advice = ["c0", "s0"]
    async with a_node(folder, plugin, offers) as (kubelet, _):
        asks = {"first": {CARD: 1}, "second": {SLICE: 1, CARD: 1}}
        given = await kubelet.pods.admit("team", "job", asks)
        assert given["first"].env == {CARD: "c0", "BOTH": CARD}
        assert given["second"].env == {SLICE: "s0", CARD: "c1", "BOTH": SLICE}


async def test_a_refusal_ends_the_pod_with_the_plugins_words(folder: Path) -> None:
    plugin = FakePlugin(AllocateRefused("no pod of this node asks for two"))
    async with a_node(folder, plugin) as (kubelet, _):
        with pytest.raises(NotAdmitted, match="Allocate failed due to no pod of this node asks"):
            await kubelet.pods.admit("team", "job", {"main": {CARD: 2}})
        plugin.give = ALL
        assert await kubelet.pods.admit("team", "next", {"main": {CARD: 2}}) == {"main": ALL}


async def test_a_plugin_that_fails_answers_and_goes_on(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: str, __: Sequence[str]) -> AllocateRefused:
        raise LookupError("which pod?")

    plugin = FakePlugin(fail, fail)
    async with a_node(folder, plugin) as (kubelet, _):
        with pytest.raises(NotAdmitted, match=r"LookupError: which pod\?"):
            await kubelet.pods.admit("team", "job", {"main": {CARD: 1}})
        plugin.give = ALL
        await kubelet.pods.admit("team", "next", {"main": {CARD: 1}})
        with pytest.raises(ContainerRefused, match=r"LookupError: which pod\?"):
            await kubelet.pods.start("team", "next", "main")
    assert [record.message for record in caplog.records if record.name.startswith("tessera")] == [
        "a call failed"
    ] * 2


async def test_a_plugin_that_hangs_holds_up_nothing_else_and_not_for_ever(folder: Path) -> None:
    plugin = FakePlugin(hang, hang)
    settings = replace(SOON, answer_s=0.2)
    async with a_node(folder, plugin, settings=settings) as (kubelet, _):
        with pytest.raises(NotAdmitted, match=f"Allocate of {CARD} was not decided within 0.2 s"):
            await kubelet.pods.admit("team", "job", {"main": {CARD: 1}})
        plugin.give = ALL
        await kubelet.pods.admit("team", "next", {"main": {CARD: 1}})
        async with asyncio.TaskGroup() as tasks:
            starting = kubelet.pods.start("team", "next", "main")
            failure = tasks.create_task(failing(starting), name="start")
            await kubelet.pods.admit("team", "meanwhile", {"main": {CARD: 1}})
            assert f"PreStartContainer of {CARD} was not decided within 0.2 s" in await failure
            plugin.start = None
            await kubelet.pods.start("team", "next", "main")


async def test_every_start_comes_with_the_same_ids(folder: Path) -> None:
    plugin = FakePlugin()
    async with a_node(folder, plugin) as (kubelet, _):
        await kubelet.pods.admit("team", "job", {"main": {CARD: 1}})
        for _ in range(2):
            await kubelet.pods.start("team", "job", "main")
        plugin.start = AllocateRefused("kubelet gave these to team/other")
        with pytest.raises(ContainerRefused, match="kubelet gave these to team/other"):
            await kubelet.pods.start("team", "job", "main")
    assert plugin.started == plugin.allocated * 3


async def test_advice_is_taken_as_far_as_it_can_be(folder: Path) -> None:
    plugin = FakePlugin()
    async with a_node(folder, plugin) as (kubelet, _):
        plugin.advice = ["c1", "c9"]
        await kubelet.pods.admit("team", "one", {"main": {CARD: 1}})
        assert plugin.advised == [(CARD, ("c0", "c1"), (), 1)]
        await kubelet.pods.admit("team", "other", {"main": {CARD: 1}})
        assert plugin.allocated == [(CARD, ("c1",)), (CARD, ("c0",))]
        with pytest.raises(NotAdmitted, match=f"{CARD}: 1 were asked for, 0 are free"):
            await kubelet.pods.admit("team", "third", {"main": {CARD: 1}})
        kubelet.pods.ended("team", "one")
        await kubelet.pods.admit("team", "third", {"main": {CARD: 1}})


async def test_advice_that_fails_is_none(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Clueless(FakePlugin):
        def preferred(
            self, resource: str, available: Sequence[str], must_include: Sequence[str], size: int
        ) -> Sequence[str]:
            raise LookupError(resource)

    async with a_node(folder, Clueless()) as (kubelet, _):
        await kubelet.pods.admit("team", "job", {"main": {CARD: 2}})
    assert "no advice on ids" in caplog.text


async def test_a_sentence_of_any_length_arrives(folder: Path) -> None:
    async with a_node(folder, FakePlugin(AllocateRefused("太大 " * 10_000))) as (kubelet, _):
        with pytest.raises(NotAdmitted, match="太大 太大") as refused:
            await kubelet.pods.admit("team", "job", {"main": {CARD: 1}})
    assert len(str(refused.value)) > 500


@pytest.mark.parametrize("answer", [ALL, LONG], ids=["short", "long"])
async def test_a_call_under_way_may_end_when_the_plugin_stops(
    folder: Path, answer: ContainerAllocation
) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def give(_: str, __: Sequence[str]) -> ContainerAllocation:
        asked.set()
        await go_on.wait()
        return answer

    settings = replace(SOON, drain_s=60)
    async with asyncio.TaskGroup() as tasks, a_node(folder) as (kubelet, _):
        async with running(folder, FakePlugin(give), offering(resource=SLICE), settings):
            await kubelet.until_offered(SLICE, 2)
            admission = kubelet.pods.admit("team", "job", {"main": {SLICE: 1}})
            admitted = tasks.create_task(admission, name="admission")
            await asked.wait()
            asyncio.get_running_loop().call_later(0.05, go_on.set)
        assert await admitted == {"main": answer}


async def test_a_call_that_hangs_does_not_keep_the_plugin(folder: Path) -> None:
    asked = asyncio.Event()

    async def give(resource: str, ids: Sequence[str]) -> AllocateRefused:
        asked.set()
        return await hang(resource, ids)

    settings = replace(SOON, drain_s=0.1, answer_s=600)
    async with asyncio.TaskGroup() as tasks, a_node(folder) as (kubelet, _):
        async with running(folder, FakePlugin(give), offering(resource=SLICE), settings):
            await kubelet.until_offered(SLICE, 2)
            admission = kubelet.pods.admit("team", "job", {"main": {SLICE: 1}})
            failure = tasks.create_task(failing(admission), name="admission")
            await asked.wait()
        assert "Allocate failed due to" in await failure
