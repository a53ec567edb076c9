"""How the adjustments of several plugins become one, by NRI's rules.

Plugins are asked in turn and each sees the container as the ones before left it. Nothing may be
set twice: not the same variable, mount point, device, CDI device or annotation. Who comes second
fails the container.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from tessera_kubelet.errors import AdjustmentsClash
from tessera_kubelet.nri.types import Adjustment, ContainerInfo


class Merge:
    """What was adjusted so far, and by which plugin."""

    def __init__(self, container: ContainerInfo) -> None:
        """`container` as its pod asks for it."""
        self.container = container
        """With all adjustments, as the next plugin sees it."""
        self.adjustment = Adjustment()
        self._owners: dict[str, str] = {}

    def add(self, plugin: str, given: Adjustment) -> None:
        """The next plugin's answer. Raises AdjustmentsClash."""
        for entry in _entries(given):
            if owner := self._owners.get(entry):
                raise AdjustmentsClash(
                    f'plugins "{plugin}" and "{owner}" both tried to set {entry}'
                )
            self._owners[entry] = plugin
        so_far = self.adjustment
        self.adjustment = Adjustment(
            env={**so_far.env, **given.env},
            mounts=so_far.mounts + given.mounts,
            devices=so_far.devices + given.devices,
            cdi=so_far.cdi + given.cdi,
            annotations={**so_far.annotations, **given.annotations},
        )
        self.container = amended(self.container, given)


def amended(container: ContainerInfo, by: Adjustment) -> ContainerInfo:
    """The container with an adjustment made: entries of the same name are replaced, but variables
    that were set twice keep the pod's value. CDI devices are left out, as it is the runtime that
    looks them up."""
    env = {name: value for name, value in by.env.items() if name not in container.set_twice}
    mounts = {m.destination: m for m in container.mounts + by.mounts}
    devices = {d.path: d for d in container.devices + by.devices}
    return replace(
        container,
        env={**container.env, **env},
        mounts=tuple(mounts.values()),
        devices=tuple(devices.values()),
        annotations={**container.annotations, **by.annotations},
    )


def _entries(given: Adjustment) -> Iterator[str]:
    yield from (f'env "{name}"' for name in given.env)
    yield from (f'mount "{mount.destination}"' for mount in given.mounts)
    yield from (f'device "{device.path}"' for device in given.devices)
    yield from (f'CDI device "{name}"' for name in given.cdi)
    yield from (f'annotation "{name}"' for name in given.annotations)
