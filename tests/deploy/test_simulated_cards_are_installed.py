"""The program that puts simulated cards on a node, on folders of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.agent.machine import NVML, SIM, built, polling
from tests.deploy.manifests import ROOT

IMAGES: Final = ROOT / "deploy" / "images"
SPECIFICATION: Final = "var/run/cdi/tessera-simulated.json"
DRIVER: Final = "usr/local/tessera/simulated"
STATE: Final = "run/tessera-simulated/tessera-sim-0"
CONFIG: Final = "cards=3 memory=16g"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """What the image has."""
    built("tessera-work")
    folder = tmp_path / "source"
    for name in ("lib", "bin"):
        (folder / name).mkdir(parents=True)
    for library in SIM.glob("*.so.1"):
        shutil.copy(library, folder / "lib")
    for program in (built("tessera-work"), IMAGES / "nvidia-smi"):
        shutil.copy(program, folder / "bin")
    return folder


def install(source: Path, root: Path, node: str = "one") -> dict[str, Any]:
    """The specification that the runtime reads."""
    command: list[str | Path] = [sys.executable, IMAGES / "install-simulated", node, CONFIG]
    ran = subprocess.run(
        [*command, f"--source={source}", f"--root={root}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(f"3 simulated cards on {node}: GPU-")
    found: dict[str, Any] = json.loads((root / SPECIFICATION).read_text())
    return found


def names(specification: dict[str, Any]) -> list[str]:
    return [device["name"] for device in specification["devices"]]


def test_every_card_is_a_device_and_the_driver_comes_with_it(source: Path, tmp_path: Path) -> None:
    root = tmp_path / "node"
    made = install(source, root)
    assert made["kind"] == "nvidia.com/gpu"
    assert len(set(names(made))) == 3
    mounts = [*made["containerEdits"]["mounts"]]
    mounts += [m for device in made["devices"] for m in device["containerEdits"]["mounts"]]
    assert [m["hostPath"] for m in mounts if not (root / m["hostPath"].lstrip("/")).exists()] == []
    assert (root / STATE).stat().st_mode & 0o666 == 0o666  # whatever user a container has


def test_a_container_sees_the_cards_that_are_mounted_by_name(source: Path, tmp_path: Path) -> None:
    root = tmp_path / "node"
    cards = names(install(source, root))
    given = tmp_path / "cards"
    given.mkdir()
    for card in (cards[2], cards[0]):
        (given / card).touch()
    env = {"TESSERA_SIM_STATE": str(root / STATE), "TESSERA_SIM_DEVICES": str(given)}
    with polling(NVML, env) as poller:
        assert [card["id"] for card in poller.poll()["cards"]] == [cards[0], cards[2]]


def test_the_next_run_changes_nothing(source: Path, tmp_path: Path) -> None:
    root = tmp_path / "node"
    made = install(source, root)
    before = {path: path.stat().st_ino for path in root.rglob("*")}
    assert install(source, root) == made
    assert {path: path.stat().st_ino for path in root.rglob("*")} == before


def test_a_new_driver_is_another_file(source: Path, tmp_path: Path) -> None:
    """Containers that run have the former one open."""
    root = tmp_path / "node"
    install(source, root)
    library = root / DRIVER / "lib" / "libcuda.so.1"
    before = library.stat().st_ino
    with (source / "lib" / library.name).open("ab") as grown:
        grown.write(b"\0")
    install(source, root)
    assert library.stat().st_ino != before


def test_no_two_nodes_have_the_same_cards(source: Path, tmp_path: Path) -> None:
    made = [install(source, tmp_path / node, node) for node in ("one", "two")]
    assert set(names(made[0])).isdisjoint(names(made[1]))
