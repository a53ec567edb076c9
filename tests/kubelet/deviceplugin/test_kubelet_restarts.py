"""Kubelet says nothing when it restarts: the plugin sees it, and comes back by itself."""

import socket
from pathlib import Path

from msgspec.structs import replace

from tessera_embedded.kubelet.kubelet import open_kubelet
from tessera_kubelet.device_plugin.settings import KubeletSettings
from tessera_kubelet.device_plugin.types import (
    PluginDevice,
    ResourceNotRegistered,
    ResourceRegistered,
)
from tests.kubelet.deviceplugin.nodes import CARD, SOON, FakePlugin, a_node, offering, running

MANY = [PluginDevice(f"card-{n}") for n in range(99)]
OWN = "tessera-vendor.example_card.sock"


async def test_a_kubelet_that_comes_later_is_waited_for(folder: Path) -> None:
    async with running(folder, FakePlugin()) as observed:
        await observed.until_reported("kubelet is not there")
        async with open_kubelet(folder, pod_resources=folder / "pods.sock") as kubelet:
            await kubelet.until_offered(CARD, 2)
            await observed.until_registered()


async def test_after_a_restart_it_is_registered_again(folder: Path) -> None:
    plugin = FakePlugin()
    async with a_node(folder, plugin) as (kubelet, observed):
        await kubelet.pods.admit("team", "before", {"main": {CARD: 1}})
        for times in (2, 3):
            await kubelet.restart()
            await kubelet.until_offered(CARD, 2)
            await observed.until_registered(times)
        await kubelet.pods.admit("team", "after", {"main": {CARD: 1}})
        assert kubelet.registrations == [(CARD, OWN)] * 3
        assert {ids for _, ids in plugin.allocated} == {("c0",), ("c1",)}


async def test_files_of_kubelet_stay(folder: Path) -> None:
    checkpoint = folder / "kubelet_internal_checkpoint"
    checkpoint.write_text("{}", encoding="ascii")
    async with a_node(folder) as (kubelet, observed):
        await kubelet.restart()
        await observed.until_registered(2)
    assert checkpoint.read_text(encoding="ascii") == "{}"


async def test_a_kubelet_that_was_killed_leaves_its_socket_and_is_noticed(folder: Path) -> None:
    async with a_node(folder) as (kubelet, observed):
        await kubelet.kill()
        await observed.until(lambda: isinstance(observed.seen[-1], ResourceNotRegistered))
        assert (folder / "kubelet.sock").is_socket()
        await observed.until_reported("Connection refused")
        await kubelet.start()
        await kubelet.until_offered(CARD, 2)
        await observed.until_registered(2)


async def test_a_socket_of_the_plugin_that_somebody_removed_is_made_again(folder: Path) -> None:
    async with a_node(folder) as (kubelet, observed):
        (folder / OWN).unlink()
        await observed.until_reported("somebody removed it")
        await observed.until_registered(2)
        assert kubelet.registrations == [(CARD, OWN)] * 2
        await kubelet.until_offered(CARD, 2)
        await kubelet.pods.admit("team", "job", {"main": {CARD: 1}})


async def test_a_socket_that_was_left_behind_is_taken_over(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder / OWN))
    async with a_node(folder) as (kubelet, _):
        await kubelet.until_offered(CARD, 2)


async def test_a_file_in_the_way_is_named_and_stays(folder: Path) -> None:
    async with open_kubelet(folder, pod_resources=folder / "pods.sock") as kubelet:
        (folder / OWN).write_text("mine", encoding="ascii")
        async with running(folder, FakePlugin()) as observed:
            await observed.until_reported("lies there and is no socket; remove it")
            assert (folder / OWN).read_text(encoding="ascii") == "mine"
            (folder / OWN).unlink()
            await kubelet.until_offered(CARD, 2)


async def test_a_kubelet_that_takes_no_long_lists_is_reported(folder: Path) -> None:
    async with (
        open_kubelet(
            folder, pod_resources=folder / "pods.sock", settings=KubeletSettings(message_bytes=200)
        ),
        running(folder, FakePlugin(), offering(*MANY)) as observed,
    ):
        await observed.until_reported("kubelet does not watch the devices any more")
        await observed.until_registered(2)


async def test_two_plugins_of_different_prefixes_do_not_disturb_each_other(folder: Path) -> None:
    other = replace(SOON, prefix="other")
    async with (
        a_node(folder) as (kubelet, observed),
        running(folder, FakePlugin(), offering(resource="other.example/card"), other),
    ):
        await kubelet.until_offered("other.example/card", 2)
        await kubelet.restart()
        await kubelet.until_offered("other.example/card", 2)
        await kubelet.until_offered(CARD, 2)
        await observed.until_registered(2)
        assert observed.seen[-1] == ResourceRegistered(resource=CARD)
