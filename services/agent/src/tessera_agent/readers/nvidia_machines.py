"""Machines with NVIDIA's cards that are not ordinary ones: Windows' subsystem for Linux (WSL), and
Tegra (Jetson, IGX). Where NVML is missing there, their files are read.

    WSL     /dev/dxg, libdxcore.so, the driver's files below /usr/lib/wsl/drivers
    Tegra   /etc/nv_tegra_release or the family in /sys/devices/soc0, the device tree, MemTotal,
            CSV files of device nodes

Files say neither a card's UUID, by which limits know it, nor what a process uses; on WSL not even
how much memory there is. A card without a UUID is at fault until a setting gives it; one without
memory is not published until the node's settings say how much it has (`unified_memory_mib`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from tessera_agent.readers import DriverSilent, ReaderSettings
from tessera_core.dialect_kit.readings import CardReading, Fault, Readings

_KIB: Final = 1 << 10
_CSV_FOLDER: Final = "etc/nvidia-container-runtime/host-files-for-container.d"
_CSV_FILES: Final = ("devices.csv", "drivers.csv", "l4t.csv")
_LOADS: Final = ("sys/devices/platform/gpu.0/load", "sys/devices/gpu.0/load")
"""Per mille."""
_MEMORY: Final = re.compile(r"^(MemTotal|MemAvailable):\s*(\d+) kB$", re.MULTILINE)
_BLIND: Final = "faults, and what each process uses, cannot be read: NVML is missing"


class MachineKind(StrEnum):
    """What kind of machine it is."""

    ORDINARY = "ordinary"
    """Cards with device nodes of their own."""
    WSL = "wsl"
    """All cards behind one device node, the driver is Windows'."""
    TEGRA = "tegra"
    """One card on the processor's chip, with the node's memory."""


def kind_of(root: Path) -> MachineKind:
    """The kind of the machine whose root is there, by its files. A Tegra machine with another card
    is an ordinary one: NVML has them all."""
    if (root / "dev/dxg").exists() or (root / "usr/lib/wsl/lib/libdxcore.so").exists():
        return MachineKind.WSL
    cards = sum(1 for _ in root.glob("dev/nvidia[0-9]*"))
    return MachineKind.TEGRA if cards <= 1 and _is_tegra(root) else MachineKind.ORDINARY


def csv_nodes(root: Path) -> tuple[str, ...]:
    """Patterns of the device nodes that a Tegra machine's CSV files name. Lines that make no sense
    are left out, as the toolkit does."""
    return tuple(
        dict.fromkeys(
            path if path.startswith("/") else f"/dev/{path}"
            for name in _CSV_FILES
            for kind, path in _entries(_text(root / _CSV_FOLDER / name))
            if kind == "dev" and path
        )
    )


def read_machine(root: Path, settings: ReaderSettings) -> Readings | DriverSilent | None:
    """The cards, by files alone; None where files say nothing of them. It blocks."""
    match kind_of(root):
        case MachineKind.ORDINARY:
            return None
        case MachineKind.WSL:
            return _read_wsl(root, settings)
        case MachineKind.TEGRA:
            return _read_tegra(root, settings)


def _read_wsl(root: Path, settings: ReaderSettings) -> Readings | DriverSilent:
    if not (root / "dev/dxg").exists():
        return DriverSilent(why="WSL shows no card: /dev/dxg is not there: update WSL's kernel")
    if not any(root.glob("usr/lib/wsl/drivers/*/libcuda.so.1.1")):
        return DriverSilent(
            why="WSL has no NVIDIA driver: /usr/lib/wsl/drivers/*/libcuda.so.1.1 is not there: "
            "install the driver in Windows"
        )
    card = _card(settings, "wsl", CardReading(id="", index=0))
    more = "there may be more cards than the one that is shown"
    return Readings(cards=(card,), session=1, problems=(f"WSL: {_BLIND}; {more}",))


def _read_tegra(root: Path, settings: ReaderSettings) -> Readings:
    memory = {name: int(kib) * _KIB for name, kib in _MEMORY.findall(_text(root / "proc/meminfo"))}
    total = memory.get("MemTotal", 0)
    card = CardReading(
        id="", index=0, model=_device_tree(root, "model"), memory_bytes=total,
        memory_used_bytes=max(total - memory.get("MemAvailable", total), 0),
        busy_percent=_busy_percent(root),
    )  # fmt: skip
    serial = _device_tree(root, "serial-number")
    shared = (
        "its memory is the node's, which other processes use too: grant less of it by "
        "memory_scaling of this node"
    )
    card = _card(settings, f"tegra-{serial}" if serial else "tegra", card)
    return Readings(cards=(card,), session=1, problems=(f"Tegra: {_BLIND}", f"Tegra: {shared}"))


def _card(settings: ReaderSettings, name: str, card: CardReading) -> CardReading:
    """The card with the UUID that settings give it, or with a name and a fault."""
    if settings.card_uuid:
        return replace(card, id=settings.card_uuid)
    what = (
        "its UUID, by which limits know it, cannot be read: write it into "
        "TESSERA_READER_CARD_UUID, as CUDA's deviceQuery shows it"
    )
    return replace(card, id=name, standing=(Fault(what=what),))


def _is_tegra(root: Path) -> bool:
    if (root / "etc/nv_tegra_release").is_file():
        return True
    return _text(root / "sys/devices/soc0/family").lower().startswith("tegra")


def _busy_percent(root: Path) -> float:
    for path in _LOADS:
        with suppress(ValueError):
            return min(max(int(_text(root / path)) / 10, 0), 100)
    return -1


def _device_tree(root: Path, name: str) -> str:
    """A text of the device tree, which ends with a NUL."""
    return _text(root / "sys/firmware/devicetree/base" / name).rstrip("\0\n")


def _entries(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        kind, _, path = line.partition(",")
        yield kind.strip(), path.strip()


def _text(path: Path) -> str:
    """The file's text; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
