"""Which of a container's own variables and mounts would give it other cards."""

from __future__ import annotations

from collections.abc import Mapping
from posixpath import normpath

from tessera_core.dialect_kit.contract import Vendor
from tessera_kubelet.nri.types import ContainerInfo


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
