"""WSL and Tegra by their files: what can be read is published, what cannot is said."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from tessera_agent.delivery.injector import load_injector
from tessera_agent.delivery.settings import (
    CardDelivery,
    DeliverySettings,
    DeviceFeature,
    DeviceListStrategy,
)
from tessera_agent.readers import DriverSilent, ReaderSettings
from tessera_agent.readers.nvidia import open_reader
from tessera_agent.readers.nvidia_machines import MachineKind, csv_nodes, kind_of, read_machine
from tessera_core.dialect_kit.card_settings import CardSettings
from tessera_core.dialect_kit.readings import CardReading, Readings
from tessera_core.registry.registry import load
from tessera_core.vendors.nvidia import MONITORING
from tessera_runtime.errors import BadSettings
from tessera_schema.cards import MIB, Card
from tessera_schema.injections import Injection
from tessera_testing.clock import LoopClock
from tests.agent.delivery.machine_files import with_files, with_nodes
from tests.agent.node import FixedNode, Script, a_cluster, running, until

UUID = "GPU-54415113-f03b-5a5a-9b3e-6ff1b3b3b3b3"
CSV = "/etc/nvidia-container-runtime/host-files-for-container.d"
TREE = "/sys/firmware/devicetree/base"
STORE = "/usr/lib/wsl/drivers/nv_dispi.inf_amd64_1"
JETSON = {
    "/etc/nv_tegra_release": "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic\n",
    f"{TREE}/model": "NVIDIA Jetson AGX Orin Developer Kit\0",
    f"{TREE}/serial-number": "1423921000000\0",
    "/proc/meminfo": "MemTotal:       31446448 kB\nMemFree:  1 kB\nMemAvailable:   20960000 kB\n",
    "/sys/devices/platform/gpu.0/load": "437\n",
    f"{CSV}/devices.csv": "dev, /dev/nvhost-gpu\ndev, /dev/nvmap\ndir, /dev/dri\nnonsense\n",
    f"{CSV}/drivers.csv": "lib, /usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1.1\nsym, /a\n",
    f"{CSV}/l4t.csv": "dev, nvhost-ctrl\ndev, /dev/nvmap\n",
    f"{CSV}/more.csv": "dev, /dev/not-read\n",
}
WSL = {f"{STORE}/libcuda.so.1.1": "", "/usr/lib/wsl/lib/libdxcore.so": ""}
REGISTRY = load()
CARD = Card(id=UUID, index=0, vendor="nvidia", memory_bytes=1)


@pytest.fixture
def jetson(tmp_path: Path) -> Path:
    return with_nodes(with_files(tmp_path, JETSON), "/dev/nvhost-gpu", "/dev/nvmap")


@pytest.fixture
def wsl(tmp_path: Path) -> Path:
    return with_nodes(with_files(tmp_path, WSL), "/dev/dxg")


async def read(root: Path, uuid: str = "") -> Readings | DriverSilent:
    """What the agent's reader answers there, where no library is."""
    settings = ReaderSettings(library="/not/libnvidia-ml.so.1", root=root, card_uuid=uuid)
    async with open_reader(settings, FixedNode(None), REGISTRY, LoopClock()) as reader:
        return await reader.poll()


async def a_card(root: Path, uuid: str = "") -> tuple[CardReading, Sequence[str]]:
    found = await read(root, uuid)
    assert isinstance(found, Readings)
    (card,) = found.cards
    return card, found.problems


def faults(card: CardReading) -> list[str]:
    return [fault.what for fault in card.standing]


@pytest.mark.parametrize(
    ("files", "nodes", "kind"),
    [
        ({}, ["/dev/nvidia0", "/dev/nvidiactl"], MachineKind.ORDINARY),
        ({}, ["/dev/dxg"], MachineKind.WSL),
        ({"/usr/lib/wsl/lib/libdxcore.so": ""}, [], MachineKind.WSL),
        ({"/etc/nv_tegra_release": ""}, ["/dev/nvidia0"], MachineKind.TEGRA),
        ({"/sys/devices/soc0/family": "Tegra\n"}, [], MachineKind.TEGRA),
        ({"/sys/devices/soc0/family": "i.MX\n"}, [], MachineKind.ORDINARY),
        ({"/etc/nv_tegra_release": ""}, ["/dev/nvidia0", "/dev/nvidia1"], MachineKind.ORDINARY),
    ],
)
def test_its_kind_shows_in_its_files(
    tmp_path: Path, files: dict[str, str], nodes: list[str], kind: MachineKind
) -> None:
    assert kind_of(with_nodes(with_files(tmp_path, files), *nodes)) is kind


async def test_a_jetson_says_its_model_memory_and_load(jetson: Path) -> None:
    card, problems = await a_card(jetson, UUID)
    assert (card.id, card.model) == (UUID, "NVIDIA Jetson AGX Orin Developer Kit")
    assert card.memory_bytes == 31446448 << 10
    assert card.memory_used_bytes == (31446448 - 20960000) << 10
    assert card.busy_percent == 43.7
    assert faults(card) == []
    assert [problem.partition(",")[0] for problem in problems] == [
        "Tegra: faults", "Tegra: its memory is the node's",
    ]  # fmt: skip
    assert "memory_scaling" in problems[1]


async def test_a_card_without_a_uuid_is_at_fault_until_settings_name_it(jetson: Path) -> None:
    card, _ = await a_card(jetson)
    assert card.id == "tegra-1423921000000"
    assert len(faults(card)) == 1
    assert "TESSERA_READER_CARD_UUID" in faults(card)[0]


