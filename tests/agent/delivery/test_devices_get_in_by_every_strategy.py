"""What a container gets for its cards, by strategy, ids, features and what is on the node."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tessera_agent.delivery.injector import DeviceInjector, DevicesMissing, load_injector
from tessera_agent.delivery.settings import (
    CardDelivery,
    DeliverySettings,
    DeviceFeature,
    DeviceIdStrategy,
    DeviceListStrategy,
)
from tessera_runtime.errors import BadSettings
from tessera_schema.cards import Card
from tessera_schema.injections import Injection
from tests.agent.delivery.machine_files import with_files, with_nodes

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
MOUNTS = "/var/run/nvidia-container-devices"
CHANNEL = "/dev/nvidia-caps-imex-channels/channel"
FEATURES = tuple(DeviceFeature)
SHARED = ("/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidiactl")
CARDS = [Card(id=f"GPU-{i}", index=i, minor=i + 4, vendor="nvidia", memory_bytes=1) for i in (1, 0)]
OWN = Injection(env={VISIBLE: "GPU-1,GPU-0", "A": "1"}, annotations={"note": "1"})
S = DeviceListStrategy


async def injector(
    root: Path, strategy: DeviceListStrategy = S.AUTO,
    delivery: CardDelivery = CardDelivery.RUNTIME, **settings: Any,
) -> DeviceInjector:  # fmt: skip
    return await load_injector(
        "nvidia", delivery, DeliverySettings(strategy=strategy, **settings), root
    )


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A node with everything."""
    nodes = (
        "/dev/nvidia4", "/dev/nvidia5", *SHARED, "/dev/gdrdrv", "/dev/nvidia-fs0",
        "/dev/nvidia-fs1", "/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm", f"{CHANNEL}0",
        f"{CHANNEL}7",
    )  # fmt: skip
    with_nodes(tmp_path, *nodes)
    return with_files(tmp_path, {"/etc/cufile.json": "{}", "/run/udev/data/x": ""})


@pytest.mark.parametrize(
    ("strategy", "ids", "listed", "cdi", "mounts"),
    [
        (S.AUTO, "uuid", "GPU-1,GPU-0", (), ()),
        (S.ENVVAR, "uuid", "GPU-1,GPU-0", (), ()),
        (S.ENVVAR, "index", "1,0", (), ()),
        (S.VOLUME_MOUNTS, "uuid", MOUNTS, (), ("GPU-1", "GPU-0")),
        (S.VOLUME_MOUNTS, "index", MOUNTS, (), ("1", "0")),
        (S.CDI, "uuid", "void", ("nvidia.com/gpu=GPU-1", "nvidia.com/gpu=GPU-0"), ()),
        (S.CDI, "index", "void", ("nvidia.com/gpu=1", "nvidia.com/gpu=0"), ()),
        (S.NODES, "uuid", "none", (), ()),
    ],
)
async def test_cards_are_named_as_the_strategy_says(
    node: Path, strategy: DeviceListStrategy, ids: str, listed: str, cdi: tuple[str, ...],
    mounts: tuple[str, ...],
) -> None:  # fmt: skip
    found = await injector(node, strategy, ids=DeviceIdStrategy(ids))
    given = found.inject(OWN, CARDS)
    assert given.injection.env == {VISIBLE: listed, "A": "1"}
    assert given.injection.annotations == {"note": "1"}
    assert given.cdi == cdi
    assert [(m.destination, m.source) for m in given.injection.mounts] == [
        (f"{MOUNTS}/{name}", "/dev/null") for name in mounts
    ]
    nodes = ("/dev/nvidia5", "/dev/nvidia4", *SHARED) if strategy is S.NODES else ()
    assert given.injection.devices == nodes


