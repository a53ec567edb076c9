"""The CDI specification of a reserved share: its card's device nodes, and the form of the whole."""

import re
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct

from tessera_agent.local.card_devices import CardDevices, card_devices
from tessera_schema.cards import Card
from tests.agent.delivery.machine_files import with_nodes
from tests.agent.machine import built
from tests.local.conftest import Machine

ALL = ("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
SHARED = ("/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidiactl")
DOCUMENT = Path(__file__).parents[2] / "docs" / "run.md"
QUALIFIED = re.compile(r"[a-z0-9.-]+/[A-Za-z][\w.-]*=[A-Za-z0-9][\w.:-]*")
"""A device as docker, podman and containerd read it: `vendor/class=name`."""
VISIBLE = "NVIDIA_VISIBLE_DEVICES"


class Node(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """After `schema/defs.json` of container-device-interface, without what is never written."""

    path: str
    host_path: str = ""
    permissions: str = ""


class MountEdit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Likewise."""

    host_path: str
    container_path: str
    options: list[str] = []


class Edits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Likewise."""

    env: list[str] = []
    device_nodes: list[Node] = []
    mounts: list[MountEdit] = []


class Device(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """After `schema/schema.json`."""

    name: str
    container_edits: Edits


class Specification(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Likewise."""

    cdi_version: str
    kind: str
    devices: list[Device]


def created(folder: Path, root: Path | None, *amounts: str) -> Edits:
    """What `tessera share create` writes on a machine with these device nodes."""
    built("libtessera.so")
    machine = Machine(folder / "local", root=root)
    try:
        cdi = folder / "cdi"
        done = machine.tessera("share", "create", "train", *amounts, "--cdi-folder", str(cdi))
        assert done.stdout == "tessera.dev/share=train\n", done.stderr
        (written,) = cdi.iterdir()
        found = msgspec.json.decode(written.read_bytes(), type=Specification)
        assert (found.cdi_version, found.kind) == ("0.6.0", "tessera.dev/share")
        assert written.suffix == ".json"
        (device,) = found.devices
        assert device.name == "train"
        return device.container_edits
    finally:
        machine.end()


def test_it_has_the_nodes_of_its_card_and_no_others(open_folder: Path) -> None:
    root = with_nodes(open_folder / "root", *ALL, "/dev/nvidia-modeset", "/dev/dri/card0")
    edits = created(open_folder, root, "--memory", "4Gi", "--card", "1")
    assert edits.device_nodes == [
        Node(path=path, host_path=f"{root}{path}", permissions="rw")
        for path in ("/dev/nvidia1", "/dev/nvidia-modeset", *SHARED)
    ]
    assert f"{VISIBLE}=none" in edits.env, "an image that asks for all cards gets none"


def test_all_of_its_cards_are_there(open_folder: Path) -> None:
    root = with_nodes(open_folder / "root", *ALL)
    edits = created(open_folder, root, "--memory", "4Gi", "--cards", "2")
    assert {node.path for node in edits.device_nodes} == {*ALL}


def test_simulated_cards_have_none(open_folder: Path) -> None:
    edits = created(open_folder, None, "--memory", "4Gi")
    assert edits.device_nodes == []
    assert not any(each.startswith(VISIBLE) for each in edits.env)


@pytest.mark.parametrize(
    ("vendor", "there", "given"),
    [
        pytest.param("nvidia", "/dev/nvidiactl", [], id="its own node is not there"),
        pytest.param("iluvatar", "/dev/iluvatar0", [], id="iluvatar's plugin gives them"),
        pytest.param("mthreads", "/dev/mtgpu.0", [], id="mthreads' plugin gives them"),
        pytest.param("nvidia", "/dev/dxg", ["/dev/dxg"], id="WSL has one node for all cards"),
    ],
)
def test_what_is_given_on_other_machines(
    vendor: str, there: str, given: list[str], tmp_path: Path
) -> None:
    root = with_nodes(tmp_path, there)
    card = Card(id="GPU-0", index=0, minor=0, vendor=vendor, memory_bytes=1)
    nodes = {path: f"{root}{path}" for path in given}
    assert card_devices(vendor, root, [card]) == CardDevices(nodes=nodes)


def test_names_in_the_documentation_are_cdis() -> None:
    lines = re.findall(r"(?:docker|podman) .*run .*", DOCUMENT.read_text())
    names = [name for line in lines for name in re.findall(r"--device (\S+)", line)]
    assert {name.split("=")[0] for name in names} == {"tessera.dev/share", "nvidia.com/gpu"}
    assert all(QUALIFIED.fullmatch(name) for name in names), names
