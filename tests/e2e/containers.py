"""What runs on the node, as runc made it: its bundles and the processes themselves.

So it can be read while kubelet, the runtime or the API server are away, and nothing that any of
them remembers counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from tessera_core.hook.limits_file import PATH, BadLimits, HookLimits, decode_limits
from tests.node.island import Island

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
NOTHING = frozenset({"", "void", "none"})
FILES = "/var/lib/tessera/containers"
_TASKS = "state/io.containerd.runtime.v2.task/k8s.io"
_CRI = "io.kubernetes.cri"


class Running(Struct, frozen=True, kw_only=True):
    """A container with a living process."""

    id: str
    pid: int
    """As the node counts."""
    uid: str
    """Its pod's."""
    namespace: str
    pod: str
    name: str
    env: Mapping[str, str]
    mounts: Mapping[str, str]
    """Where in it -> where on the node."""

    @property
    def cards(self) -> frozenset[str]:
        """Those that it sees."""
        return frozenset(self.env.get(VISIBLE, "").split(",")) - NOTHING


class Containers:
    """Those of the node's pods."""

    def __init__(self, island: Island) -> None:
        self._island = island

    def running(self) -> list[Running]:
        """All that have a process now, without sandboxes."""
        tasks = self._island.outside(self._island.own / _TASKS)
        found = (self._read(task) for task in (tasks.iterdir() if tasks.exists() else ()))
        return [one for one in found if one is not None and self.is_running(one)]

    def is_running(self, one: Running) -> bool:
        """Whether its process is there, and is its own: numbers are used again."""
        try:
            groups = self._island.outside(f"/proc/{one.pid}/cgroup").read_text()
            state = self._island.outside(f"/proc/{one.pid}/stat").read_text()
        except OSError:
            return False
        return one.id in groups and state.rpartition(")")[2].split()[0] not in "ZX"

    def limits(self, one: Running) -> HookLimits | None:
        """What its hook reads; None where it has no such file, or one that says nothing."""
        source = one.mounts.get(PATH)
        if source is None:
            return None
        for _ in range(5):  # it may be read while it is written
            try:
                return decode_limits(self._island.outside(source).read_bytes())
            except (BadLimits, OSError):
                continue
        return None

    def pods_with_files(self) -> set[str]:
        """Uids of the pods for whose containers files are kept."""
        folder = self._island.outside(FILES)
        return {path.name for path in folder.iterdir()} if folder.exists() else set()

    def _read(self, task: Path) -> Running | None:
        try:
            spec = json.loads((task / "config.json").read_text())
            pid = int((task / "init.pid").read_text())
        except (OSError, ValueError):
            return None
        notes = spec.get("annotations", {})
        if notes.get(f"{_CRI}.container-type") != "container":
            return None
        words = (word.partition("=") for word in spec["process"].get("env", ()))
        return Running(
            id=task.name, pid=pid, uid=notes[f"{_CRI}.sandbox-uid"],
            namespace=notes[f"{_CRI}.sandbox-namespace"], pod=notes[f"{_CRI}.sandbox-name"],
            name=notes[f"{_CRI}.container-name"], env={name: value for name, _, value in words},
            mounts={m["destination"]: m.get("source", "") for m in spec["mounts"]},
        )  # fmt: skip