async def test_wsl_says_that_there_is_a_card(wsl: Path) -> None:
    card, problems = await a_card(wsl)
    assert (card.id, card.memory_bytes) == ("wsl", 0)
    assert "CARD_UUID" in faults(card)[0]
    assert "there may be more cards" in problems[0]
    card, _ = await a_card(wsl, UUID)
    assert (card.id, faults(card)) == (UUID, [])


@pytest.fixture
def of_wsl(wsl: Path) -> Readings:
    """What WSL's files say, with the card's UUID in the settings."""
    found = read_machine(wsl, ReaderSettings(root=wsl, card_uuid=UUID))
    assert isinstance(found, Readings)
    return found


@pytest.mark.looptime
async def test_a_card_of_wsl_needs_a_size_from_the_nodes_settings(of_wsl: Readings) -> None:
    script = Script()
    script.answer = of_wsl
    monitoring = replace(MONITORING, competing_plugins=())
    async with running(await a_cluster(), script, monitoring) as agent:
        await until(lambda: bool(agent.states))
        assert agent.states[-1].cards == ()
        assert any("set unified_memory_mib for this node" in event for event in agent.events)
    sized = CardSettings(unified_memory_mib=8192).completed(of_wsl)
    assert [card.memory_bytes for card in sized.cards] == [8192 * MIB]


async def test_wsl_without_a_card_or_a_driver_says_so(tmp_path: Path) -> None:
    with_files(tmp_path, {"/usr/lib/wsl/lib/libdxcore.so": ""})
    found = await read(tmp_path)
    assert isinstance(found, DriverSilent)
    assert "/dev/dxg is not there" in found.why
    found = await read(with_nodes(tmp_path, "/dev/dxg"))
    assert isinstance(found, DriverSilent)
    assert "install the driver in Windows" in found.why


async def test_an_ordinary_machine_without_a_library_has_no_driver(tmp_path: Path) -> None:
    found = await read(tmp_path)
    assert isinstance(found, DriverSilent)
    assert found.missing
    assert "name the driver's library" in found.why


@pytest.fixture
def readings(jetson: Path) -> tuple[Readings, Readings]:
    """What the Jetson's files say without and with the card's UUID in the settings."""
    found = [read_machine(jetson, ReaderSettings(root=jetson, card_uuid=u)) for u in ("", UUID)]
    assert isinstance(found[0], Readings)
    assert isinstance(found[1], Readings)
    return found[0], found[1]


@pytest.mark.looptime
async def test_such_a_card_takes_pods_once_it_is_known(
    readings: tuple[Readings, Readings],
) -> None:
    script = Script()
    script.answer = readings[0]
    monitoring = replace(MONITORING, competing_plugins=())
    async with running(await a_cluster(), script, monitoring) as agent:
        await until(lambda: bool(agent.states))
        (card,) = agent.states[-1].cards
        assert (card.model, card.healthy) == ("NVIDIA Jetson AGX Orin Developer Kit", False)
        assert any("CARD_UUID" in event for event in agent.events)
        script.answer = readings[1]
        await until(
            lambda: any(card.id == UUID and card.healthy for card in agent.states[-1].cards)
        )


def test_device_nodes_are_those_of_the_toolkits_files(jetson: Path) -> None:
    assert csv_nodes(jetson) == ("/dev/nvhost-gpu", "/dev/nvmap", "/dev/nvhost-ctrl")


@pytest.mark.parametrize(
    ("strategy", "listed", "cdi"),
    [
        (DeviceListStrategy.ENVVAR, "0", ()),
        (DeviceListStrategy.CDI, "void", ("nvidia.com/gpu=0",)),
    ],
)
async def test_the_toolkit_knows_a_tegras_card_by_its_number(
    jetson: Path, strategy: DeviceListStrategy, listed: str, cdi: tuple[str, ...]
) -> None:
    settings = DeliverySettings(strategy=strategy)
    found = await load_injector("nvidia", CardDelivery.RUNTIME, settings, jetson)
    given = found.inject(Injection(), [CARD])
    assert (given.injection.env["NVIDIA_VISIBLE_DEVICES"], given.cdi) == (listed, cdi)


async def test_a_tegras_device_nodes_are_given_where_wanted(jetson: Path) -> None:
    settings = DeliverySettings(nodes=True)
    found = await load_injector("nvidia", CardDelivery.RUNTIME, settings, jetson)
    assert found.inject(Injection(), [CARD]).injection.devices == ("/dev/nvhost-gpu", "/dev/nvmap")


async def test_all_cards_of_wsl_are_one_device(wsl: Path) -> None:
    cdi = DeliverySettings(strategy=DeviceListStrategy.CDI)
    found = await load_injector("nvidia", CardDelivery.ALLOCATE, cdi, wsl)
    assert found.inject(Injection(), [CARD]).cdi == ("nvidia.com/gpu=all",)
    nodes = DeliverySettings(strategy=DeviceListStrategy.ENVVAR, nodes=True)
    found = await load_injector("nvidia", CardDelivery.RUNTIME, nodes, wsl)
    assert found.inject(Injection(), [CARD]).injection.devices == ("/dev/dxg",)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strategy": DeviceListStrategy.NODES}, r"on WSL the driver's files come with the card"),
        ({"features": (DeviceFeature.GDS,)}, r"delivery.features: gds: WSL has no such devices"),
        ({"imex_channels": (0,)}, r"delivery.imex_channels: 0: WSL has no channels"),
    ],
)
async def test_what_such_a_machine_does_not_have_is_refused(
    wsl: Path, settings: dict[str, object], message: str
) -> None:
    delivery = replace(DeliverySettings(), **settings)
    with pytest.raises(BadSettings, match=message):
        await load_injector("nvidia", CardDelivery.RUNTIME, delivery, wsl)
