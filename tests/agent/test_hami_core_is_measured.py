"""Containers that HAMi's own plugin gave their cards are measured from HAMi-core's region, which
they may write."""

import os
from collections.abc import Callable
from pathlib import Path
from struct import pack_into
from typing import Any

import pytest
from msgspec.structs import replace

from tessera_agent.usage.hami_core import EVERY_S, Regioned, Regions, region_of
from tessera_core.hook.hami_core_region import CACHE_ENV
from tessera_core.hook.usage_file import Gap, Spoilt
from tessera_kubelet.nri.types import ContainerInfo, PodSandbox
from tessera_schema.cards import MIB, Card
from tessera_schema.injections import Mount
from tessera_schema.messages.device_reports import CardUse, ContainerUse, decode_usage
from tessera_testing.builders import a_card
from tests.agent.nri.runtime_node import NODE, Node, a_node, a_pod, a_share, granted, until
from tests.core.test_regions_of_hami_core import UUID, a_region

HOOK = "/usr/local/vgpu"
FILE = "b3c1.cache"
POD = PodSandbox(id="sb-1", name="job", uid="uid-job", namespace="team")
CARDS = (a_card(UUID.decode(), vendor="nvidia", mib=16384),)
NOW_S = 1_800_000_000.0


def a_container(folder: Path, name: str = "main", **more: object) -> ContainerInfo:
    """As HAMi's plugin makes it."""
    info = ContainerInfo(
        id="c1", sandbox_id=POD.id, name=name, env={CACHE_ENV: f"{HOOK}/{FILE}"},
        mounts=(Mount(destination=HOOK, source=str(folder), read_only=False),),
    )  # fmt: skip
    return replace(info, **more)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "containers" / "uid-job_main"
    made.mkdir(parents=True)
    return made


def found(folder: Path) -> Regioned:
    one = region_of(POD, a_container(folder))
    assert one is not None
    return one


def read(regions: Regions, folder: Path, *cards: Card, at_s: float = 0) -> ContainerUse | None:
    uses = regions.read_all([found(folder)], cards or CARDS, at_s=at_s, now_s=NOW_S)
    return uses[0] if uses else None


@pytest.mark.parametrize("version", [0, 1])
def test_use_and_limits_are_those_of_the_region(folder: Path, version: int) -> None:
    (folder / FILE).write_bytes(a_region(version))
    assert read(Regions(), folder) == ContainerUse(
        namespace="team", pod="job", uid="uid-job", container="main",
        cards=(
            CardUse(
                card=UUID.decode(), memory_bytes=(1 << 30) + 5, memory_limit_bytes=4 << 30,
                context_bytes=602, module_bytes=42, buffer_bytes=4,
                cores_percent=23, cores_limit_percent=30, processes=2,
                last_active=1_700_000_000 if version else 0, measured_by="hami-core",
            ),
        ),
    )  # fmt: skip


def test_a_container_that_has_not_begun_uses_nothing(folder: Path) -> None:
    regions = Regions()
    assert read(regions, folder) is None
    (folder / FILE).write_bytes(bytes(len(a_region(1))))
    assert read(regions, folder, at_s=EVERY_S) is None
    assert not regions.spoilt


def test_more_than_the_limit_is_a_gap(folder: Path) -> None:
    data = a_region(1)
    pack_into("<Q", data, 1600, 1 << 20)
    (folder / FILE).write_bytes(data)
    use = read(Regions(), folder)
    assert use is not None
    assert (use.enforced, use.gaps) == (False, (Gap.OVER,))


def test_no_claim_exceeds_the_card_or_the_clock(folder: Path) -> None:
    data = a_region(1)
    pack_into("<Q", data, 1856 + 8 + 32, 1 << 60)
    pack_into("<Q", data, 2_008_912, 1 << 39)
    (folder / FILE).write_bytes(data)
    use = read(Regions(), folder)
    assert use is not None
    assert use.cards[0].memory_bytes == 16384 * MIB
    assert use.cards[0].last_active == NOW_S


def test_cards_of_others_and_cards_named_twice_count_once_or_not(folder: Path) -> None:
    data = a_region(1)
    pack_into("<Q", data, 56, 2)
    data[64 + 96 : 64 + 96 + len(UUID)] = UUID
    (folder / FILE).write_bytes(data)
    use = read(Regions(), folder)
    assert use is not None
    assert [card.card for card in use.cards] == [UUID.decode()]
    assert read(Regions(), folder, a_card("another", vendor="nvidia")) is None


