"""What the runtime is answered for a container, and which of the container's own variables and
mounts would give it other cards."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from posixpath import normpath
from stat import S_ISBLK

from tessera_core.dialect_kit.contract import Vendor
from tessera_kubelet.nri.types import Adjustment, ContainerInfo, NriDevice
from tessera_schema.injections import Injection, Mount


def adjustment_of(
    injection: Injection, env: Mapping[str, str], files: Sequence[Mount]
) -> Adjustment:
    """The runtime's answer for a container that holds shares: its variables, and the mounts of its
    files. Raises OSError where a device node is not there."""
    return Adjustment(
        env=env, mounts=(*injection.mounts, *files), annotations=injection.annotations,
        devices=tuple(_device(path) for path in injection.devices),
    )  # fmt: skip


def disarmed(vendor: Vendor, env: Mapping[str, str]) -> dict[str, str]:
    """Variables by which the image or its author would get other devices, emptied."""
    return {
        name: "" for name, harmless in vendor.guarded_env.items()
        if "" in harmless and name in env and env[name] not in harmless
    }  # fmt: skip


def irreplaceable_variable(env: Mapping[str, str], vendor: Vendor, container: ContainerInfo) -> str:
    """The first of these variables that would not get its value, because the container's image and
    its pod both set it; empty where all would. Where cards are taken away, any harmless value does.
    """
    for name in sorted(container.set_twice & env.keys()):
        found = container.env[name]
        denied = env[name] == vendor.deny.get(name)
        if found != env[name] and not (denied and found in vendor.guarded_env.get(name, ())):
            return name
    return ""


def card_mount(vendor: Vendor, container: ContainerInfo) -> str:
    """Path of the container's first mount that would show it cards; empty where it has none."""
    for mount in container.mounts:
        path = f"/{normpath(mount.destination).lstrip('/')}"
        if any(path.startswith(f"{folder}/") for folder in vendor.device_mounts):
            return path
    return ""


def sees_cards(vendor: Vendor, env: Mapping[str, str]) -> bool:
    """Whether the variables of a container that holds nothing would show it cards."""
    return any(
        env.get(name, value) not in vendor.guarded_env.get(name, frozenset({value}))
        for name, value in vendor.deny.items()
    )


def _device(path: str) -> NriDevice:
    found = Path(path).stat()
    return NriDevice(
        path=path, major=os.major(found.st_rdev), minor=os.minor(found.st_rdev),
        type="b" if S_ISBLK(found.st_mode) else "c",
    )  # fmt: skip