async def test_names_in_an_annotation_are_next_to_the_dialects(node: Path) -> None:
    found = await injector(node, S.CDI_ANNOTATIONS, cdi_prefix="nvidia.cdi.k8s.io/")
    given = found.inject(OWN, CARDS)
    names = "nvidia.com/gpu=GPU-1,nvidia.com/gpu=GPU-0"
    key = "nvidia.cdi.k8s.io/tessera_nvidia"
    assert given.injection.annotations == {"note": "1", key: names}
    assert (given.cdi, given.injection.env[VISIBLE]) == ((), "void")


async def test_kubelet_gives_cards_by_name_unless_it_is_said(node: Path) -> None:
    found = await injector(node, delivery=CardDelivery.ALLOCATE)
    assert found.inject(OWN, CARDS[:1]).cdi == ("nvidia.com/gpu=GPU-1",)


@pytest.mark.parametrize("strategy", [S.ENVVAR, S.VOLUME_MOUNTS])
async def test_device_nodes_come_too_where_wanted(node: Path, strategy: DeviceListStrategy) -> None:
    found = await injector(node, strategy, nodes=True)
    assert found.inject(OWN, CARDS[:1]).injection.devices == ("/dev/nvidia5", *SHARED)
    assert found.device_node("/dev/nvidia5").major == 1  # /dev/null's
    with pytest.raises(FileNotFoundError, match=r"/dev/nvidia9 is not there: show the agent"):
        found.device_node("/dev/nvidia9")


async def test_a_feature_is_a_variable_where_the_vendors_runtime_looks_for_it(
    tmp_path: Path,
) -> None:
    found = await injector(tmp_path, features=FEATURES)
    env = found.inject(OWN, CARDS).injection.env
    assert {name: value for name, value in env.items() if value == "enabled"} == dict.fromkeys(
        ("NVIDIA_GDRCOPY", "NVIDIA_GDS", "NVIDIA_MOFED"), "enabled"
    )
    assert found.problems == ()


async def test_a_feature_is_its_device_nodes_and_files_where_those_are_passed(node: Path) -> None:
    found = await injector(node, S.NODES, features=FEATURES)
    given = found.inject(OWN, CARDS[:1]).injection
    assert given.devices == (
        "/dev/nvidia5", *SHARED, "/dev/gdrdrv", "/dev/nvidia-fs0", "/dev/nvidia-fs1",
        "/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0",
    )  # fmt: skip
    assert [(m.destination, m.source) for m in given.mounts] == [
        ("/run/udev", "/run/udev"), ("/etc/cufile.json", "/etc/cufile.json"),
    ]  # fmt: skip
    assert given.env["NVIDIA_GDS"] == "enabled"


@pytest.mark.parametrize("strategy", [S.CDI, S.CDI_ANNOTATIONS])
async def test_a_feature_is_a_name_where_cards_are(
    node: Path, strategy: DeviceListStrategy
) -> None:
    found = await injector(node, strategy, features=FEATURES, imex_channels=(7,))
    given = found.inject(OWN, CARDS[:1])
    notes = given.injection.annotations.get("cdi.k8s.io/tessera_nvidia", "")
    assert ",".join(given.cdi) or notes == (
        "nvidia.com/gpu=GPU-1,nvidia.com/gdrcopy=all,nvidia.com/gds=all,nvidia.com/mofed=all,"
        "nvidia.com/imex-channel=7"
    )
    assert "NVIDIA_GDS" not in given.injection.env


@pytest.mark.parametrize("strategy", [S.CDI, S.NODES])
async def test_a_feature_that_is_not_there_is_reported_and_not_given(
    tmp_path: Path, strategy: DeviceListStrategy
) -> None:
    found = await injector(tmp_path, strategy, features=(DeviceFeature.MOFED,))
    assert [problem.partition(":")[0] for problem in found.problems] == [
        "MOFED is switched on and /dev/infiniband/uverbs* or /dev/infiniband/rdma_cm is not there"
    ]
    given = found.inject(OWN, CARDS[:1])
    assert "nvidia.com/mofed=all" not in given.cdi
    assert "NVIDIA_MOFED" not in given.injection.env