def test_a_region_is_read_again_after_a_while(folder: Path) -> None:
    regions = Regions()
    (folder / FILE).write_bytes(a_region(1))
    first = read(regions, folder, at_s=0)
    (folder / FILE).unlink()
    assert read(regions, folder, at_s=EVERY_S - 1) == first
    assert read(regions, folder, at_s=EVERY_S) is None


def a_link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def too_large(path: Path) -> None:
    path.write_bytes(b"x")
    os.truncate(path, 1 << 40)


@pytest.mark.parametrize(
    ("put", "why"),
    [
        (a_link, Spoilt.NOT_A_FILE),
        (os.mkfifo, Spoilt.NOT_A_FILE),
        (Path.mkdir, Spoilt.NOT_A_FILE),
        (too_large, Spoilt.SIZE),
        (lambda path: path.write_bytes(b"what the tenant thinks"), Spoilt.LAYOUT),
        (lambda path: path.write_bytes(a_region(1)[:-2]), Spoilt.LAYOUT),
    ],
    ids=["link", "fifo", "folder", "too large", "text", "cut off"],
)
def test_what_is_no_region_is_named(
    folder: Path, put: Callable[[Path], object], why: Spoilt
) -> None:
    put(folder / FILE)
    regions = Regions()
    use = read(regions, folder)
    assert use is not None
    assert (use.enforced, use.gaps, use.cards) == (False, (Gap.FILE,), ())
    assert regions.spoilt == {why: 1}


@pytest.mark.parametrize("name", ["a\0b.cache", "\ud800.cache", "x" * 5000 + ".cache"])
def test_a_name_that_is_none_is_read_by_nobody(folder: Path, name: str) -> None:
    one = region_of(POD, a_container(folder, env={CACHE_ENV: f"{HOOK}/{name}"}))
    assert one is not None
    [use] = Regions().read_all([one], CARDS, at_s=0, now_s=NOW_S)
    assert use.gaps == (Gap.FILE,)


def test_a_folder_that_is_a_link_is_not_followed(folder: Path) -> None:
    aside = folder.with_name("aside")
    folder.rename(aside)
    (aside / FILE).write_bytes(a_region(1))
    folder.symlink_to(aside)
    use = read(Regions(), folder)
    assert use is not None
    assert use.gaps == (Gap.FILE,)


@pytest.mark.parametrize(
    "more",
    [
        {"env": {}},
        {"env": {CACHE_ENV: "/tmp/cudevshr.cache"}},  # noqa: S108  (inside the container)
        {"env": {CACHE_ENV: f"{HOOK}/.."}},
        {"env": {CACHE_ENV: f"{HOOK}/libvgpu.so"}},
        {"mounts": ()},
        {"name": "other"},
    ],
)
def test_only_what_hamis_plugin_mounts_is_read(folder: Path, more: dict[str, Any]) -> None:
    assert region_of(POD, a_container(folder, **more)) is None


# -- with an agent


def of(node: Node, pod: str) -> list[str]:
    """Who measured the pod, by the last measurement."""
    said = node.bus.said(f"tessera.v1.default.usage.{NODE}")
    uses = decode_usage(said[-1].data).containers if said else ()
    return [card.measured_by for use in uses if use.pod == pod for card in use.cards]


def regions_of(folder: Path, pod: PodSandbox) -> dict[str, Any]:
    """What the container is made with, and its region on GPU-0."""
    place = folder / f"{pod.uid}_main"
    place.mkdir()
    data = a_region(1)
    data[64 : 64 + 96] = b"GPU-0".ljust(96, b"\0")
    (place / FILE).write_bytes(data)
    made = a_container(place)
    return {"env": made.env, "mounts": made.mounts}


async def test_it_is_published_while_the_container_runs(tmp_path: Path) -> None:
    pod = a_pod("moved")
    more = regions_of(tmp_path, pod)
    async with a_node(tmp_path) as node:
        async with node.agent():
            await node.run(pod, **more)
            await until(lambda: of(node, "moved") == ["hami-core"])
        async with node.agent():  # it learns from the runtime what runs
            await until(lambda: of(node, "moved") == ["hami-core"])
            await node.stop(pod)
            await until(lambda: of(node, "moved") == [])


async def test_a_container_with_a_grant_of_tessera_is_measured_by_its_hook(tmp_path: Path) -> None:
    pod = granted("job", a_share())
    async with a_node(tmp_path) as node, node.agent():
        await node.run(pod, **regions_of(tmp_path, pod))
        await until(lambda: of(node, "job"))
        assert of(node, "job") == ["hook"]
