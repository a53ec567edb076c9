"""Each resource is registered by itself; kubelet gets the whole list again on every change."""

import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from tessera_kubelet.device_plugin.device_lists import DeviceLists
from tessera_kubelet.device_plugin.types import PluginDevice, ResourceRegistered
from tessera_kubelet.errors import PluginNameInvalid, SocketUnusable
from tests.kubelet.deviceplugin.nodes import (
    CARD,
    SLICE,
    SOON,
    TWO,
    FakePlugin,
    a_node,
    offering,
    running,
)


async def test_what_is_offered_is_registered_and_listed(folder: Path) -> None:
    devices = (PluginDevice("c0", numa=(0, 1)), PluginDevice("c1", healthy=False))
    async with a_node(folder, offers=offering(*devices)) as (kubelet, observed):
        await kubelet.until_offered(CARD, 1)
        assert kubelet.devices(CARD) == devices
        assert observed.seen == [ResourceRegistered(resource=CARD)]


async def test_options_are_the_same_wherever_kubelet_reads_them(folder: Path) -> None:
    async with a_node(folder) as (kubelet, _):
        asked, answered = kubelet.hosted(CARD).asked, kubelet.hosted(CARD).options
    assert asked == answered
    assert answered.pre_start_required
    assert answered.get_preferred_allocation_available


async def test_each_change_is_sent_whole_and_no_change_is_not(folder: Path) -> None:
    offers = offering(*TWO)
    async with a_node(folder, offers=offers) as (kubelet, _):
        await kubelet.until_offered(CARD, 2)
        offers.put(CARD, TWO)
        offers.put(CARD, [PluginDevice("c0", healthy=False), PluginDevice("c2")])
        await kubelet.until_offered(CARD, 1)
        assert kubelet.devices(CARD) == (PluginDevice("c0", healthy=False), PluginDevice("c2"))
        offers.put(CARD, [*TWO, PluginDevice("c2")])
        await kubelet.until_offered(CARD, 3)
        offers.put(CARD, [])
        await kubelet.until(lambda: kubelet.devices(CARD) == ())
        assert kubelet.hosted(CARD).lists == 4


async def test_each_resource_has_its_own_socket(folder: Path) -> None:
    offers = offering(PluginDevice("c0"))
    offers.put(SLICE, [PluginDevice("s0"), PluginDevice("s1")])
    async with a_node(folder, offers=offers) as (kubelet, observed):
        await kubelet.until_offered(SLICE, 2)
        await kubelet.until_offered(CARD, 1)
        offers.put("other.example/late", TWO)
        await observed.until_registered(3)
        await kubelet.until_offered("other.example/late", 2)
        assert sorted(kubelet.registrations) == [
            ("other.example/late", "tessera-other.example_late.sock"),
            (CARD, "tessera-vendor.example_card.sock"),
            (SLICE, "tessera-vendor.example_slice.sock"),
        ]


async def test_sixty_thousand_are_sent_in_one_message(folder: Path) -> None:
    offers = offering(*(PluginDevice(f"slot-{n}") for n in range(60_000)))
    async with a_node(folder, offers=offers) as (kubelet, _):
        await kubelet.until_offered(CARD, 60_000)
        given = await kubelet.pods.admit("team", "job", {"main": {CARD: 2}})
        assert set(given) == {"main"}


def test_an_id_that_comes_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match=f"{CARD}: an id comes twice"):
        DeviceLists().put(CARD, [PluginDevice("c0"), PluginDevice("c0", healthy=False)])


async def test_a_name_that_kubelet_does_not_take_is_tried_until_it_does(folder: Path) -> None:
    offers = offering(resource="kubernetes.io/card")
    offers.put("vendor.example/" + "x" * 64, TWO)
    offers.put("requests.vendor.example/card", TWO)
    async with a_node(folder) as (kubelet, _), running(folder, FakePlugin(), offers) as observed:
        for resource in offers.resources:
            await observed.until_reported(f'"{resource}" is not the name of an extended resource')
        assert kubelet.registrations == [(CARD, "tessera-vendor.example_card.sock")]


async def test_the_plugin_leaves_no_socket_and_kubelet_no_healthy_device(folder: Path) -> None:
    async with a_node(folder) as (kubelet, _):
        async with running(folder, FakePlugin(), offering(resource=SLICE)):
            await kubelet.until_offered(SLICE, 2)
        await kubelet.until_offered(SLICE, 0)
        assert [device.id for device in kubelet.devices(SLICE)] == ["c0", "c1"]
        assert not (folder / "tessera-vendor.example_slice.sock").exists()


async def test_names_that_are_long_or_odd_have_sockets_of_their_own(folder: Path) -> None:
    long = f"{'sub.' * 40}vendor.example/{'n' * 60}"
    names = [long + "a", long + "b", "v.example/a_b", "v.example/a-b"]
    offers = DeviceLists()
    for name in names:
        offers.put(name, TWO)
    async with a_node(folder, offers=offers) as (kubelet, _):
        sockets = dict(kubelet.registrations)
        assert len(set(sockets.values())) == 4
        assert max(map(len, sockets.values())) < 64
        assert all(stat.S_ISSOCK((folder / name).stat().st_mode) for name in sockets.values())


async def test_settings_that_cannot_be_are_named(folder: Path) -> None:
    with pytest.raises(PluginNameInvalid, match='prefix: "Tes sera" must be 1 to 16 of'):
        async with running(
            folder, FakePlugin(), settings=replace(SOON, prefix="Tes sera")
        ) as observed:
            await observed.until_registered()
    with pytest.raises(SocketUnusable, match="107 bytes at most"):
        async with running(folder / ("x" * 100), FakePlugin()) as observed:
            await observed.until_registered()