@pytest.mark.parametrize(
    ("strategy", "env", "mounts", "nodes"),
    [
        (S.ENVVAR, {"NVIDIA_IMEX_CHANNELS": "0,7"}, [], ()),
        (S.VOLUME_MOUNTS, {}, [f"{MOUNTS}/imex/0", f"{MOUNTS}/imex/7"], ()),
        (S.NODES, {"NVIDIA_IMEX_CHANNELS": "0,7"}, [], (f"{CHANNEL}0", f"{CHANNEL}7")),
    ],
)
async def test_channels_come_as_cards_do(
    node: Path, strategy: DeviceListStrategy, env: dict[str, str], mounts: list[str],
    nodes: tuple[str, ...],
) -> None:  # fmt: skip
    found = await injector(node, strategy, imex_channels=(0, 7))
    given = found.inject(OWN, CARDS[:1]).injection
    assert {name: v for name, v in given.env.items() if name not in (VISIBLE, "A")} == env
    assert [m.destination for m in given.mounts if "imex" in m.destination] == mounts
    assert tuple(path for path in given.devices if "imex" in path) == nodes


async def test_a_channel_that_is_not_there_is_left_out_or_waited_for(node: Path) -> None:
    found = await injector(node, imex_channels=(0, 3))
    assert found.inject(OWN, CARDS[:1]).injection.env["NVIDIA_IMEX_CHANNELS"] == "0"
    assert found.problems[0].startswith(f"IMEX channel {CHANNEL}3 is not there")
    found = await injector(node, imex_channels=(0, 3), imex_required=True)
    with pytest.raises(DevicesMissing, match=rf"IMEX channel {CHANNEL}3 is not there"):
        found.inject(OWN, CARDS[:1])


@pytest.mark.looptime
async def test_what_appears_on_the_node_is_found(tmp_path: Path) -> None:
    found = await injector(tmp_path, imex_channels=(0,))
    assert found.problems
    with_nodes(tmp_path, f"{CHANNEL}0")
    await found.refresh()
    assert found.problems  # it was read just now
    await asyncio.sleep(60)
    await found.refresh()
    assert found.problems == ()
    assert found.inject(OWN, CARDS[:1]).injection.env["NVIDIA_IMEX_CHANNELS"] == "0"


async def test_a_licence_and_its_validator_are_mounted_as_far_as_they_are_there(
    tmp_path: Path,
) -> None:
    with_files(tmp_path, {"/usr/local/vgpu/license": "", "/usr/local/vgpu/vgpuvalidator": ""})
    found = await injector(tmp_path, license_folder="/usr/local/vgpu")
    mounts = found.inject(OWN, CARDS[:1]).injection.mounts
    assert [(m.destination, m.source, m.read_only) for m in mounts] == [
        ("/tmp/license", "/usr/local/vgpu/license", True),  # noqa: S108  (in the container)
        ("/usr/bin/vgpuvalidator", "/usr/local/vgpu/vgpuvalidator", True),
    ]
    found = await injector(tmp_path, license_folder="/usr/local/other")
    assert found.inject(OWN, CARDS[:1]).injection.mounts == ()


async def test_nothing_is_read_that_no_setting_needs(tmp_path: Path) -> None:
    found = await injector(tmp_path / "not-there")
    assert found.inject(OWN, CARDS).injection == OWN


async def test_a_vendor_with_a_plugin_of_its_own_is_left_to_it(tmp_path: Path) -> None:
    plain = DeliverySettings()
    found = await load_injector("iluvatar", CardDelivery.RUNTIME, plain, tmp_path)
    assert found.inject(OWN, CARDS).injection == OWN
    with pytest.raises(BadSettings, match=r"giving: allocate: .* iluvatar .*: write runtime"):
        await load_injector("iluvatar", CardDelivery.ALLOCATE, plain, tmp_path)
    with pytest.raises(BadSettings, match=r"delivery: .* iluvatar .*: unset every TESSERA_DELIV"):
        await load_injector(
            "iluvatar", CardDelivery.RUNTIME, DeliverySettings(strategy=S.CDI), tmp_path
        )
